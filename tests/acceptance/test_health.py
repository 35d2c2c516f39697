"""The health server over real sockets: three questions, two methods, bounded in size and time."""

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from verbworker.app.health import Health
from verbworker.errors import CannotRun
from verbworker.metrics import REGISTRY


class Told:
    """Probes that find what the test tells them."""

    def __init__(self) -> None:
        self.alive: dict[str, str | None] = {"loop": None}
        self.readiness: dict[str, str | None] = {"database": None, "gateway": None}
        self.answer = asyncio.Event()
        self.answer.set()
        self.asked = asyncio.Event()

    def live(self) -> Mapping[str, str | None]:
        return self.alive

    async def ready(self) -> Mapping[str, str | None]:
        self.asked.set()
        await self.answer.wait()
        return self.readiness


@pytest.fixture
def probes() -> Told:
    return Told()


@pytest.fixture
async def health(probes: Told) -> AsyncIterator[Health]:
    async with Health("127.0.0.1", 0, probes, patience=0.2) as health:
        yield health


async def send(health: Health, request: bytes, *, finish: bool = True) -> tuple[str, bytes]:
    """Send bytes and return the status line and the body."""
    reader, writer = await asyncio.open_connection(*health.address)
    try:
        writer.write(request)
        if finish:
            writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0].decode(), body


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


@pytest.mark.parametrize("path", ["/live", "/ready", "/ready?verbose"])
async def test_all_is_well(path: str, health: Health) -> None:
    status, body = await send(health, get(path))

    assert (status, body[:11]) == ("HTTP/1.1 200 OK", b'{"ok": true')


async def test_what_is_not_well_is_named(health: Health, probes: Told) -> None:
    probes.readiness["gateway"] = "EngineUnavailable"

    status, body = await send(health, get("/ready"))

    assert status == "HTTP/1.1 503 Service Unavailable"
    assert body == b'{"ok": false, "checks": {"database": "ok", "gateway": "EngineUnavailable"}}\n'


async def test_a_process_that_is_not_ready_is_alive(health: Health, probes: Told) -> None:
    probes.readiness["database"] = "StoreUnavailable"

    assert (await send(health, get("/live")))[0] == "HTTP/1.1 200 OK"


async def test_a_loop_that_stands_still_is_not_alive(health: Health, probes: Told) -> None:
    probes.alive["loop"] = "last tick 60 s ago"

    assert (await send(health, get("/live")))[0] == "HTTP/1.1 503 Service Unavailable"


async def test_every_metric_is_served(health: Health) -> None:
    _, body = await send(health, get("/metrics"))

    missing = [metric.name for metric in REGISTRY.collect() if f"# TYPE {metric.name}".encode() not in body]
    assert missing == []


async def test_head_has_no_body(health: Health) -> None:
    assert await send(health, get("/live", "HEAD")) == ("HTTP/1.1 200 OK", b"")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/"), "404 Not Found"),
        (get("/metrics/"), "404 Not Found"),
        (get("/live", "POST"), "405 Method Not Allowed"),
        (get("/live", "DELETE"), "405 Method Not Allowed"),
        (b"hello\r\n\r\n", "400 Bad Request"),
        (b"GET /live HTTP/2.0\r\n\r\n", "400 Bad Request"),
        (b"\xff\xfe\r\n\r\n", "400 Bad Request"),
        (b"GET /live HTTP/1.1\r\n", "400 Bad Request"),
        (b"GET /live HTTP/1.1\r\nX: " + b"x" * 100_000, "431 Request Header Fields Too Large"),
    ],
)
async def test_everything_else_is_refused(request_bytes: bytes, status: str, health: Health) -> None:
    assert (await send(health, request_bytes))[0] == f"HTTP/1.1 {status}"


async def test_a_request_that_never_ends_is_cut_off(health: Health) -> None:
    status, _ = await send(health, b"GET /live HT", finish=False)

    assert status == "HTTP/1.1 408 Request Timeout"


async def test_probes_that_never_end_are_not_waited_for(health: Health, probes: Told) -> None:
    probes.answer.clear()

    status, body = await send(health, get("/ready"))

    assert (status, body) == ("HTTP/1.1 503 Service Unavailable", b'{"error": "no answer in time"}\n')


async def test_more_callers_than_anybody_needs_are_turned_away(probes: Told) -> None:
    probes.answer.clear()
    async with Health("127.0.0.1", 0, probes, patience=60) as health, asyncio.TaskGroup() as callers:
        calls = [callers.create_task(send(health, get("/ready"))) for _ in range(40)]
        arrived = asyncio.as_completed(calls)
        turned_away = [(await next(arrived))[1] for _ in range(8)]
        probes.answer.set()
    served = [call.result()[0] for call in calls]

    assert set(turned_away) == {b'{"error": "too many requests at once"}\n'}
    assert served.count("HTTP/1.1 200 OK") == 32


async def test_an_answer_under_way_is_given_although_the_server_closes(probes: Told) -> None:
    probes.answer.clear()
    health = await Health("127.0.0.1", 0, probes, patience=60).__aenter__()
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(send(health, get("/ready")))
        await probes.asked.wait()
        closing = tasks.create_task(health.__aexit__(None, None, None))
        await asyncio.sleep(0)
        probes.answer.set()

    assert (call.result()[0], closing.done()) == ("HTTP/1.1 200 OK", True)


async def test_a_taken_port_is_one_sentence(health: Health, probes: Told) -> None:
    host, port = health.address
    with pytest.raises(CannotRun, match=f"cannot serve health on {host} port {port}"):
        async with Health(host, port, probes):
            pass
