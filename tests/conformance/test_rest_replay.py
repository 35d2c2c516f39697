"""What our engine sends to REST and reads from it, byte for byte, in the order in which a real 8.9.17 was recorded."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from email.parser import BytesParser
from email.policy import HTTP
from hashlib import sha256
from typing import Any

import pytest

from tests.support.recorded_story import MODEL, STORY, NotSent, OurCall, render_table
from tests.support.rest_replay import (
    RECORDING,
    WRITINGS,
    Answer,
    Exchange,
    Seen,
    now,
    problem,
    recorded,
    replayed,
    rest_server,
    wire_json,
)
from verbworker.engine.zeebe.connection import Basic, GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import (
    Backpressure,
    CommandInvalid,
    EngineError,
    EngineUnavailable,
    JobGone,
    JobNotActive,
    NotOffered,
)

# The recording as it was made. It is data: an edit would be a claim that no server made.
DIGEST = "f87b7b5978f54f410d4ac3c8f1acdb5dcbea9fc17945aaca837da9a0c906eac1"
LIMIT_S = 30.0  # of a call; a machine on which other tests run needs seconds for all of them at once

OURS = [(exchange, call) for exchange, (_, call) in zip(recorded(), STORY, strict=True) if isinstance(call, OurCall)]


@asynccontextmanager
async def engine_at(url: str, *, limit: float = 10.0, basic: Basic | None = None) -> AsyncIterator[ZeebeEngine]:
    connection = GatewayAddress(rest_url=url, transport="rest", call_timeout_s=limit, credentials=basic)
    async with ZeebeEngine(connection, engine_id="test") as engine:
        yield engine


async def outcome(call: OurCall, engine: ZeebeEngine) -> Any:
    """What the call gives, or the class of its error."""
    try:
        return await call.send(engine)
    except EngineError as error:
        return type(error)


def test_the_recording_is_the_one_that_was_made() -> None:
    assert sha256(RECORDING.read_bytes()).hexdigest() == DIGEST


def test_every_recorded_exchange_has_its_line_in_order() -> None:
    assert [name for name, _ in STORY] == [exchange.name for exchange in recorded()]
    assert all(exchange.written in RECORDING.read_bytes() for exchange in recorded())


def test_the_table_beside_the_recording_is_this_story() -> None:
    page = (RECORDING.parent / "README.md").read_text()

    assert render_table() in page, "run `python -m tests.support.recorded_story`"


def test_a_reason_is_given_exactly_where_we_send_something_else() -> None:
    assert all(bool(call.why) == (call.ours is not None) for _, call in OURS)
    assert all(call.why for _, call in STORY if isinstance(call, NotSent))


@pytest.mark.parametrize("writing", WRITINGS)
async def test_the_recorded_story_is_sent_and_understood_byte_for_byte(writing: str) -> None:
    answers = iter([replayed(exchange, writing) for exchange, _ in OURS])
    with rest_server(lambda _: next(answers)) as server:
        async with engine_at(server.url) as engine:
            given = [await outcome(call, engine) for _, call in OURS]

    assert [(exchange.name, found) for (exchange, _), found in zip(OURS, given, strict=True)] == [
        (exchange.name, call.gives) for exchange, call in OURS
    ]
    for (exchange, call), seen in zip(OURS, server.seen, strict=True):
        assert (seen.method, seen.path) == (exchange.method, exchange.path)
        check_body(exchange, call, seen)
        check_headers(seen)
    assert len({seen.connection for seen in server.seen}) == 1


def check_body(exchange: Exchange, call: OurCall, seen: Seen) -> None:
    if isinstance(exchange.request, str):
        assert files_of(seen) == [(exchange.request.removeprefix("multipart: resources="), MODEL)]
    elif call.ours is not None:
        assert seen.body == wire_json(call.ours(exchange.request)), exchange.name
        assert call.ours(exchange.request) != exchange.request, f"{exchange.name} is sent as recorded: needs no reason"
    else:
        assert seen.body == (b"" if exchange.request is None else wire_json(exchange.request)), exchange.name


def files_of(seen: Seen) -> list[tuple[str | None, bytes]]:
    head = f"Content-Type: {seen.headers['Content-Type']}\r\n\r\n".encode()
    parts: Any = BytesParser(policy=HTTP).parsebytes(head + seen.body).iter_parts()
    found = []
    for part in parts:
        assert part.get_param("name", header="content-disposition") == "resources"
        found.append((part.get_filename(), part.get_payload(decode=True)))
    return found


def check_headers(seen: Seen) -> None:
    """A body has its length and type, nothing is chunked, and nothing of an earlier answer comes along."""
    headers = {name.lower(): value for name, value in seen.headers.items()}
    assert headers["accept"] == "application/json"
    assert headers["accept-encoding"] == "identity"
    assert not {"transfer-encoding", "cookie", "authorization", "expect"} & set(headers)
    if seen.body:
        assert int(headers["content-length"]) == len(seen.body)
        assert headers["content-type"].split(";")[0] in ("application/json", "multipart/form-data")
    else:
        assert "content-type" not in headers


async def test_basic_goes_with_every_request_of_the_story_and_cookies_with_none() -> None:
    cookie = {"Set-Cookie": "camunda-session=abc; Path=/"}
    answers = iter([Answer(one.status, one.body, one.content_type, headers=cookie) for one, _ in OURS])
    with rest_server(lambda _: next(answers)) as server:
        async with engine_at(server.url, basic=Basic("demo", "s3cret")) as engine:
            for _, call in OURS:
                await outcome(call, engine)

    headers = [{name.lower(): value for name, value in seen.headers.items()} for seen in server.seen]
    assert {one["authorization"] for one in headers} == {"Basic ZGVtbzpzM2NyZXQ="}
    # A gateway that sees a session wants a token against forged requests too, and refuses what has none.
    assert not any("cookie" in one for one in headers)


async def test_where_a_case_stands_is_read_from_the_two_recorded_searches() -> None:
    elements, subscriptions = (
        next(one for one in recorded() if one.name == name)
        for name in ("search element instances (where it stands)", "search message subscriptions")
    )
    version = recorded()[0]  # which decides whether there are wait states
    answers = {one.path: replayed(one) for one in (version, elements, subscriptions)}
    with rest_server(lambda seen: answers[seen.path]) as server:
        async with engine_at(server.url) as engine:
            found = await engine.waits(int(elements.request["filter"]["processInstanceKey"]))

    assert [(one.element_id, one.type, one.message_name) for one in found] == [
        ("g", "EXCLUSIVE_GATEWAY", None),
        ("c", "UNSPECIFIED", "papers"),
    ]
    sent = {seen.path: seen.body for seen in server.seen if seen.method == "POST"}
    assert sent[elements.path] == wire_json({**elements.request, "page": {"limit": 100}})
    key = elements.request["filter"]["processInstanceKey"]
    assert sent[subscriptions.path] == wire_json({"filter": {"processInstanceKey": key}, "page": {"limit": 100}})


# ---- with faults between the recorded answers ------------------------------------------------------------------------

Fault = Callable[[Exchange], Answer]
HTML = Answer(502, b"<html>bad gateway</html>", "text/html")
FAULTS: dict[str, Answer | Fault] = {
    "404 of a proxy": Answer(404, b"<html>no such page</html>", "text/html"),
    "409": problem(409, "INVALID_STATE", "it is in another state"),
    "404": problem(404, "NOT_FOUND", "no such thing was found"),
    "503": problem(503, "UNAVAILABLE"),
    "502": HTML,
    "504": problem(504, "DEADLINE_EXCEEDED"),
    "slow": Answer(200, b"{}", delay_s=30.0),
    "cut": Answer(200, b'{"jobs":[]}', cut_after=3),
    "recorded, slow": lambda exchange: replace(replayed(exchange), delay_s=30.0),
    "recorded, cut in the head": lambda exchange: Answer(raw=f"HTTP/1.1 {exchange.status} ".encode()),
    "recorded, cut in the body": lambda exchange: cut(exchange, len(exchange.body) // 2),
    "recorded, cut before its last byte": lambda exchange: cut(exchange, len(exchange.body) - 1),
    "closed": Answer(raw=b""),
    "garbage": Answer(200, b"\xff\xfe{"),
    "no HTTP": Answer(raw=b"\x00\x01 SSH-2.0\r\n\r\n"),
}


def cut(exchange: Exchange, after: int) -> Answer:
    """The recorded answer with a body that ends too early; without a body, nothing of it."""
    return replace(replayed(exchange), cut_after=after) if exchange.body else Answer(raw=b"")


def faulty(fault: Answer | Fault) -> Iterator[Answer]:
    for exchange, _ in OURS:
        yield fault if isinstance(fault, Answer) else fault(exchange)
        yield replayed(exchange)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_before_every_answer_is_one_error_in_time_and_nothing_is_sent_twice(fault: str) -> None:
    answers, met, given = faulty(FAULTS[fault]), [], []
    with rest_server(lambda _: next(answers)) as server:
        # Good answers get more time: this machine may be busy.
        async with (
            engine_at(server.url, limit=0.3 if fault.endswith("slow") else 10.0) as hasty,
            engine_at(server.url) as engine,
        ):
            for _, call in OURS:
                began, before = now(), len(server.seen)
                met.append(await outcome(call, hasty))
                assert (len(server.seen) - before, now() - began < 15.0) == (1, True)
                given.append(await outcome(call, engine))

    assert given == [call.gives for _, call in OURS]
    refuses = fault in ("409", "404")
    for (exchange, _), error in zip(OURS, met, strict=True):
        if not refuses:
            assert error is EngineUnavailable, exchange.name
        elif error is not None:  # a message that is there already, or that nothing waits for, is no error
            assert issubclass(error, (JobGone, JobNotActive, CommandInvalid, NotOffered)), exchange.name


@pytest.mark.parametrize("busy", [problem(429, "RESOURCE_EXHAUSTED"), problem(503, "RESOURCE_EXHAUSTED")])
async def test_a_busy_cluster_is_asked_again_with_the_same_bytes(busy: Answer) -> None:
    answers = faulty(busy)
    with rest_server(lambda _: next(answers)) as server:
        async with engine_at(server.url) as engine:
            given = [await outcome(call, engine) for _, call in OURS]

    assert given == [call.gives for _, call in OURS]
    first, again = server.seen[::2], server.seen[1::2]
    assert [one.path for one in first] == [one.path for one in again]
    assert [one.body for one in first] == [one.body for one in again]


async def test_a_busy_cluster_is_given_up_in_time() -> None:
    with rest_server(lambda _: problem(503, "RESOURCE_EXHAUSTED")) as server:
        async with engine_at(server.url, limit=LIMIT_S) as engine, asyncio.timeout(2 * LIMIT_S):
            met = await asyncio.gather(*(outcome(call, engine) for _, call in OURS))

    assert set(met) <= {Backpressure, EngineUnavailable}
    assert Backpressure in met
    assert len(server.seen) <= 4 * len(OURS)
