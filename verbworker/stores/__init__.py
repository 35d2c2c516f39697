"""Data access: one module per table family, each with its own file in sql/queries."""
