"""The payload of a process: canonical JSON, the sealed envelope, merging, upgrades, and the boundary of a job.

It does no I/O.
"""
