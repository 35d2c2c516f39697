"""What verbworker asks of a process engine, and the engines that answer: Zeebe, embedded and inline.

An engine knows nothing of verbs, frames or retry policies.
"""
