"""The REST client against each request and answer of a real 8.9.17, and against every kind of bad answer."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.support.rest_replay import (
    WRITINGS,
    Answer,
    Exchange,
    RestServer,
    Seen,
    now,
    problem,
    recorded,
    replayed,
    rest_server,
    wire_json,
)
from tests.support.token_server import serve, token
from tests.support.told_outages import told_outage
from verbworker.background.outages import ENGINE
from verbworker.engine.protocol import Resource
from verbworker.engine.zeebe.auth import Access, BasicAccess, NoAccess, TokenAccess
from verbworker.engine.zeebe.connection import Basic, GatewayAddress, OAuth
from verbworker.engine.zeebe.rest_client import RestClient
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

COMPLETION = "/jobs/2251799813685360/completion"
LIMIT_S = 2.0
"""For a server that takes its time; long enough for a busy machine to send a request."""
AMPLE_S = 30.0
"""For one that answers at once: only a client that waits for more than the answer comes near it."""
LARGEST_MESSAGE = 65_536


@asynccontextmanager
async def client_at(url: str, access: Access | None = None) -> AsyncIterator[RestClient]:
    client = RestClient(GatewayAddress(rest_url=url, max_message_bytes=LARGEST_MESSAGE), access or NoAccess())
    await client.open()
    try:
        yield client
    finally:
        await client.close()


async def complete(client: RestClient, limit_s: float = AMPLE_S) -> object:
    return await client.call("POST", COMPLETION, {"variables": {}}, what="a completion", timeout_s=limit_s)


async def send(client: RestClient, exchange: Exchange) -> object:
    """Ask what was asked when it was recorded."""
    path = exchange.path.removeprefix("/v2")
    if isinstance(exchange.request, str):
        name = exchange.request.partition("resources=")[2]
        return await client.upload(path, [Resource(name, b"<bpmn/>")], {}, what=exchange.name)
    return await client.call(exchange.method, path, exchange.request, what=exchange.name)


MEANINGS: dict[int, type[EngineError]] = {400: CommandInvalid, 404: JobGone, 409: JobNotActive}


def meaning(exchange: Exchange) -> type[EngineError]:
    """The error that a recorded refusal must become."""
    if exchange.path == "/v2/messages/correlation" or exchange.response["title"] == "ALREADY_EXISTS":
        return CommandInvalid
    return MEANINGS[exchange.status]


@pytest.mark.parametrize("writing", WRITINGS)
async def test_every_recorded_exchange_is_understood_in_its_order(writing: str) -> None:
    exchanges = recorded()
    answers = iter(exchanges)
    with rest_server(lambda _: replayed(next(answers), writing)) as server:
        async with client_at(server.url) as client:
            for exchange in exchanges:
                if exchange.status >= 400:
                    with pytest.raises(meaning(exchange), match=exchange.response["title"]):
                        await send(client, exchange)
                else:
                    assert await send(client, exchange) == exchange.response

    assert server.paths() == [f"{one.method} {one.path}" for one in exchanges]
    sent = [one.body for one in server.seen if "json" in one.headers.get("Content-Type", "")]
    assert sent == [wire_json(one.request) for one in exchanges if isinstance(one.request, dict)]
    assert len({one.connection for one in server.seen}) == 1


TOO_MUCH = json.dumps("x" * 20 * LARGEST_MESSAGE).encode()
FAULTS: dict[str, tuple[Answer, type[EngineError]]] = {
    "not found": (problem(404, "NOT_FOUND"), JobGone),
    "not found by a proxy": (Answer(404, b"<html>gone</html>", "text/html"), EngineUnavailable),
    "another web server": (problem(404, "Not Found"), CommandInvalid),
    "conflict": (problem(409, "INVALID_STATE"), JobNotActive),
    "unavailable": (problem(503, "UNAVAILABLE"), EngineUnavailable),
    "timed out behind": (problem(504, "DEADLINE_EXCEEDED"), EngineUnavailable),
    "internal": (Answer(500, b""), EngineUnavailable),
    "denied": (problem(403, "FORBIDDEN"), AccessDenied),
    "not known": (Answer(401, b""), AccessDenied),
    "redirected": (Answer(302, b"", headers={"Location": "http://127.0.0.1:1/elsewhere"}), EngineUnavailable),
    "slow": (Answer(204, delay_s=30.0), EngineUnavailable),
    "slow body": (Answer(200, b'{"jobs": []}' * 100, drip_s=0.1), EngineUnavailable),
    "cut body": (Answer(200, b'{"jobs": []}', cut_after=5), EngineUnavailable),
    "cut before the body": (Answer(200, b'{"jobs": []}', cut_after=0), EngineUnavailable),
    "cut before a word": (Answer(raw=b""), EngineUnavailable),
    "cut in the head": (Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Le"), EngineUnavailable),
    "no HTTP": (Answer(raw=b"\x00\x01\x02 SSH-2.0\r\n\r\n"), EngineUnavailable),
    "no JSON": (Answer(200, b"<html>welcome</html>", "text/html"), EngineUnavailable),
    "half JSON": (Answer(200, b'{"jobs": ['), EngineUnavailable),
    "nothing where an answer belongs": (Answer(200, b""), EngineUnavailable),
    "an odd status": (Answer(799, b"{}"), EngineUnavailable),
    "headers without end": (Answer(204, headers={"X-Long": "x" * 200_000}), EngineUnavailable),
    "too much": (Answer(200, TOO_MUCH), AnswerTooLarge),
    "too much, announced and slow": (Answer(200, TOO_MUCH, drip_s=0.1), AnswerTooLarge),
    "too much in pieces": (Answer(200, TOO_MUCH, is_chunked=True), AnswerTooLarge),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_bad_answer_is_one_error_in_time_and_the_command_is_sent_once(fault: str) -> None:
    answer, error = FAULTS[fault]
    with rest_server(lambda _: answer) as server:
        async with client_at(server.url) as client:
            began = now()
            with pytest.raises(EngineError) as met:
                await complete(client, LIMIT_S if answer.is_slow else AMPLE_S)

            assert (type(met.value), len(server.seen)) == (error, 1)
            assert now() - began < AMPLE_S


@pytest.mark.parametrize("fault", [name for name, (answer, _) in FAULTS.items() if not answer.delay_s])
async def test_after_a_bad_answer_the_next_call_works(fault: str) -> None:
    answers = iter([FAULTS[fault][0], Answer(204)])
    with rest_server(lambda _: next(answers)) as server:
        async with client_at(server.url) as client:
            with pytest.raises(EngineError):
                await complete(client, LIMIT_S if FAULTS[fault][0].is_slow else AMPLE_S)

            assert await complete(client) is None


async def test_an_answer_ends_an_outage_and_an_error_does_not(caplog: pytest.LogCaptureFixture) -> None:
    answers = iter([problem(503, "UNAVAILABLE"), Answer(204)])
    with rest_server(lambda _: next(answers)) as server:
        async with client_at(server.url) as client:
            is_over = told_outage(ENGINE, caplog)
            with pytest.raises(EngineUnavailable):
                await complete(client)
            after_an_error = is_over()
            await complete(client)

    assert (after_an_error, is_over()) == (False, True)


@pytest.mark.parametrize("busy", [problem(429, "RESOURCE_EXHAUSTED"), problem(503, "RESOURCE_EXHAUSTED")])
async def test_backpressure_is_tried_again_after_a_pause(busy: Answer) -> None:
    answers = iter([busy, busy, Answer(204)])
    with rest_server(lambda _: next(answers)) as server:
        async with client_at(server.url) as client:
            await client.call("POST", COMPLETION, {}, what="a completion")

    assert len(server.seen) == 3


async def test_backpressure_without_end_is_given_up() -> None:
    with rest_server(lambda _: problem(503, "RESOURCE_EXHAUSTED")) as server:
        async with client_at(server.url) as client:
            with pytest.raises(Backpressure, match="too busy for a completion"):
                await client.call("POST", COMPLETION, {}, what="a completion")

    assert len(server.seen) == 4


async def test_a_settled_status_counts_as_done_only_from_the_engine() -> None:
    page = Answer(404, b"<html>", "text/html")
    answers = iter([problem(404, "NOT_FOUND"), page, problem(404, "Not Found")])
    with rest_server(lambda _: next(answers)) as server:
        async with client_at(server.url) as client:

            async def decide() -> object:
                return await client.call("POST", "/user-tasks/7/completion", {}, what="a decision", settled={404})

            assert await decide() is None
            with pytest.raises(EngineUnavailable):
                await decide()
            with pytest.raises(CommandInvalid, match="ZEEBE_REST_ADDRESS"):
                await decide()


async def test_many_calls_share_connections_and_each_gets_its_own_answer() -> None:
    def echo(seen: Seen) -> Answer:
        return Answer(200, seen.body)

    with rest_server(echo) as server:
        async with client_at(server.url) as client:
            for _ in range(5):
                sent = [{"number": number} for number in range(20)]
                calls = (client.call("POST", "/echo", body, what="an echo") for body in sent)

                assert await asyncio.gather(*calls) == sent

    assert len(server.seen) == 100
    assert len({one.connection for one in server.seen}) <= 20


async def test_a_cancelled_call_leaves_the_client_usable() -> None:
    slow = iter([Answer(204, delay_s=30.0), *[Answer(204)] * 3])
    with rest_server(lambda _: next(slow)) as server:
        async with client_at(server.url) as client:
            call = asyncio.ensure_future(client.call("POST", COMPLETION, {}, what="a completion"))
            await until(lambda: len(server.seen) == 1)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            for _ in range(3):
                await complete(client)

    assert len(server.seen) == 4


async def test_closing_ends_calls_in_progress() -> None:
    with rest_server(lambda _: Answer(204, delay_s=30.0)) as server:
        async with client_at(server.url) as client:
            call = asyncio.ensure_future(client.call("POST", COMPLETION, {}, what="a completion", timeout_s=2.0))
            await until(lambda: len(server.seen) == 1)
            await client.close()
            with pytest.raises(EngineUnavailable):
                await call
            with pytest.raises(EngineUnavailable, match="not open"):
                await complete(client)


async def test_a_connection_that_the_gateway_closed_in_between_is_not_used_again() -> None:
    with rest_server(lambda _: Answer(204, headers={"Connection": "close"})) as server:
        async with client_at(server.url) as client:
            for _ in range(3):
                await complete(client)

    assert len({one.connection for one in server.seen}) == 3


def cursors(pages: dict[str | None, tuple[list[int], str | None]]) -> Callable[[Seen], Answer]:
    def answer(seen: Seen) -> Answer:
        items, cursor = pages[seen.json()["page"].get("after")]
        page = {"totalItems": 9, "hasMoreTotalItems": False, "endCursor": cursor}
        body = {"page": page, "items": [{"number": number} for number in items]}
        return Answer(200, json.dumps(body).encode())

    return answer


async def test_a_search_follows_its_cursor_to_the_last_page() -> None:
    pages = cursors({None: ([1, 2], "a"), "a": ([3, 4], "b"), "b": ([5], "c")})
    with rest_server(pages) as server:
        async with client_at(server.url) as client:
            search = client.pages("/incidents/search", {"filter": {"state": "ACTIVE"}}, what="a search", limit=2)
            found = [item["number"] async for item in search]

    assert found == [1, 2, 3, 4, 5]
    assert [one.json()["page"] for one in server.seen] == [
        {"limit": 2},
        {"limit": 2, "after": "a"},
        {"limit": 2, "after": "b"},
    ]
    assert all(one.json()["filter"] == {"state": "ACTIVE"} for one in server.seen)


@pytest.mark.parametrize("cursor", ["a", None])
async def test_a_cursor_that_leads_nowhere_ends_the_search(cursor: str | None) -> None:
    with rest_server(cursors({None: ([1, 2], "a"), "a": ([3, 4], cursor)})) as server:
        async with client_at(server.url) as client:
            found = [item async for item in client.pages("/jobs/search", {}, what="a search", limit=2)]

    assert (len(found), len(server.seen)) == (4, 2)


@pytest.mark.parametrize("body", [b"[]", b'{"items": 7}', b'{"items": [7]}', b"{}"])
async def test_a_page_without_items_is_no_answer(body: bytes) -> None:
    with rest_server(lambda _: Answer(200, body)) as server:
        async with client_at(server.url) as client:
            with pytest.raises(EngineUnavailable, match="page of items"):
                _ = [item async for item in client.pages("/jobs/search", {}, what="a search")]


async def test_basic_is_sent_with_every_call() -> None:
    with rest_server(lambda _: Answer(204)) as server:
        async with client_at(server.url, BasicAccess(Basic("demo", "s3cret"))) as client:
            await complete(client)

    assert server.seen[0].headers["authorization"] == "Basic ZGVtbzpzM2NyZXQ="


def bearer(server: RestServer) -> list[str]:
    return [one.headers["authorization"] for one in server.seen]


async def test_an_expired_token_is_renewed_once_and_the_call_goes_through() -> None:
    clock = [1000.0]

    def guarded(seen: Seen) -> Answer:
        return Answer(204) if seen.headers["authorization"] == "Bearer t-2" else Answer(401)

    with serve(lambda number: token(f"t-{number}")) as tokens, rest_server(guarded) as server:
        access = TokenAccess(OAuth("worker", "s3cret", tokens.url), now=lambda: clock[0])
        await access.header()
        clock[0] += 60
        async with client_at(server.url, access) as client:
            await complete(client)

    assert bearer(server) == ["Bearer t-1", "Bearer t-2"]


async def test_a_new_token_that_is_refused_is_denied_at_once() -> None:
    with serve(lambda number: token(f"t-{number}")) as tokens, rest_server(lambda _: Answer(401)) as server:
        async with client_at(server.url, TokenAccess(OAuth("worker", "s3cret", tokens.url))) as client:
            with pytest.raises(AccessDenied, match="CAMUNDA_TOKEN_AUDIENCE"):
                await complete(client)

    assert bearer(server) == ["Bearer t-1"]


async def test_an_address_where_nothing_listens_is_unavailable() -> None:
    async with client_at("http://127.0.0.1:9") as client:
        with pytest.raises(EngineUnavailable, match="cannot be reached"):
            await complete(client)


async def test_a_body_that_is_no_json_is_refused_before_it_is_sent() -> None:
    with rest_server(lambda _: Answer(204)) as server:
        async with client_at(server.url) as client:
            with pytest.raises(CommandInvalid, match="cannot be written as JSON"):
                await client.call("POST", COMPLETION, {"variables": {"x": object()}}, what="a completion")

    assert server.seen == []


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110  # what is waited for happens in another thread
            await asyncio.sleep(0.01)
