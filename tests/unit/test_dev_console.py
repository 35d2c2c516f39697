"""The console beside a dev session: it never keeps the session from ending."""

import asyncio
from pathlib import Path

import pytest

from verbworker.console import server
from verbworker.dev import console
from verbworker.dev.plan import Plan


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A session whose console does not end when it is asked to."""

    async def serve_for_ever(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(server, "serve", serve_for_ever)
    monkeypatch.setattr(console, "_LEAVING_S", 0.05)
    return Plan("shop:registry", ())


async def test_a_failure_beside_a_console_that_hangs_is_raised(plan: Plan, tmp_path: Path) -> None:
    async with asyncio.timeout(5):
        with pytest.raises(KeyError, match="beside"):
            async with console.beside(plan, "postgresql://x", tmp_path / "c", port=0, tell=lambda _: None):
                raise KeyError("beside")


async def test_a_session_ends_although_its_console_hangs(plan: Plan, tmp_path: Path) -> None:
    async with asyncio.timeout(5) as limit:
        async with console.beside(plan, "postgresql://x", tmp_path / "c", port=0, tell=lambda _: None):
            await asyncio.sleep(0)

    assert not limit.expired()
