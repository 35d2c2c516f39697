"""Development on one machine: a database, a worker that reloads saved files, and the runbook's events live."""
