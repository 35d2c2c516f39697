"""Background services that keep the whole sound: reconciliation, sweep, stalls, retention, archiving and releases."""
