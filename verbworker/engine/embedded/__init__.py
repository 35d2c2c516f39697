"""The embedded engine: tokens in Postgres, moved by a pure kernel, held to what the real broker does."""
