"""Refusals of Camunda that share one status and differ in their words only, for gRPC and REST alike.

FAILED_PRECONDITION and 409 INVALID_STATE mean a lost lease, a suspended instance, and a job in a backoff or an
incident. The words are those of 8.10; older versions know neither leases nor suspension.
"""

from typing import Final

from verbworker.errors import EngineError, InstanceSuspended, LeaseLost

BY_WORDS: Final[tuple[tuple[str, type[EngineError]], ...]] = (
    # The job is leased, and the command named no token, or an empty one.
    ("a matching lease token must be provided", LeaseLost),
    # The token is an older delivery's, or was never given out.
    ("lease token does not match", LeaseLost),
    ("the process instance is suspended", InstanceSuspended),
    # Of a modification, by which REST looks whether an instance exists.
    ("but it is currently suspended", InstanceSuspended),
)
"""In order: the first words that a reason contains, in lower case, decide; with none of them the job is not active."""
