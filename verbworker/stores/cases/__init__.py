"""Tables of cases: runbook entries and events, instances, dispatches, payloads, gates and stalls."""
