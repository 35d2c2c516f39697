"""Attacks on the product, each of which must be held off."""
