"""Servers that are started before their Postgres: they wait for it, alive and not ready."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.support.doctor_app import EMBEDDED
from tests.support.eventually import eventually
from tests.support.http import ask
from tests.support.ports import LOOPBACK, free_ports
from tests.support.proxy import proxied
from tests.support.shop import Shop, make_shop, worker_process
from verbworker.api.server import serve as serve_ingress
from verbworker.api.settings import load as load_ingress
from verbworker.app.selfcheck import await_database
from verbworker.app.settings import Settings
from verbworker.app.wiring import choose_engine
from verbworker.console.server import serve as serve_console
from verbworker.console.settings import load as load_console
from verbworker.contract.registry import Registry
from verbworker.errors import StoreUnavailable

Serve = Callable[[Settings, int, asyncio.Event], Coroutine[Any, Any, None]]


@pytest.fixture
def shop(tmp_path: Path, unique: Callable[[str], str]) -> Shop:
    return make_shop(tmp_path, unique("x").removeprefix("x-"))


async def test_a_worker_waits_for_its_database_and_then_works(shop: Shop, dsn: str) -> None:
    async with proxied(dsn) as proxy:
        proxy.go_away()
        with worker_process(shop, proxy.dsn, "", **EMBEDDED) as worker:
            told = await asyncio.to_thread(worker.until, "/ready", 503)
            alive, _ = await asyncio.to_thread(worker.get, "/live")
            await proxy.come()
            await asyncio.to_thread(worker.until, "/ready", 200)
            code = await asyncio.to_thread(worker.end)

    assert told["checks"]["database"].startswith("it does not answer")
    assert (alive, code) == (200, 0)
    assert "Postgres does not answer; work continues when it does" in worker.log.read_text()
    assert "Postgres answers again" in worker.log.read_text()


# Which of a worker's connections fails: of the look at the schema, of either pool, or of the engine.
@pytest.mark.parametrize("connections", range(5))
async def test_a_database_that_goes_away_during_the_start_is_waited_for_again(
    shop: Shop, dsn: str, connections: int
) -> None:
    async with proxied(dsn) as proxy:
        proxy.admit(connections)
        with worker_process(shop, proxy.dsn, "", **EMBEDDED) as worker:
            await asyncio.to_thread(worker.until, "/ready", 503)
            await asyncio.sleep(1)
            await proxy.come()
            await asyncio.to_thread(worker.until, "/ready", 200)
            code = await asyncio.to_thread(worker.end)

    assert code == 0
    assert "check VERBWORKER_DSN" not in worker.log.read_text()


async def test_a_worker_that_waits_ends_when_it_is_told_to(shop: Shop) -> None:
    lost = f"postgresql://kyc:secret@{LOOPBACK}:{free_ports(1)[0]}/cases"
    with worker_process(shop, lost, "", **EMBEDDED) as worker:
        await asyncio.to_thread(worker.until, "/ready", 503)
        worker.send(signal.SIGTERM)
        code = await asyncio.to_thread(worker.exit_code)

    assert code == 0
    assert "secret" not in worker.log.read_text()


async def ingress(settings: Settings, port: int, stop: asyncio.Event) -> None:
    wanted = load_ingress(host=LOOPBACK, port=port)
    await serve_ingress(settings, wanted, Registry(), choose_engine(settings), stop, is_open=True)


async def console(settings: Settings, port: int, stop: asyncio.Event) -> None:
    wanted = load_console(host=LOOPBACK, port=port)
    await serve_console(settings, wanted, lambda: None, stop, is_open=True, opened=lambda _: None)


@pytest.mark.parametrize(("serve", "path"), [(ingress, "/v1/entries"), (console, "/")])
async def test_a_server_waits_for_its_database_and_then_serves(serve: Serve, path: str, dsn: str) -> None:
    (port,), stop = free_ports(1), asyncio.Event()

    async def status(asked: str) -> int:
        try:
            return (await asyncio.to_thread(ask, "GET", f"{LOOPBACK}:{port}", asked))[0]
        except OSError:
            return 0

    async with proxied(dsn) as proxy, asyncio.TaskGroup() as tasks:
        proxy.go_away()
        settings = Settings.model_validate({"dsn": proxy.dsn, "engine": "embedded"})
        tasks.create_task(serve(settings, port, stop))

        async def is_up() -> bool:
            return await status("/live") == 200

        async def is_ready() -> bool:
            return await status("/ready") == 200

        await eventually(is_up)
        before = await status("/ready"), await status(path)
        await proxy.come()
        await eventually(is_ready)
        after = await status(path)
        stop.set()

    assert before == (503, 503)
    assert after < 500


class Unused:
    """What a server does while it waits, where it must not wait."""

    async def __aenter__(self) -> None:
        raise AssertionError("it waits")

    async def __aexit__(self, *_: object) -> None: ...


@pytest.mark.parametrize("wrong", ["scheme", "password", "database"])
async def test_an_address_or_a_login_that_is_wrong_is_not_waited_for(wrong: str, dsn: str) -> None:
    parts = urlsplit(dsn)
    changed = {
        "scheme": parts._replace(scheme="mysql"),
        "password": parts._replace(netloc=parts.netloc.replace("@", "x@", 1)),
        "database": parts._replace(path="/no-such-database"),
    }
    with pytest.raises(StoreUnavailable) as refused:
        await await_database(urlunsplit(changed[wrong]), asyncio.Event(), Unused())

    assert refused.value.is_wrong
