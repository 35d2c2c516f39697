"""Mutants of the product: each breaks one requirement, and a test that is marked with it must go red."""
