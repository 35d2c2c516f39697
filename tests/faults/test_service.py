"""The supervisor tells an ordered end from a death."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import cast

import pytest

from tests.faults.__main__ import run_plan
from tests.faults.plan import short_plan
from tests.faults.service import NeverReady, Service
from tests.faults.site import Site
from tests.support.errors import Broken
from tests.support.eventually import eventually

DEAF = "import time; print('up', flush=True); time.sleep(60)"
READY = """
import http.server, sys
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *words): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Ready)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextlib.asynccontextmanager
async def supervised(program: str, directory: Path) -> AsyncIterator[Service]:
    service = Service(
        "worker-0",
        [sys.executable, "-c", program],
        environment={},
        directory=directory,
        health="127.0.0.1:1",
        may_refuse=lambda: False,
    )
    service.start()
    supervisor = asyncio.create_task(service.supervise())
    try:
        await until(lambda: service.log.exists() and bool(service.log.read_text()))
        yield service
    finally:
        supervisor.cancel()
        service.stop()


async def until(fact: Callable[[], bool]) -> None:
    async def look() -> bool:
        return fact()

    await eventually(look, timeout=20)


async def test_a_process_that_never_worked_may_end_by_the_signal_itself(tmp_path: Path) -> None:
    async with supervised(DEAF, tmp_path) as service:
        first = service.pid
        service.signal(signal.SIGTERM)
        await until(lambda: service.pid != first)

        assert service.deaths == []


async def test_a_process_that_worked_and_does_not_drain_is_a_death(tmp_path: Path) -> None:
    async with supervised(READY, tmp_path) as service:
        service._health = f"127.0.0.1:{int(service.log.read_text())}"
        await service.ready()
        first = service.pid
        service.signal(signal.SIGTERM)
        await until(lambda: service.pid != first)

        assert [death.reason for death in service.deaths] == ["ended with -15 after SIGTERM"]


@pytest.mark.parametrize("code", [1, 3])
async def test_a_process_that_fails_at_its_start_is_a_death(tmp_path: Path, code: int) -> None:
    async with supervised(f"print('up', flush=True); raise SystemExit({code})", tmp_path) as service:
        await until(lambda: bool(service.deaths))

        assert service.deaths[0].reason == f"ended with {code}"


async def test_a_process_that_ends_before_it_is_ready_is_told_with_its_last_words(tmp_path: Path) -> None:
    service = Service(
        "worker-0",
        [sys.executable, "-c", "print('the port is taken', flush=True); raise SystemExit(2)"],
        environment={},
        directory=tmp_path,
        health="127.0.0.1:1",
        may_refuse=lambda: False,
    )
    service.start()

    with pytest.raises(NeverReady, match=r"worker-0 ended with 2 before it was ready: the port is taken"):
        await service.ready()
    service.stop()


def test_a_run_that_breaks_off_leaves_its_logs(tmp_path: Path) -> None:
    class BrokenSite:
        kept: Path | None = None

        async def start(self) -> None:
            raise NeverReady("worker-0 was not ready")

        def stop(self, *, keep: Path | None) -> None:
            self.kept = keep

    site = BrokenSite()

    with pytest.raises(NeverReady) as raised:
        run_plan(short_plan("embedded"), lambda: cast(Site, site), folder=str(tmp_path))

    assert site.kept == tmp_path
    assert raised.value.__notes__ == [f"evidence: {tmp_path}"]


def test_a_broker_that_cannot_start_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class BrokenSite:
        kept: Path | None = tmp_path

        async def start(self) -> None:
            raise Broken("the broker was not ready")

        def stop(self, *, keep: Path | None) -> None:
            self.kept = keep

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    site = BrokenSite()

    with pytest.raises(Broken):
        run_plan(short_plan("zeebe"), lambda: cast(Site, site))

    assert (site.kept, list(tmp_path.iterdir())) == (None, [])
