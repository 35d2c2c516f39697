"""Every REST answer, row by row: the error it becomes and the words it keeps."""

import pytest

from verbworker.engine.zeebe.rest_status import REST_TABLE, read_answer, refusal
from verbworker.errors import (
    AccessDenied,
    AlreadyStarted,
    Backpressure,
    CommandInvalid,
    EngineError,
    EngineUnavailable,
    InstanceSuspended,
    JobGone,
    JobNotActive,
    LeaseLost,
    NotOffered,
    SearchRefused,
)

JOB = "/jobs/2251799813685360/completion"
LOOK = "/process-instances/2251799813685319/modification"
ROWS: list[tuple[int, object, str, type[EngineError]]] = [
    (404, {"title": "NOT_FOUND", "detail": "no such job was found"}, JOB, JobGone),
    (404, {"title": "NOT_FOUND", "detail": "no such job"}, "/jobs/42", JobGone),
    (404, {"title": "NOT_FOUND", "detail": "no such incident"}, "/incidents/7/resolution", JobGone),
    (404, {"title": "NOT_FOUND", "detail": "no such user task"}, "/user-tasks/7/completion", JobGone),
    (404, {"title": "NOT_FOUND", "detail": "no such process"}, "/process-instances/7/cancellation", JobGone),
    (404, {"title": "NOT_FOUND", "detail": "none found"}, "/process-instances", CommandInvalid),
    (404, {"title": "Not Found", "detail": "No static resource"}, JOB, CommandInvalid),
    (405, {"title": "Method Not Allowed"}, "/jobs/activation", CommandInvalid),
    (403, {"title": "FORBIDDEN", "detail": "no secondary storage"}, "/incidents/search", NotOffered),
    (404, {"title": "Not Found", "detail": "No static resource"}, "/incidents/search", NotOffered),
    (405, {"title": "Method Not Allowed"}, "/incidents/search", NotOffered),
    (404, None, "/incidents/search", EngineUnavailable),
    (400, {"title": "Bad Request", "detail": "[filter.x] cannot be parsed"}, "/incidents/search", SearchRefused),
    (400, {"title": "INVALID_ARGUMENT", "detail": "invalid key"}, "/jobs/search", SearchRefused),
    (404, None, JOB, EngineUnavailable),
    (409, {"title": "INVALID_STATE", "detail": "it is in state 'FAILED'"}, JOB, JobNotActive),
    (409, {"title": "INVALID_STATE", "detail": "already assigned"}, "/user-tasks/7/assignment", JobNotActive),
    (409, {"title": "INVALID_STATE", "detail": "but a matching lease token must be provided"}, JOB, LeaseLost),
    (409, {"title": "INVALID_STATE", "detail": "the supplied lease token does not match."}, JOB, LeaseLost),
    (409, {"title": "INVALID_STATE", "detail": "the process instance is suspended."}, JOB, InstanceSuspended),
    (409, {"title": "INVALID_STATE", "detail": "but it is currently suspended."}, LOOK, InstanceSuspended),
    (400, {"title": "INVALID_ARGUMENT", "detail": "the timeout, but it is not active"}, "/jobs/42", JobNotActive),
    (409, {"title": "ALREADY_EXISTS", "detail": "with business id 'o-1'"}, "/process-instances", AlreadyStarted),
    (409, {"title": "INVALID_STATE", "detail": "is a child"}, "/process-instances/7/cancellation", CommandInvalid),
    (409, {"title": "ALREADY_EXISTS", "detail": "already published"}, "/messages/publication", CommandInvalid),
    (400, {"title": "INVALID_ARGUMENT", "detail": "No timeout provided."}, "/jobs/activation", CommandInvalid),
    (400, {"title": "INVALID_ARGUMENT", "detail": "multi-tenancy is disabled"}, "/deployments", CommandInvalid),
    (400, {"title": "INVALID_ARGUMENT", "detail": "no tenant identifier given"}, "/deployments", CommandInvalid),
    (400, {"title": "INVALID_ARGUMENT", "detail": "but it is not active"}, "/jobs/7", JobNotActive),
    (413, None, JOB, CommandInvalid),
    (503, {"title": "RESOURCE_EXHAUSTED", "detail": "message exceeds maximum size"}, JOB, CommandInvalid),
    (500, {"title": "INTERNAL", "detail": "code 'EXCEEDED_BATCH_RECORD_SIZE'"}, JOB, CommandInvalid),
    (500, {"title": "MALFORMED_REQUEST", "detail": "size is above configured maxMessageSize"}, JOB, CommandInvalid),
    (415, {"title": "Unsupported Media Type"}, JOB, CommandInvalid),
    (429, {"title": "RESOURCE_EXHAUSTED", "detail": "too many"}, "/process-instances", Backpressure),
    (503, {"title": "RESOURCE_EXHAUSTED", "detail": "too many"}, "/process-instances", Backpressure),
    (503, {"title": "UNAVAILABLE", "detail": "no leader"}, JOB, EngineUnavailable),
    (504, {"title": "DEADLINE_EXCEEDED", "detail": "timed out"}, JOB, EngineUnavailable),
    (500, {"title": "INTERNAL", "detail": "unexpected"}, JOB, EngineUnavailable),
    (502, None, JOB, EngineUnavailable),
    (302, None, JOB, EngineUnavailable),
    (401, None, JOB, AccessDenied),
    (403, {"title": "FORBIDDEN", "detail": "insufficient"}, "/deployments", AccessDenied),
]


@pytest.mark.req("FAIL-07", "FAIL-08")
@pytest.mark.parametrize(("status", "answer", "path", "expected"), ROWS)
def test_an_answer_becomes_the_error_that_says_what_to_do(
    status: int, answer: object, path: str, expected: type[EngineError]
) -> None:
    error = refusal(read_answer(status, answer, path), "the command")

    assert type(error) is expected
    assert f"the command ({status}" in str(error)
    if isinstance(answer, dict):
        assert str(answer.get("detail", "")).strip() in str(error)


@pytest.mark.parametrize("status", range(300, 600))
def test_every_status_has_a_meaning(status: int) -> None:
    answers: tuple[object, ...] = (None, {}, [], "text", {"title": 7, "detail": ["x"]})
    for answer in answers:
        assert isinstance(refusal(read_answer(status, answer, JOB), "x"), EngineError)


def test_every_row_of_the_table_is_reached() -> None:
    answers = [read_answer(status, answer, path) for status, answer, path, _ in ROWS]
    reached = {next(index for index, row in enumerate(REST_TABLE) if row.covers(answer)) for answer in answers}

    assert reached == set(range(len(REST_TABLE)))


def test_a_document_that_the_gateway_repeats_is_left_out() -> None:
    answer = {"title": "INVALID_ARGUMENT", "detail": 'Invalid JSON value: {"iban":"DE0212" oops}'}

    assert "DE0212" not in str(refusal(read_answer(400, answer, JOB), "x"))


def test_a_reason_of_many_pages_is_cut() -> None:
    answer = {"title": "INVALID_ARGUMENT", "detail": "x" * 50_000}

    assert len(str(refusal(read_answer(400, answer, "/deployments"), "x"))) < 9_000


def test_only_the_engine_itself_can_settle_a_command() -> None:
    assert read_answer(404, {"title": "NOT_FOUND"}, JOB).is_of_engine
    assert not read_answer(404, {"title": "Not Found"}, JOB).is_of_engine
    assert not read_answer(404, None, JOB).is_of_engine
