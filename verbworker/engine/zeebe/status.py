"""The table that maps gRPC statuses to verbworker's errors."""

from dataclasses import dataclass
from typing import Final, Literal

import grpc
from grpc import StatusCode

from verbworker.engine.refusal_texts import BY_WORDS
from verbworker.errors import (
    AccessDenied,
    AlreadyStarted,
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
    "SetVariables",
    "StreamActivatedJobs",
    "ThrowError",
    "Topology",
    "UpdateJobRetries",
    "UpdateJobTimeout",
]
"""The gateway calls that verbworker uses."""

_JOB: Final[frozenset[Rpc]] = frozenset(
    ("CompleteJob", "FailJob", "ThrowError", "UpdateJobRetries", "UpdateJobTimeout", "ResolveIncident")
)
_CAN_BE_LATE: Final[frozenset[Rpc]] = _JOB | {"CancelProcessInstance", "SetVariables"}

_TOO_LARGE: Final = "The command is too large for Zeebe: keep the variables together under 1 MiB."


@dataclass(frozen=True, slots=True)
class Row:
    """One meaning of a status: the calls it applies to, the error it becomes, and advice for the reader."""

    code: StatusCode
    error: type[EngineError]
    words: str = ""  # only if the reason contains them
    rpcs: frozenset[Rpc] | None = None  # only these calls
    advice: str = ""

    def covers(self, code: StatusCode, reason: str, rpc: Rpc) -> bool:
        """Return whether this row applies to an answer."""
        return code is self.code and self.words in reason.lower() and (self.rpcs is None or rpc in self.rpcs)


TABLE: Final[tuple[Row, ...]] = (
    # A command on a job, an incident or an instance can be late; an unknown process is a mistake.
    Row(StatusCode.NOT_FOUND, JobGone, rpcs=_CAN_BE_LATE),
    Row(StatusCode.NOT_FOUND, CommandInvalid),
    *(Row(StatusCode.FAILED_PRECONDITION, error, words=words) for words, error in BY_WORDS),
    Row(StatusCode.FAILED_PRECONDITION, JobNotActive, rpcs=_JOB),
    Row(StatusCode.FAILED_PRECONDITION, CommandInvalid),
    Row(
        StatusCode.INVALID_ARGUMENT,
        CommandInvalid,
        words="multi-tenancy is disabled",
        advice="This cluster runs without multi-tenancy: name no tenant, or only <default>.",
    ),
    Row(
        StatusCode.INVALID_ARGUMENT,
        CommandInvalid,
        words="no tenant identifier",
        advice="This cluster runs with multi-tenancy: name a tenant of this client in CAMUNDA_TENANT_IDS.",
    ),
    Row(StatusCode.INVALID_ARGUMENT, CommandInvalid),
    Row(StatusCode.OUT_OF_RANGE, CommandInvalid),
    Row(StatusCode.ALREADY_EXISTS, AlreadyStarted, words="business id"),
    Row(StatusCode.ALREADY_EXISTS, CommandInvalid),
    # gRPC itself sends three of these: one status means ask for fewer jobs, slow down, or do not retry.
    Row(
        StatusCode.RESOURCE_EXHAUSTED,
        AnswerTooLarge,
        words="received message larger than max",
        advice="Request fewer jobs per call, or raise ZEEBE_MAX_MESSAGE_SIZE to what the gateway allows.",
    ),
    Row(StatusCode.RESOURCE_EXHAUSTED, CommandInvalid, words="sent message larger than max", advice=_TOO_LARGE),
    Row(StatusCode.RESOURCE_EXHAUSTED, CommandInvalid, words="message exceeds maximum size", advice=_TOO_LARGE),
    Row(StatusCode.RESOURCE_EXHAUSTED, Backpressure),
    Row(StatusCode.UNKNOWN, CommandInvalid, words="exceeded_batch_record_size", advice=_TOO_LARGE),
    Row(StatusCode.INTERNAL, CommandInvalid, words="exceeded_batch_record_size", advice=_TOO_LARGE),
    # The broker's own limit, where the gateway's is higher.
    Row(StatusCode.INTERNAL, CommandInvalid, words="above configured maxmessagesize", advice=_TOO_LARGE),
    Row(StatusCode.UNAVAILABLE, EngineUnavailable),
    Row(StatusCode.DEADLINE_EXCEEDED, EngineUnavailable),
    Row(StatusCode.INTERNAL, EngineUnavailable),  # also the answer of a paused partition
    Row(StatusCode.CANCELLED, EngineUnavailable),
    Row(StatusCode.ABORTED, EngineUnavailable),
    Row(StatusCode.UNKNOWN, EngineUnavailable),
    Row(StatusCode.DATA_LOSS, EngineUnavailable),
    Row(
        StatusCode.UNAUTHENTICATED,
        AccessDenied,
        advice="Check client id, secret, token URL and audience (CAMUNDA_CLIENT_ID, CAMUNDA_CLIENT_SECRET,"
        " CAMUNDA_OAUTH_URL, CAMUNDA_TOKEN_AUDIENCE), or the user and password of Basic.",
    ),
    Row(
        StatusCode.PERMISSION_DENIED,
        AccessDenied,
        advice="Give this client the permission and the tenant: a worker needs UPDATE_PROCESS_INSTANCE,"
        " a starter CREATE_PROCESS_INSTANCE, a publisher MESSAGE:CREATE.",
    ),
    Row(
        StatusCode.UNIMPLEMENTED,
        CommandInvalid,
        advice="What answers at this address does not offer the call: it is no Zeebe gateway, one with gRPC"
        " switched off, or one older than 8.6.",
    ),
)
"""In order: the first row that covers an answer applies."""

REPEATED: Final = frozenset({StatusCode.ALREADY_EXISTS})
"""The answer for a message still buffered under its id: it counts as published."""

_LONGEST_REASON: Final = 8_000  # characters; it goes into logs and sentences
_ECHO: Final = "Invalid JSON value:"


def translate(error: grpc.aio.AioRpcError, rpc: Rpc) -> EngineError:
    """Translate `error`: the class determines what to do, the text keeps the engine's own reason."""
    code, reason = error.code(), _reason(error)
    row = next(row for row in TABLE if row.covers(code, reason, rpc))
    advice = f" {row.advice}" if row.advice else ""
    stop = "" if reason.endswith(".") or not advice else "."
    return row.error(f"Zeebe {_did(row.error)} {rpc} ({code.name}): {reason}{stop}{advice}")


def _did(kind: type[EngineError]) -> str:
    if issubclass(kind, Backpressure):
        return "is too busy for"
    return "did not perform" if issubclass(kind, EngineUnavailable) else "refused"


def _reason(error: grpc.aio.AioRpcError) -> str:
    text = (error.details() or "no reason given").strip()
    # The gateway repeats a document it cannot parse, and documents may hold data that must not be logged.
    if _ECHO in text:
        text = text[: text.index(_ECHO)] + "the variables are not valid JSON"
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + " [...]"
