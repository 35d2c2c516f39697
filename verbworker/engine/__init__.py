"""The engine protocol and its implementations: Zeebe, embedded and inline.

An engine knows nothing of verbs, frames or retry policies.
"""
