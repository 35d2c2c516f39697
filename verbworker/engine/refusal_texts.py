"""Refusals of Camunda in words, for gRPC and REST alike: what they say of the cause, and what we say of them.

FAILED_PRECONDITION and 409 INVALID_STATE mean a lost lease, a suspended instance, and a job in a backoff or an
incident. The words are those of 8.10; older versions know neither leases nor suspension.
"""

from typing import Final

from verbworker.errors import Backpressure, EngineError, EngineUnavailable, InstanceSuspended, LeaseLost

BY_WORDS: Final[tuple[tuple[str, type[EngineError]], ...]] = (
    # The job is leased, and the command named no token, or an empty one.
    ("a matching lease token must be provided", LeaseLost),
    # The token is an older delivery's, or was never given out.
    ("lease token does not match", LeaseLost),
    ("the process instance is suspended", InstanceSuspended),
    # Of a modification, by which the worker asks whether an instance exists.
    ("but it is currently suspended", InstanceSuspended),
)
"""In order: the first words that a reason contains, in lower case, decide; with none of them the job is not active."""

TOO_LARGE: Final = "The command is too large for Zeebe: keep the variables together under 1 MiB."
TENANTS: Final = (
    (
        "multi-tenancy is disabled",
        "This cluster runs without multi-tenancy: name no tenant, or only <default>.",
    ),
    (
        "no tenant identifier",
        "This cluster runs with multi-tenancy: name a tenant of this client in CAMUNDA_TENANT_IDS.",
    ),
)
"""Words of a refusal that is about a tenant, and the advice."""
CREDENTIALS: Final = (
    "Check client id, secret, token URL and audience (CAMUNDA_CLIENT_ID, CAMUNDA_CLIENT_SECRET, CAMUNDA_OAUTH_URL,"
    " CAMUNDA_TOKEN_AUDIENCE), or the user and password of Basic."
)
PERMISSION: Final = (
    "Give this client the permission and the tenant: a worker needs UPDATE_PROCESS_INSTANCE, a starter"
    " CREATE_PROCESS_INSTANCE, a publisher MESSAGE:CREATE."
)

_LONGEST_REASON: Final = 8_000  # characters; it goes into logs and sentences
_ECHO: Final = "Invalid JSON value:"


def sentence(kind: type[EngineError], what: str, code: str, reason: str, advice: str) -> str:
    """Return what the engine did with a request, its code and reason, and what to do."""
    if issubclass(kind, Backpressure):
        did = "is too busy for"
    else:
        did = "did not perform" if issubclass(kind, EngineUnavailable) else "refused"
    end = "" if not advice else f" {advice}" if reason.endswith(".") else f". {advice}"
    return f"Zeebe {did} {what} ({code}): {reason}{end}"


def printable_reason(given: object) -> str:
    """Return the engine's reason without the data of a case, and short enough for a log line."""
    text = given.strip() if isinstance(given, str) and given else "no reason given"
    # The gateway repeats a document it cannot parse, and documents may hold data that must not be logged.
    if _ECHO in text:
        text = text[: text.index(_ECHO)] + "the variables are not valid JSON"
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + " [...]"
