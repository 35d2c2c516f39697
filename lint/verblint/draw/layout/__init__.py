"""Gives figures and lines their places: those of the diagram in the file, or made-up ones."""
