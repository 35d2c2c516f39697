"""Requests that two servers could understand differently, and numbers and cursors that no client makes."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.support.apart import run_apart
from tests.support.api_server import KEY, OTHER_KEY, READ_KEY, ApiServer
from tests.support.embedded_service import VERB

pytestmark = pytest.mark.attack("HTTP")

JSON = ("Content-Type", "application/json")
START = b'{"verb":"shop.case","args":{"name":"h"}}'
_CURSOR = base64.urlsafe_b64encode(b'["2026-01-01T00:00:00+00:00","00000000-0000-0000-0000-000000000001"]').decode()


@dataclass(frozen=True, slots=True)
class Trick:
    """A request, and the statuses that are right; in the path `{entry}` is a case of the first tenant."""

    path: str
    right: tuple[int, ...] = (422,)
    headers: tuple[tuple[str, str], ...] = (("X-Api-Key", KEY),)
    body: bytes | None = None
    method: str = ""


def _start(*headers: tuple[str, str], right: tuple[int, ...], body: bytes = START) -> Trick:
    named = {name.lower() for name, _ in headers}
    return Trick("/v1/entries", right, headers if "content-type" in named else (*headers, JSON), body)


EVENTS = "/v1/entries/{entry}/events"
EVE = (("X-Api-Key", OTHER_KEY),)
TRICKS = {
    "an event behind every number": Trick(f"{EVENTS}?after=99999999999999999999999"),
    "an event behind the last number": Trick(f"{EVENTS}?after=9223372036854775808"),
    "an event before the first": Trick(f"{EVENTS}?after=-1"),
    "a stream behind every number": Trick(f"{EVENTS}/stream?after=99999999999999999999999"),
    "a limit of another script": Trick("/v1/entries?limit=%EF%BC%91"),
    "a limit with an exponent": Trick("/v1/entries?limit=1e2"),
    "a time without end": Trick("/v1/entries?stuck_for=inf"),
    "a time that is none": Trick("/v1/entries?stuck_for=nan"),
    "a null in a filter": Trick("/v1/entries?text=%00"),
    "a line break in a filter": Trick("/v1/entries?verb=a%0d%0ab"),
    "a cursor of bytes": Trick("/v1/entries?cursor=AAAA"),
    "a cursor without end": Trick(f"/v1/entries?cursor={'A' * 5000}"),
    "a cursor made by hand": Trick(f"/v1/entries?cursor={_CURSOR}", (200, 422)),
    "a cursor of another list": Trick(f"/v1/gates?cursor={_CURSOR}", (200, 422)),
    "a state of another script": Trick("/v1/entries?status=%F0%9D%95%AD"),
    "an id and more": Trick("/v1/entries/{entry};x=1"),
    "an id as a number": Trick("/v1/entries/1"),
    "a method in a header": _start(("X-Api-Key", READ_KEY), ("X-HTTP-Method-Override", "GET"), right=(403,)),
    "a second key": _start(("X-Api-Key", READ_KEY), ("X-Api-Key", KEY), right=(400,)),
    "a second key, of another tenant": _start(("X-Api-Key", KEY), ("X-Api-Key", OTHER_KEY), right=(400,)),
    "a key twice": _start(("X-Api-Key", KEY), ("X-Api-Key", KEY), right=(400,)),
    "two tokens": _start(("Authorization", "Bearer a"), ("Authorization", "Bearer b"), right=(400,)),
    "a key beside a token": _start(("X-Api-Key", READ_KEY), ("Authorization", f"Bearer {KEY}"), right=(403,)),
    "a tenant in a header": Trick(
        "/v1/entries/{entry}", (404,), (*EVE, ("X-Tenant-Id", "workshop"), ("tenant_id", "workshop"))
    ),
    "a body said to be compressed": _start(("X-Api-Key", KEY), ("Content-Encoding", "deflate"), right=(415,)),
    "a body said to be compressed twice": _start(("X-Api-Key", KEY), ("Content-Encoding", "gzip, br"), right=(415,)),
    "a body said to be encoded otherwise": _start(("X-Api-Key", KEY), ("Content-Encoding", "x"), right=(415,)),
    "two types": _start(("X-Api-Key", KEY), ("Content-Type", "text/plain"), JSON, right=(400,)),
    "a type beside it": _start(("X-Api-Key", KEY), ("Content-Type", "application/jsonx"), right=(415,)),
    "two keys of one request": _start(
        ("X-Api-Key", KEY), ("Idempotency-Key", "a"), ("Idempotency-Key", "b"), right=(400,)
    ),
    "a body with another start": _start(("X-Api-Key", KEY), right=(422,), body=b"\xef\xbb\xbf" + START),
    "a body in UTF-16": _start(("X-Api-Key", KEY), right=(422,), body=START.decode().encode("utf-16")),
    "a body and more": _start(("X-Api-Key", KEY), right=(422,), body=START + b" {}"),
    "a name twice": _start(("X-Api-Key", KEY), right=(422,), body=b'{"verb":"a","verb":"shop.case"}'),
    "a name twice, escaped": _start(("X-Api-Key", KEY), right=(422,), body=rb'{"verb":"a","\u0076erb":"shop.case"}'),
    "names of objects": _start(
        ("X-Api-Key", KEY), right=(422,), body=b'{"verb":"shop.case","args":{"__proto__":{},"name":"x"}}'
    ),
    "a case of another tenant": Trick("/v1/entries/{entry}", (404,), EVE),
    "events of another tenant": Trick(EVENTS, (404,), EVE),
    "a stream of another tenant": Trick(f"{EVENTS}/stream", (404,), EVE),
    "an end of another tenant": Trick("/v1/entries/{entry}/cancel", (404,), (*EVE, JSON), b'{"reason":"x"}'),
    "a decision of another tenant": Trick("/v1/gates/{entry}/decision", (404,), (*EVE, JSON), b'{"decision":"x"}'),
    "a claim of another tenant": Trick("/v1/gates/{entry}/claim", (404,), (*EVE, JSON), b"{}"),
    "an incident of another tenant": Trick("/v1/incidents/{entry}", (404,), EVE),
    "a question of another site": Trick("/v1/entries", (405,), (("Origin", "https://evil.example"),), method="OPTIONS"),
}


@pytest.fixture(scope="module")
def answers(database_template: Any) -> Iterator[dict[str, httpx.Response]]:
    """What a server answers to each."""

    async def send(dsn: str) -> dict[str, httpx.Response]:
        server, found = ApiServer(dsn), {}
        async with server.serving(), server.caller() as ann, server.caller(None) as sender:
            begun = await ann.post("/v1/entries", json={"verb": VERB, "args": {"name": "one"}}, timeout=60)
            for name, trick in TRICKS.items():
                url = httpx.URL(server.url + trick.path.replace("{entry}", begun.json()["entry_id"]))
                method = trick.method or ("GET" if trick.body is None else "POST")
                headers = list(trick.headers)
                found[name] = await sender.request(method, url, content=trick.body, headers=headers, timeout=60)
        return found

    with database_template.clone() as dsn:
        yield run_apart(send(dsn))


@pytest.mark.parametrize("name", TRICKS)
def test_a_trick_is_answered_by_a_refusal(answers: dict[str, httpx.Response], name: str) -> None:
    answer = answers[name]

    assert answer.status_code in TRICKS[name].right, answer.text[:300]
    assert "access-control-allow-origin" not in answer.headers
    assert "Traceback" not in answer.text
