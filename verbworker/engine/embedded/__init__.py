"""The embedded engine: tokens in Postgres, moved by a pure kernel, tested against the real broker's behaviour."""
