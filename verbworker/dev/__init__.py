"""Developing on one machine: a database, a worker that follows the files, and the runbook as it moves."""
