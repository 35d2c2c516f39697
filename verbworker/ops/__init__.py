"""Ops is what a person or an operator touches."""
