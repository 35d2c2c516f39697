"""Commands about cases: start one, read the runbook, decide at gates, and the REPL."""
