"""The console: the runbook in a browser, for the people who ask, decide and operate."""
