"""What one client of the API can take from the others: no stream, no probe, and no redirect to a place of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest

from tests.support.api_server import KEY, READ_KEY, ApiServer
from tests.support.embedded_service import VERB
from tests.support.ports import LOOPBACK, free_ports
from verbworker.api.settings import load
from verbworker.errors import ContractInvalid

pytestmark = pytest.mark.attack("HTTP")


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[ApiServer]:
    server = ApiServer(dsn, probe_port=free_ports(1)[0])
    async with server.serving():
        yield server


async def test_one_key_cannot_use_up_the_streams_of_the_others(server: ApiServer) -> None:
    async with AsyncExitStack() as stack:
        ann, board = [await stack.enter_async_context(server.caller(key)) for key in (KEY, READ_KEY)]
        begun = await ann.post("/v1/entries", json={"verb": VERB, "args": {"name": "one"}}, timeout=60)
        path = f"/v1/entries/{begun.json()['entry_id']}/events/stream"
        answers = [await stack.enter_async_context(ann.stream("GET", path, timeout=60)) for _ in range(33)]
        other = await stack.enter_async_context(board.stream("GET", path))

        assert [answer.status_code for answer in answers] == [200] * 32 + [503]
        assert other.status_code == 200


async def test_probes_are_answered_on_their_own_port_while_every_connection_is_taken(
    dsn: str, server: ApiServer
) -> None:
    probes = f"http://{LOOPBACK}:{server._more['probe_port']}"
    async with AsyncExitStack() as stack, httpx.AsyncClient(timeout=30) as platform:
        for number in range(300):
            _, writer = await asyncio.open_connection(
                LOOPBACK, server.port, local_addr=(f"127.0.{number % 3 + 1}.1", 0)
            )
            stack.callback(writer.close)
            writer.write(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: key-of-ann\r\n")
            writer.write(b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n")
        answers = [(await platform.get(f"{probes}{path}")).status_code for path in ("/live", "/ready", "/v1/entries")]

    assert answers == [200, 200, 404]


@pytest.mark.parametrize("path", ["/v1/entries/", "/ready/", "//elsewhere.example/", "/v1/messages/"])
async def test_no_answer_sends_a_client_to_the_host_it_named(server: ApiServer, path: str) -> None:
    async with server.caller() as caller:
        answer = await caller.get(httpx.URL(server.url + path), headers={"Host": "elsewhere.example"})

    assert answer.status_code in (404, 405)
    assert "location" not in answer.headers


@pytest.mark.parametrize("words", ["10.0.0.300", "10.0.0.1/8", "proxy.example", "10.0.0.1;10.0.0.2"])
def test_proxies_that_are_no_addresses_are_refused(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.setenv("VERBWORKER_INGRESS_PROXIES", words)

    with pytest.raises(ContractInvalid, match="VERBWORKER_INGRESS_PROXIES: write addresses or networks"):
        load()
