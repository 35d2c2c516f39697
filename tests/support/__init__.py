"""Real parts for tests: Postgres, Zeebe, and the marks that tie tests to requirements."""
