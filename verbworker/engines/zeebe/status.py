"""The one table that turns a gRPC status into the error verbworker raises."""

from typing import Final, Literal

import grpc
from grpc import StatusCode

from verbworker.errors import (
    AccessDenied,
    AnswerTooLarge,
    Backpressure,
    CommandInvalid,
    EngineError,
    EngineUnavailable,
    JobGone,
    JobNotActive,
)

Rpc = Literal[
    "ActivateJobs",
    "CancelProcessInstance",
    "CompleteJob",
    "CreateProcessInstance",
    "DeployResource",
    "FailJob",
    "PublishMessage",
    "ResolveIncident",
    "StreamActivatedJobs",
    "ThrowError",
    "Topology",
    "UpdateJobRetries",
    "UpdateJobTimeout",
]
"""The calls of the gateway that verbworker makes."""

TABLE: Final[dict[StatusCode, type[EngineError]]] = {
    StatusCode.CANCELLED: EngineUnavailable,
    StatusCode.UNKNOWN: EngineUnavailable,
    StatusCode.INVALID_ARGUMENT: CommandInvalid,
    StatusCode.DEADLINE_EXCEEDED: EngineUnavailable,
    StatusCode.NOT_FOUND: CommandInvalid,
    StatusCode.ALREADY_EXISTS: CommandInvalid,
    StatusCode.PERMISSION_DENIED: AccessDenied,
    StatusCode.RESOURCE_EXHAUSTED: Backpressure,
    StatusCode.FAILED_PRECONDITION: CommandInvalid,
    StatusCode.ABORTED: EngineUnavailable,
    StatusCode.OUT_OF_RANGE: CommandInvalid,
    StatusCode.UNIMPLEMENTED: CommandInvalid,
    StatusCode.INTERNAL: EngineUnavailable,  # also what a paused partition answers
    StatusCode.UNAVAILABLE: EngineUnavailable,
    StatusCode.DATA_LOSS: EngineUnavailable,
    StatusCode.UNAUTHENTICATED: AccessDenied,
}
"""Every status a call can end with; `_BY_CALL` and `_BY_TEXT` are read first."""

_JOB: Final[tuple[Rpc, ...]] = (
    "CompleteJob",
    "FailJob",
    "ThrowError",
    "UpdateJobRetries",
    "UpdateJobTimeout",
    "ResolveIncident",
)

# Only a command on a job, an incident or an instance can come too late; an unknown process is a mistake.
_BY_CALL: Final[dict[tuple[StatusCode, Rpc], type[EngineError]]] = {
    **{(StatusCode.NOT_FOUND, rpc): JobGone for rpc in (*_JOB, "CancelProcessInstance")},
    **{(StatusCode.FAILED_PRECONDITION, rpc): JobNotActive for rpc in _JOB},
}

# One status, several meanings: the gateway, the broker and gRPC itself only differ in their words.
_BY_TEXT: Final[tuple[tuple[StatusCode, str, type[EngineError]], ...]] = (
    (StatusCode.RESOURCE_EXHAUSTED, "received message larger than max", AnswerTooLarge),  # grpc, here
    (StatusCode.RESOURCE_EXHAUSTED, "sent message larger than max", CommandInvalid),  # grpc, here
    (StatusCode.RESOURCE_EXHAUSTED, "message exceeds maximum size", CommandInvalid),  # grpc, in the gateway
    (StatusCode.UNKNOWN, "exceeded_batch_record_size", CommandInvalid),  # the broker's log
)

_ADVICE: Final[tuple[tuple[StatusCode, str, str], ...]] = (
    (
        StatusCode.INVALID_ARGUMENT,
        "multi-tenancy is disabled",
        "This cluster runs without multi-tenancy: name no tenant, or only <default>.",
    ),
    (
        StatusCode.INVALID_ARGUMENT,
        "multi-tenancy is enabled",
        "This cluster runs with multi-tenancy: name a tenant of this client in CAMUNDA_TENANT_IDS.",
    ),
    (
        StatusCode.UNAUTHENTICATED,
        "",
        "Check the client id and secret, the token URL and the audience (CAMUNDA_CLIENT_ID,"
        " CAMUNDA_CLIENT_SECRET, CAMUNDA_OAUTH_URL, CAMUNDA_TOKEN_AUDIENCE), or user and password of Basic.",
    ),
    (
        StatusCode.PERMISSION_DENIED,
        "",
        "Give this client the permission and the tenant; a worker needs UPDATE_PROCESS_INSTANCE,"
        " a starter CREATE_PROCESS_INSTANCE, a publisher MESSAGE:CREATE.",
    ),
    (
        StatusCode.UNIMPLEMENTED,
        "",
        "What answers at this address does not offer the call: it is no Zeebe gateway, one with gRPC"
        " switched off, or one older than 8.6.",
    ),
    (
        StatusCode.UNKNOWN,
        "exceeded_batch_record_size",
        "The variables are too large for one record of the broker; keep a payload under 1 MiB.",
    ),
    (
        StatusCode.RESOURCE_EXHAUSTED,
        "received message larger than max",
        "Ask for fewer jobs at once, or raise ZEEBE_MAX_MESSAGE_SIZE to what the gateway allows.",
    ),
)

REPEATED: Final = frozenset({StatusCode.ALREADY_EXISTS})
"""What a message meets that is still buffered under its id: as good as published."""

_LONGEST_REASON: Final = 8_000
_ECHO: Final = "Invalid JSON value:"


def translate(error: grpc.aio.AioRpcError, rpc: Rpc) -> EngineError:
    """Say `error` in our words: its class tells what to do, its text keeps the engine's own reason."""
    code, reason = error.code(), _reason(error)
    kind = _kind(code, reason.lower(), rpc)
    return kind(f"Zeebe {_did(kind)} {rpc} ({code.name}): {reason}{_advice(code, reason.lower())}")


def _did(kind: type[EngineError]) -> str:
    if issubclass(kind, Backpressure):
        return "is too busy for"
    return "did not perform" if issubclass(kind, EngineUnavailable) else "refused"


def _kind(code: StatusCode, reason: str, rpc: Rpc) -> type[EngineError]:
    for row_code, words, kind in _BY_TEXT:
        if code is row_code and words in reason:
            return kind
    return _BY_CALL.get((code, rpc)) or TABLE.get(code, EngineUnavailable)


def _reason(error: grpc.aio.AioRpcError) -> str:
    text = (error.details() or "no reason given").strip()
    # The gateway repeats a document it cannot parse, and documents hold what nobody may log.
    if _ECHO in text:
        text = text[: text.index(_ECHO)] + "the variables are not valid JSON"
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + " [...]"


def _advice(code: StatusCode, reason: str) -> str:
    for row_code, words, advice in _ADVICE:
        if code is row_code and words in reason:
            return f". {advice}" if not reason.endswith(".") else f" {advice}"
    return ""
