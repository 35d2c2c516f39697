"""Stores remember: one module per table family, each beside its file in sql/queries."""
