"""The extension profile: a model and its contract compiled to a lock, and what each task promised.

The pure half is here; `verify` checks a project on disk.
"""
