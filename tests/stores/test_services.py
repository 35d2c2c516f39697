"""Every background service of a worker, as the worker starts them: none ends because something is away."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.support.databases import plain
from tests.support.embedded_service import Workshop, workshop
from tests.support.eventually import eventually
from tests.support.outages import name_of, outages
from verbworker import retrying
from verbworker.app.probes import WorkerProbes
from verbworker.background.poll_loop import PollLoop, Service, running
from verbworker.background.service_health import Limited
from verbworker.errors import StoreError
from verbworker.stores.batch import Batch

# The only coroutines that may stand in a task of their own while a worker waits for work. Each of the first two runs
# one service; a loop that somebody starts in another way is found here.
_HOSTS = {
    "running.<locals>.keep",
    "run_for_ever",
    "EmbeddedEngine._run",
    "Worker._keep",
    "App.run",
    "PoolConnectionHolder.release",  # asyncpg puts a connection back whose user was cancelled
}


def loop_of(service: Service) -> PollLoop:
    """The loop inside a service."""
    loop = service._loop if isinstance(service, Batch) else service
    assert isinstance(loop, PollLoop), f"{service.name} is no PollLoop"
    return loop


class Striking:
    """The work of a service that fails as often as it is told, before it does what it always does."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.loop = loop_of(service)
        self.errors: list[Exception] = []
        self.worked = 0
        self._work: Callable[[], Awaitable[int]] = self.loop._work
        self.loop._work = self

    async def __call__(self) -> int:
        if self.errors:
            raise self.errors.pop()
        # A service that listens works for as long as it is connected.
        self.worked += 1
        return await self._work()

    def strike(self, error: Exception) -> None:
        """Fail twice from now on."""
        self.errors = [error, error]
        self.worked = 0
        self.loop.poke()

    def is_back(self) -> bool:
        """Whether it did its own work after it failed, and reports that it is well."""
        return not self.errors and self.worked > 0 and self.loop.health.failures == 0


async def test_no_service_ends_because_something_is_away_and_each_resumes(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying, "backoff", lambda *_, **__: 0.001)
    async with workshop(dsn) as shop:
        own = list(shop.app.worker.services)
        stop = asyncio.Event()
        async with running(own, stop):
            # The listener is the one service whose work does not end by itself: it is cut off to fail.
            strikers = [Striking(service) for service in shop.services]
            for error in outages():
                await asyncio.wait_for(_struck(shop, strikers, error), 30)

        assert not stop.is_set()
        assert {striker.service.name for striker in strikers} == {service.name for service in shop.services}


_CUT_LISTENERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"


async def _struck(shop: Workshop, strikers: list[Striking], error: Exception) -> None:
    for striker in strikers:
        striker.strike(error)

    async def are_back() -> bool:
        if any(striker.errors for striker in strikers):
            # Again each time: a listener that was still connecting a moment ago was not cut off.
            await shop.database.execute(_CUT_LISTENERS)
        for striker in strikers:
            striker.loop.poke()
        return all(striker.is_back() for striker in strikers)

    try:
        await eventually(are_back, timeout=25)
    except TimeoutError:
        late = [(one.service.name, one.loop.health.last_error) for one in strikers if not one.is_back()]
        raise AssertionError(f"after {name_of(error)} these did not resume: {late}") from None


async def test_each_service_has_a_name_of_its_own(dsn: str) -> None:
    async with workshop(dsn) as shop:
        names = [service.name for service in shop.services]

    assert len(names) == len(set(names)) > 20


async def test_whatever_a_worker_starts_is_one_of_its_services(dsn: str) -> None:
    before = asyncio.all_tasks()
    async with workshop(dsn) as shop:
        known = {service.name for service in shop.services}
        async with shop.working():
            await eventually(lambda: _are_well(shop))
            tasks = [task for task in asyncio.all_tasks() - before if task.get_coro() is not None]
            strange = {task.get_name(): _name(task) for task in tasks if not _is_known(task, known)}
            named = {task.get_name() for task in tasks}

    assert strange == {}
    assert known <= named


async def _are_well(shop: Workshop) -> bool:
    for service in shop.services:
        loop_of(service).poke()  # upkeep leaves the start to the jobs
    return all(service.health.succeeded_at is not None for service in shop.services)


def _name(task: "asyncio.Task[Any]") -> str:
    return str(getattr(task.get_coro(), "__qualname__", ""))


def _is_known(task: "asyncio.Task[Any]", services: set[str]) -> bool:
    host = _name(task)
    if host in ("running.<locals>.keep", "run_for_ever"):
        return task.get_name() in services
    # Feeds have tasks for what they read; jobs are not services.
    return host in _HOSTS or host.startswith("Feed.")


async def _set_read_only(dsn: str, word: str) -> None:
    async with plain(dsn) as connection:
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute("SET default_transaction_read_only = off")
        await connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {word}')
        # Sessions that are open keep what they began with.
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()",
            name,
        )


async def test_what_a_service_does_without_is_in_readiness_and_is_no_trouble(dsn: str) -> None:
    async with workshop(dsn) as shop:  # whose services do not run: the next search would set it right
        probes = WorkerProbes(shop.app.worker, shop.app.worker._frames._database, shop.engine, poll_wait=timedelta(1))
        before = (await probes.ready())["limits"]
        (search,) = [service for service in probes.services if service.name == "search"]
        search.health.limits |= {"incidents": "refused by the engine", "": "the engine offers no search"}

        ready = await probes.ready()

    assert before is None
    assert ready["limits"] == Limited("search of incidents: refused by the engine; search: the engine offers no search")
    assert (ready["services"], ready["database"]) == (None, None)


async def test_a_database_that_becomes_read_only_is_waited_for_and_readiness_says_why(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with workshop(dsn) as shop, shop.working() as task:
        entry_id = await shop.ask("a")
        await shop.waits(entry_id, at="letter")
        await shop.send("a")
        await shop.waits(entry_id, at="review")
        await _set_read_only(dsn, "on")
        probes = WorkerProbes(shop.app.worker, shop.app.worker._frames._database, shop.engine, poll_wait=timedelta(1))

        async def troubles() -> dict[str, str | Limited | None]:
            ready = dict(await probes.ready())
            return ready if "starts" in str(ready["services"]) else {}

        during = await eventually(troubles)
        await _set_read_only(dsn, "off")

        async def has_decided() -> bool:
            try:
                await shop.decide(entry_id)
            except StoreError:
                return False  # the people's own connections were cut off as well
            return True

        await eventually(has_decided)
        await shop.ends(entry_id)
        is_working = not task.done()

    assert during["database"] == "the database is read-only"
    assert "starts: Store" in str(during["services"])
    assert is_working
    waiting = Counter(record.__dict__["service"] for record in caplog.records if record.msg == "service is waiting")
    assert waiting["starts"] == waiting["engine-timers"] == 1
    assert max(waiting.values()) == 1
