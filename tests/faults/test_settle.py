"""What the product named as stalled gets time to go on after the brokers were restarted, however long that took."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.faults import run as module
from tests.faults.plan import short_plan
from tests.faults.run import Run
from tests.faults.site import Site


async def test_a_slow_restart_does_not_use_up_the_time_of_the_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = short_plan("zeebe")
    monkeypatch.setattr(module, "_QUIET", 0.2)
    monkeypatch.setattr(module, "_LONGEST", 1.5)

    async def all_are_named(_: object, entries: list[str]) -> list[str]:
        return entries

    monkeypatch.setattr(module, "stalled_entries", all_are_named)

    async def restart(_: int) -> None:
        await asyncio.sleep(2.0)
        asyncio.get_running_loop().call_later(0.1, end_all)

    brokers = SimpleNamespace(nodes=[None], restart=restart)
    run = Run(plan, cast(Site, SimpleNamespace(brokers=brokers, postgres=SimpleNamespace(dsn=""))))
    seen = run.world.seen
    seen.entry_id = {one.number: one.number for one in plan.entries}
    seen.status = {one.number: "executing" for one in plan.entries}

    def end_all() -> None:
        seen.status = {one.number: "completed" for one in plan.entries}

    driver: asyncio.Task[Any] = asyncio.create_task(asyncio.sleep(0))
    await run._settle(driver, begin=asyncio.get_running_loop().time() - 100)

    assert run._open() == []
    assert run.unnamed == []
