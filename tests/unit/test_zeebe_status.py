"""Every gRPC status, row by row: the error it becomes and the words it keeps."""

from typing import get_args

import grpc
import pytest
from grpc import StatusCode

from verbworker.engine.zeebe.status import TABLE, Rpc, translate
from verbworker.errors import (
    AccessDenied,
    AlreadyStarted,
    AnswerTooLarge,
    Backpressure,
    CommandInvalid,
    EngineError,
    EngineUnavailable,
    InstanceSuspended,
    JobGone,
    JobNotActive,
    LeaseLost,
)

BROKER_IS_BUSY = (
    "Expected to activate jobs of type 'x', but no jobs available and at least one broker returned"
    " 'RESOURCE_EXHAUSTED'. Please try again later."
)
ROWS: list[tuple[StatusCode, str, Rpc, type[EngineError]]] = [
    (StatusCode.NOT_FOUND, "no such job was found", "CompleteJob", JobGone),
    (StatusCode.NOT_FOUND, "no such job was found", "FailJob", JobGone),
    (StatusCode.NOT_FOUND, "no such job was found", "ThrowError", JobGone),
    (StatusCode.NOT_FOUND, "no such job was found", "UpdateJobTimeout", JobGone),
    (StatusCode.NOT_FOUND, "no such job was found", "UpdateJobRetries", JobGone),
    (StatusCode.NOT_FOUND, "no such incident was found", "ResolveIncident", JobGone),
    (StatusCode.NOT_FOUND, "no such process was found", "CancelProcessInstance", JobGone),
    (StatusCode.NOT_FOUND, "no such element was found", "SetVariables", JobGone),
    (StatusCode.NOT_FOUND, "process ID 'x', but none found", "CreateProcessInstance", CommandInvalid),
    (StatusCode.FAILED_PRECONDITION, "in state 'FAILED'", "CompleteJob", JobNotActive),
    (StatusCode.FAILED_PRECONDITION, "it is not active", "UpdateJobTimeout", JobNotActive),
    (StatusCode.FAILED_PRECONDITION, "the supplied lease token does not match. The job", "FailJob", LeaseLost),
    (StatusCode.FAILED_PRECONDITION, "but a matching lease token must be provided", "ThrowError", LeaseLost),
    (StatusCode.FAILED_PRECONDITION, "the process instance is suspended.", "CompleteJob", InstanceSuspended),
    (StatusCode.FAILED_PRECONDITION, "the process instance is suspended.", "SetVariables", InstanceSuspended),
    (StatusCode.FAILED_PRECONDITION, "but it is currently suspended.", "SetVariables", InstanceSuspended),
    (StatusCode.FAILED_PRECONDITION, "is a child", "CancelProcessInstance", CommandInvalid),
    (StatusCode.FAILED_PRECONDITION, "no none start event", "CreateProcessInstance", CommandInvalid),
    (StatusCode.INVALID_ARGUMENT, "encountered the following errors", "DeployResource", CommandInvalid),
    (StatusCode.INVALID_ARGUMENT, "but multi-tenancy is disabled", "ActivateJobs", CommandInvalid),
    (StatusCode.INVALID_ARGUMENT, "no tenant identifier was provided.", "ActivateJobs", CommandInvalid),
    (StatusCode.OUT_OF_RANGE, "too far", "PublishMessage", CommandInvalid),
    (StatusCode.ALREADY_EXISTS, "already published", "CreateProcessInstance", CommandInvalid),
    (StatusCode.ALREADY_EXISTS, "with business id 'o-1', but", "CreateProcessInstance", AlreadyStarted),
    (StatusCode.RESOURCE_EXHAUSTED, BROKER_IS_BUSY, "ActivateJobs", Backpressure),
    (
        StatusCode.RESOURCE_EXHAUSTED,
        "CLIENT: Received message larger than max (5000031 vs. 4194304)",
        "ActivateJobs",
        AnswerTooLarge,
    ),
    (
        StatusCode.RESOURCE_EXHAUSTED,
        "CLIENT: Sent message larger than max (5000031 vs. 4194304)",
        "CompleteJob",
        CommandInvalid,
    ),
    (
        StatusCode.RESOURCE_EXHAUSTED,
        "gRPC message exceeds maximum size 4194304: 5000022",
        "CompleteJob",
        CommandInvalid,
    ),
    (StatusCode.UNKNOWN, "rejected with code 'EXCEEDED_BATCH_RECORD_SIZE': ", "CompleteJob", CommandInvalid),
    (StatusCode.INTERNAL, "rejected with code 'EXCEEDED_BATCH_RECORD_SIZE': ", "CompleteJob", CommandInvalid),
    (
        StatusCode.INTERNAL,
        "code: MALFORMED_REQUEST, message: Request size is above configured maxMessageSize.",
        "CompleteJob",
        CommandInvalid,
    ),
    (StatusCode.UNKNOWN, "Stream removed", "CompleteJob", EngineUnavailable),
    (StatusCode.UNAVAILABLE, "failed to connect to all addresses", "CompleteJob", EngineUnavailable),
    (StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", "CompleteJob", EngineUnavailable),
    (StatusCode.INTERNAL, "processing paused", "CompleteJob", EngineUnavailable),
    (StatusCode.CANCELLED, "stream reset", "StreamActivatedJobs", EngineUnavailable),
    (StatusCode.ABORTED, "try again", "PublishMessage", EngineUnavailable),
    (StatusCode.DATA_LOSS, "lost", "Topology", EngineUnavailable),
    (StatusCode.UNAUTHENTICATED, "Expected bearer token at header", "Topology", AccessDenied),
    (
        StatusCode.PERMISSION_DENIED,
        "tenant is not authorized to perform this request",
        "ActivateJobs",
        AccessDenied,
    ),
    (StatusCode.UNIMPLEMENTED, "Method not found", "StreamActivatedJobs", CommandInvalid),
]


def refusal(code: StatusCode, details: str | None) -> grpc.aio.AioRpcError:
    nothing = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(code, nothing, nothing, details=details)


@pytest.mark.req("FAIL-07", "FAIL-08")
@pytest.mark.parametrize(("code", "words", "rpc", "expected"), ROWS)
def test_a_status_becomes_the_error_that_says_what_to_do(
    code: StatusCode, words: str, rpc: Rpc, expected: type[EngineError]
) -> None:
    error = translate(refusal(code, words), rpc)

    assert type(error) is expected
    assert words.strip() in str(error)
    assert rpc in str(error)


@pytest.mark.req("FAIL-06")
@pytest.mark.parametrize("rpc", get_args(Rpc))
def test_every_call_that_a_busy_broker_rejects_is_backpressure(rpc: Rpc) -> None:
    assert type(translate(refusal(StatusCode.RESOURCE_EXHAUSTED, BROKER_IS_BUSY), rpc)) is Backpressure


@pytest.mark.parametrize("code", [code for code in StatusCode if code is not StatusCode.OK])
def test_every_status_has_a_meaning_for_every_call(code: StatusCode) -> None:
    rpcs: tuple[Rpc, ...] = ("Topology", "ActivateJobs", "CompleteJob", "CancelProcessInstance")
    errors = [translate(refusal(code, None), rpc) for rpc in rpcs]

    assert all(isinstance(error, EngineError) for error in errors)


def test_every_row_of_the_table_is_reached() -> None:
    reached = {next(row for row in TABLE if row.covers(code, words, rpc)) for code, words, rpc, _ in ROWS}

    assert reached == set(TABLE)


def test_a_refusal_without_a_reason_says_so() -> None:
    assert "no reason given" in str(translate(refusal(StatusCode.UNAVAILABLE, None), "Topology"))


def test_a_document_that_the_gateway_repeats_is_left_out() -> None:
    echo = 'Invalid JSON value: {"iban":"DE02120300000000202051" oops}\n at [Source: REDACTED]'

    assert "DE0212" not in str(translate(refusal(StatusCode.INVALID_ARGUMENT, echo), "CompleteJob"))


def test_a_reason_of_many_pages_is_cut() -> None:
    assert len(str(translate(refusal(StatusCode.INVALID_ARGUMENT, "x" * 50_000), "DeployResource"))) < 9_000


@pytest.mark.parametrize(
    ("code", "words", "advice"),
    [
        (StatusCode.INVALID_ARGUMENT, "multi-tenancy is disabled", "name no tenant"),
        (StatusCode.INVALID_ARGUMENT, "no tenant identifiers were provided.", "CAMUNDA_TENANT_IDS"),
        (StatusCode.UNAUTHENTICATED, "no token", "CAMUNDA_CLIENT_SECRET"),
        (StatusCode.PERMISSION_DENIED, "insufficient", "UPDATE_PROCESS_INSTANCE"),
        (StatusCode.UNIMPLEMENTED, "unknown service", "not a Zeebe gateway"),
        (StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max", "fewer jobs"),
    ],
)
def test_what_the_reader_can_change_is_told(code: StatusCode, words: str, advice: str) -> None:
    assert advice in str(translate(refusal(code, words), "ActivateJobs"))
