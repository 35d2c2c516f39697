"""Decisions about one job: the states of its frame, the outcome of a run, and the outcome of each error.

Pure; stores and engines act on these decisions.
"""
