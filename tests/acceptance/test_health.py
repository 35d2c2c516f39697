"""The health server over real sockets: three questions, two methods, bounded in size and time."""

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from verbworker.app.health import open_health
from verbworker.background.service_health import Limited
from verbworker.errors import CannotRun
from verbworker.metrics import REGISTRY

Address = tuple[str, int]


class FixedProbes:
    """Probes that find what the test tells them."""

    def __init__(self) -> None:
        self.alive: dict[str, str | None] = {"loop": None}
        self.readiness: dict[str, str | Limited | None] = {"database": None, "gateway": None}
        self.answer = asyncio.Event()
        self.answer.set()
        self.asked = asyncio.Event()

    def live(self) -> Mapping[str, str | None]:
        return self.alive

    async def ready(self) -> Mapping[str, str | Limited | None]:
        self.asked.set()
        await self.answer.wait()
        return self.readiness


@pytest.fixture
def probes() -> FixedProbes:
    return FixedProbes()


@pytest.fixture
async def health(probes: FixedProbes) -> AsyncIterator[Address]:
    async with open_health("127.0.0.1", 0, probes, longest_s=0.2) as address:
        yield address


async def send(health: Address, request: bytes) -> tuple[str, bytes]:
    """Send bytes and return the status line, empty if the connection is closed without one, and the body."""
    reader, writer = await asyncio.open_connection(*health)
    try:
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0].decode(), body


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()


@pytest.mark.parametrize("path", ["/live", "/ready", "/ready?verbose"])
async def test_all_is_well(path: str, health: Address) -> None:
    status, body = await send(health, get(path))

    assert (status, body[:10]) == ("HTTP/1.1 200 OK", b'{"ok":true')


async def test_what_is_not_well_is_named(health: Address, probes: FixedProbes) -> None:
    probes.readiness["gateway"] = "EngineUnavailable"

    status, body = await send(health, get("/ready"))

    assert status == "HTTP/1.1 503 Service Unavailable"
    assert body == b'{"ok":false,"checks":{"database":"ok","gateway":"EngineUnavailable"}}'


async def test_what_it_does_without_is_named_and_no_reason_to_refuse_traffic(
    health: Address, probes: FixedProbes
) -> None:
    probes.readiness["limits"] = Limited("search of incidents: refused by the engine")

    status, body = await send(health, get("/ready"))

    assert status == "HTTP/1.1 200 OK"
    assert body == (
        b'{"ok":true,"checks":{"database":"ok","gateway":"ok","limits":"search of incidents: refused by the engine"}}'
    )


async def test_a_process_that_is_not_ready_is_alive(health: Address, probes: FixedProbes) -> None:
    probes.readiness["database"] = "StoreUnavailable"

    assert (await send(health, get("/live")))[0] == "HTTP/1.1 200 OK"


async def test_a_loop_that_stands_still_is_not_alive(health: Address, probes: FixedProbes) -> None:
    probes.alive["loop"] = "last tick 60 s ago"

    assert (await send(health, get("/live")))[0] == "HTTP/1.1 503 Service Unavailable"


async def test_every_metric_is_served(health: Address) -> None:
    _, body = await send(health, get("/metrics"))

    missing = [metric.name for metric in REGISTRY.collect() if f"# TYPE {metric.name}".encode() not in body]
    assert missing == []


async def test_an_answer_has_its_date(health: Address) -> None:
    reader, writer = await asyncio.open_connection(*health)
    writer.write(get("/live"))
    head = await reader.readuntil(b"\r\n\r\n")
    writer.close()

    assert head.lower().count(b"\ndate: ") == 1


async def test_head_has_no_body(health: Address) -> None:
    assert await send(health, get("/live", "HEAD")) == ("HTTP/1.1 200 OK", b"")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/"), "404 Not Found"),
        (get("/metrics/"), "404 Not Found"),
        (get("/live", "POST"), "405 Method Not Allowed"),
        (get("/live", "DELETE"), "405 Method Not Allowed"),
        (b"hello\r\n\r\n", "400 Bad Request"),
        (b"GET /live HTTP/1.1\r\n\r\n", "400 Bad Request"),
        (b"\xff\xfe\r\n\r\n", "400 Bad Request"),
        (b"GET /live HTTP/1.1\r\nX: " + b"x" * 30_000, "400 Bad Request"),
    ],
)
async def test_everything_else_is_refused(request_bytes: bytes, status: str, health: Address) -> None:
    assert (await send(health, request_bytes))[0] == f"HTTP/1.1 {status}"


@pytest.mark.parametrize("sent", [b"", b"GET /live HT"])
async def test_a_request_that_never_ends_is_cut_off(sent: bytes, health: Address) -> None:
    assert await send(health, sent) == ("", b"")


async def test_a_second_request_that_never_ends_is_cut_off_too(health: Address) -> None:
    reader, writer = await asyncio.open_connection(*health)
    writer.write(get("/live", "HEAD").replace(b"close", b"keep-alive"))
    first = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"GET /live HT")
    second = await asyncio.wait_for(reader.read(), 10)
    writer.close()

    assert (first[:15], second) == (b"HTTP/1.1 200 OK", b"")


async def test_probes_that_never_end_are_not_waited_for(health: Address, probes: FixedProbes) -> None:
    probes.answer.clear()

    status, body = await send(health, get("/ready"))

    assert (status, body) == ("HTTP/1.1 503 Service Unavailable", b'{"error":"no answer in time"}')


async def test_more_callers_than_anybody_needs_are_turned_away(probes: FixedProbes) -> None:
    probes.answer.clear()
    async with open_health("127.0.0.1", 0, probes, longest_s=60) as health, asyncio.TaskGroup() as callers:
        first = callers.create_task(send(health, get("/ready")))
        await probes.asked.wait()
        more = [callers.create_task(send(health, get("/ready"))) for _ in range(80)]
        turned_away = (await next(asyncio.as_completed(more)))[0]
        probes.answer.set()

    assert turned_away == "HTTP/1.1 503 Service Unavailable"
    assert first.result()[0] == "HTTP/1.1 200 OK"


async def test_an_answer_under_way_is_given_although_the_server_closes(probes: FixedProbes) -> None:
    probes.answer.clear()
    async with asyncio.TaskGroup() as tasks, open_health("127.0.0.1", 0, probes, longest_s=60) as health:
        call = tasks.create_task(send(health, get("/ready")))
        await probes.asked.wait()
        tasks.create_task(answer_later(probes))

    assert call.result()[0] == "HTTP/1.1 200 OK"


async def answer_later(probes: FixedProbes) -> None:
    """Answer when the server has had a turn to close."""
    for _ in range(10):
        await asyncio.sleep(0)
    probes.answer.set()


async def test_a_failure_beside_the_server_is_raised_as_it_is(probes: FixedProbes) -> None:
    with pytest.raises(KeyError, match="beside"):
        async with open_health("127.0.0.1", 0, probes):
            raise KeyError("beside")


async def test_a_taken_port_is_one_sentence(health: Address, probes: FixedProbes) -> None:
    host, port = health
    with pytest.raises(CannotRun, match=f"cannot listen on {host} port {port}.*VERBWORKER_HTTP_PORT"):
        async with open_health(host, port, probes):
            pass
