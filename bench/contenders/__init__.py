"""The clients that `zeebe_jobs.py` measures: each a process that completes a number of jobs and tells how it went."""
