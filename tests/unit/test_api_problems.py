"""Refusals of the HTTP API: what a caller is told while the database is away."""

import json

import pytest
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
