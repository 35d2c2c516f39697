"""What verbs promise: verbs, workflow verbs, policies, flags and messages, and the registry that holds them.

It knows no engine, no database and no clock.
"""
