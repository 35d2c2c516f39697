"""Background services for upkeep: reconciliation, sweep, stalls, retention, archiving and releases."""
