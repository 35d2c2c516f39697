"""Refusals of the HTTP API: what a caller is told while the database is away."""

import json
from types import SimpleNamespace

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from verbworker.api.problem import refuse
from verbworker.errors import StoreUnavailable

AGAIN = "it is unknown whether it was stored; send it again with the same Idempotency-Key"


@pytest.mark.parametrize(
    ("method", "headers", "words"),
    [
        ("GET", [], "the database does not answer; send the request again"),
        ("POST", [(b"idempotency-key", b"order-17")], AGAIN),
        ("POST", [], "it is unknown whether it was stored; read what it is about before you send it again"),
    ],
)
async def test_a_database_that_is_away_is_told_with_what_the_caller_can_do(
    method: str, headers: list[tuple[bytes, bytes]], words: str
) -> None:
    request = Request(
        {"type": "http", "method": method, "path": "/v1/entries", "headers": headers, "query_string": b""}
    )

    answer = await refuse(request, StoreUnavailable("gone"))

    assert (answer.status_code, json.loads(bytes(answer.body))["detail"]) == (503, words)
    assert answer.headers["retry-after"]


@pytest.mark.parametrize(
    ("path", "client", "is_problem"),
    [("/v2", object(), True), ("/v1/x", object(), True), ("/messages", object(), False), ("/v2", None, False)],
)
async def test_only_messages_and_a_server_without_the_api_answer_in_sentences(
    path: str, client: object, is_problem: bool
) -> None:
    app = SimpleNamespace(state=SimpleNamespace(client=client))
    request = Request({"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b"", "app": app})

    answer = await refuse(request, HTTPException(404))

    assert ("error" in json.loads(bytes(answer.body)), answer.status_code) == (not is_problem, 404)
