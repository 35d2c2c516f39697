"""Clients that connect and stay silent, or say one thing in two ways, do not shut others out."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_network

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from verbworker.http.server import ServerOptions, bind, open_server

pytestmark = pytest.mark.attack("HTTP")

MOST = 40
OPTIONS = ServerOptions(MOST, timedelta(seconds=1), connections_per_peer=MOST // 2)
IDLE_S = 1.2  # longer than a request may be on its way
HEAD = b"GET /live HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Client:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, request: bytes = HEAD) -> bytes:
        """Send a request and return what is answered until the server closes."""
        self.writer.write(request)
        return await asyncio.wait_for(self.reader.read(), 20)

    async def is_closed(self, within: float) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(), within) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True


Connect = Callable[..., Awaitable[Client]]


@asynccontextmanager
async def serving(options: ServerOptions) -> AsyncIterator[Connect]:
    """A server on this machine; the function connects to it, from any address that begins with 127."""

    async def live(_request: Request) -> Response:
        return PlainTextResponse("alive")

    async def slow(_request: Request) -> Response:
        await asyncio.sleep(30)
        return PlainTextResponse("late")

    app = Starlette(routes=[Route("/live", live, methods=["GET", "POST"]), Route("/slow", slow)])
    with closing(bind("127.0.0.1", 0, advice="")) as listener:
        port = listener.getsockname()[1]
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(open_server(app, listener, options))

            async def connect(address: str = "127.0.0.1", *, sends: bytes = b"") -> Client:
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
                stack.callback(writer.close)
                writer.write(sends)
                return Client(reader, writer)

            yield connect


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    async with serving(OPTIONS) as made:
        yield made


@pytest.mark.parametrize("words", [b"", b"GET /live HTTP/1.1\r\nHost: he"], ids=["silent", "half a head"])
async def test_idle_connections_of_one_client_shut_out_nobody(connect: Connect, words: bytes) -> None:
    for _ in range(5 * MOST):
        await connect("127.0.0.2", sends=words)
    await asyncio.sleep(IDLE_S)

    assert b"alive" in await (await connect("127.0.0.3")).ask()
    assert b"alive" in await (await connect("127.0.0.2")).ask()


async def test_idle_connections_of_many_clients_shut_out_nobody(connect: Connect) -> None:
    for number in range(5 * MOST):
        await connect(f"127.0.1.{number % 200 + 1}")
    await asyncio.sleep(IDLE_S)

    assert b"alive" in await (await connect("127.0.0.3")).ask()


async def test_the_connection_that_is_idle_longest_makes_room(connect: Connect) -> None:
    first = await connect("127.0.0.2")
    await asyncio.sleep(IDLE_S)
    others = [await connect("127.0.0.2") for _ in range(MOST // 2)]

    assert await first.is_closed(within=5)
    assert b"alive" in await others[-1].ask()


async def test_one_client_with_many_requests_leaves_room_for_another(connect: Connect) -> None:
    for _ in range(MOST):
        await connect("127.0.0.2", sends=b"GET /slow HTTP/1.1\r\nHost: here\r\n\r\n")
    refused = await (await connect("127.0.0.2")).ask()

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After" in refused
    assert b"alive" in await (await connect("127.0.0.3")).ask()


async def test_a_declared_proxy_may_use_every_connection() -> None:
    options = ServerOptions(MOST, timedelta(seconds=1), connections_per_peer=2, proxies=(ip_network("127.0.0.2/32"),))
    async with serving(options) as connect:
        for _ in range(MOST - 2):
            await connect("127.0.0.2", sends=b"GET /slow HTTP/1.1\r\nHost: here\r\n\r\n")

        assert b"alive" in await (await connect("127.0.0.2")).ask()


async def test_a_head_that_does_not_arrive_ends_the_connection() -> None:
    async with serving(ServerOptions(MOST, timedelta(seconds=1), longest_idle_s=0.3)) as connect:
        slow = await connect()
        for letter in b"GET /live HTTP/1.1\r\n":
            slow.writer.write(bytes([letter]))
            await asyncio.sleep(0.02)

        assert await slow.is_closed(within=20)


AMBIGUOUS = {
    "length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "an unknown encoding": b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "a length that is none": b"Content-Length: +5\r\n\r\nhello",
}


@pytest.mark.parametrize("rest", AMBIGUOUS.values(), ids=AMBIGUOUS)
async def test_a_body_whose_end_can_be_read_in_two_ways_is_refused(connect: Connect, rest: bytes) -> None:
    answer = await (await connect()).ask(b"POST /live HTTP/1.1\r\nHost: here\r\n" + rest)

    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 501 "))
    assert answer.count(b"HTTP/1.1") == 1  # what comes behind is no second request
    assert b"connection: close" in answer.lower()


async def test_a_burst_of_requests_is_answered_or_refused_but_not_cut_off(connect: Connect) -> None:
    clients = [await connect() for _ in range(MOST)]
    answers = await asyncio.gather(*(client.ask() for client in clients))

    assert {answer[:12] for answer in answers} == {b"HTTP/1.1 200", b"HTTP/1.1 503"}
