"""Writes the reference pages of the documentation from the code. `make docs` runs it; nothing of it is committed."""
