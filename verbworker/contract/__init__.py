"""Contracts of verbs: direct and workflow verbs, policies, flags, messages, and the registry that contains them.

Built on what `verblint.contracts` reads from files. Independent of engine, database and clock.
"""
