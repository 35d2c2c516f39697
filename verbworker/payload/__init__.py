"""What a process carries: canonical JSON, the sealed envelope, merging, upgrades, and the boundary in and out of a job.

It does no I/O.
"""
