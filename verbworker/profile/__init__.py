"""The extension profile: compiles a model and its contract to a lock, and to a profile of each task.

The pure half is here; `verify` checks a project on disk.
"""
