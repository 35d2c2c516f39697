"""Contracts of verbs: direct and workflow verbs, policies, flags, messages, and the registry that contains them.

Independent of engine, database and clock.
"""
