"""The table that maps gRPC statuses to verbworker's errors."""

from dataclasses import dataclass
from typing import Final, Literal

import grpc
from grpc import StatusCode

from verbworker.engine.refusal_texts import (
    BY_WORDS,
    CREDENTIALS,
    PERMISSION,
    TENANTS,
    TOO_LARGE,
    printable_reason,
    sentence,
)
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
    "ModifyProcessInstance",
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
_CAN_BE_LATE: Final[frozenset[Rpc]] = _JOB | {"CancelProcessInstance", "ModifyProcessInstance", "SetVariables"}


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
    *(Row(StatusCode.INVALID_ARGUMENT, CommandInvalid, words=words, advice=advice) for words, advice in TENANTS),
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
    Row(StatusCode.RESOURCE_EXHAUSTED, CommandInvalid, words="sent message larger than max", advice=TOO_LARGE),
    Row(StatusCode.RESOURCE_EXHAUSTED, CommandInvalid, words="message exceeds maximum size", advice=TOO_LARGE),
    Row(StatusCode.RESOURCE_EXHAUSTED, Backpressure),
    Row(StatusCode.UNKNOWN, CommandInvalid, words="exceeded_batch_record_size", advice=TOO_LARGE),
    Row(StatusCode.INTERNAL, CommandInvalid, words="exceeded_batch_record_size", advice=TOO_LARGE),
    # The broker's own limit, where the gateway's is higher.
    Row(StatusCode.INTERNAL, CommandInvalid, words="above configured maxmessagesize", advice=TOO_LARGE),
    Row(StatusCode.UNAVAILABLE, EngineUnavailable),
    Row(StatusCode.DEADLINE_EXCEEDED, EngineUnavailable),
    Row(StatusCode.INTERNAL, EngineUnavailable),  # also the answer of a paused partition
    Row(StatusCode.CANCELLED, EngineUnavailable),
    Row(StatusCode.ABORTED, EngineUnavailable),
    Row(StatusCode.UNKNOWN, EngineUnavailable),
    Row(StatusCode.DATA_LOSS, EngineUnavailable),
    Row(StatusCode.UNAUTHENTICATED, AccessDenied, advice=CREDENTIALS),
    Row(StatusCode.PERMISSION_DENIED, AccessDenied, advice=PERMISSION),
    Row(
        StatusCode.UNIMPLEMENTED,
        CommandInvalid,
        advice="What answers at this address does not offer the call: it is not a Zeebe gateway, or one with gRPC"
        " switched off, or one older than 8.6.",
    ),
)
"""In order: the first row that covers an answer applies."""

REPEATED: Final = frozenset({StatusCode.ALREADY_EXISTS})
"""The answer for a message still buffered under its id: it counts as published."""


def translate(error: grpc.aio.AioRpcError, rpc: Rpc) -> EngineError:
    """Translate `error`: the class determines what to do, the text keeps the engine's own reason."""
    code, reason = error.code(), printable_reason(error.details())
    row = next(row for row in TABLE if row.covers(code, reason, rpc))
    return row.error(sentence(row.error, str(rpc), code.name, reason, row.advice))
