"""One worker of many searches per period; another takes over when it dies, freezes or is cut off."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from tests.support.children import Child, close_log, fresh_log, spawn
from tests.support.eventually import eventually
from tests.support.frames import ENGINE
from tests.support.recorded_search import RecordedCluster
from tests.support.rest_replay import Answer
from tests.support.search_process import name_header, searches, searching
from verbworker.stores.database import Database
from verbworker.stores.upkeep_turns import UpkeepTurns

EVERY, HOLD = 1.0, 3.0  # seconds; the machine may be slow, so nothing below counts on less


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


@pytest.fixture
def start(dsn: str, cluster: RecordedCluster) -> Iterator[Callable[[str], Child]]:
    assert cluster.server is not None
    url, log, children = cluster.server.url, fresh_log("searchers"), list[Child]()

    def start(name: str) -> Child:
        module = [sys.executable, "-m", "tests.support.search_process"]
        children.append(spawn([*module, dsn, url, name, str(EVERY), str(HOLD)], log=log))
        return children[-1]

    yield start
    for child in children:
        child.end(signal.SIGKILL)
    close_log(log, keep=False)


def turns(database: Database, hold: float = HOLD) -> UpkeepTurns:
    return UpkeepTurns(database, engine_id=ENGINE, service="search", owner=uuid4(), hold=timedelta(seconds=hold))


@contextmanager
def stuck(cluster: RecordedCluster) -> Iterator[None]:
    """Searches get no answer for as long as this lasts."""
    assert cluster.server is not None
    cluster.refusal = Answer(200, b"{}", delay_s=600.0)
    try:
        yield
    finally:
        cluster.refusal = None


# ---- processes ------------------------------------------------------------------------------------------------------


async def test_of_four_processes_one_searches_per_period(
    cluster: RecordedCluster, start: Callable[[str], Child]
) -> None:
    server = cluster.server
    assert server is not None
    for number in range(4):
        start(f"w{number}")
    await eventually(lambda: _true(searches(server).total() >= 1), timeout=60.0)

    begun, before = asyncio.get_running_loop().time(), searches(server).total()
    await asyncio.sleep(8 * EVERY)
    periods = (asyncio.get_running_loop().time() - begun) / EVERY

    done = searches(server).total() - before
    assert 2 <= done <= periods + 1  # each of four would have made it four times as many


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
async def test_another_takes_over_in_the_middle_of_a_search(
    cluster: RecordedCluster, start: Callable[[str], Child], number: int
) -> None:
    server = cluster.server
    assert server is not None
    with stuck(cluster):
        first = start("first")
        await eventually(lambda: _true(searches(server)[name_header("first")] == 1), timeout=60.0)
        os.kill(first.pid, number)
    start("second")

    await eventually(lambda: _true(searches(server)[name_header("second")] >= 2), timeout=60.0)
    assert searches(server)[name_header("first")] == 1


# ---- the table ------------------------------------------------------------------------------------------------------


async def test_a_turn_is_taken_by_one_of_many_that_ask_at_the_same_time(dsn: str) -> None:
    async with Database(dsn, size=16) as database:
        first = await asyncio.gather(*(turns(database).take() for _ in range(16)))
        await database.execute("UPDATE verbworker.upkeep_turn SET due_at = clock_timestamp()")
        second = await asyncio.gather(*(turns(database).take() for _ in range(16)))

    assert [len([one for one in taken if one is not None]) for taken in (first, second)] == [1, 1]


async def test_the_end_of_a_turn_that_another_took_over_changes_nothing(database: Database) -> None:
    slow, quick = turns(database, hold=0.0), turns(database)
    lost = await slow.take()
    taken = await quick.take()
    assert lost is not None
    assert taken is not None

    await slow.finish(lost, next_after=timedelta(0))

    assert await turns(database).take() is None
    assert taken.number == lost.number + 1


async def test_the_next_turn_goes_on_where_the_last_one_stopped(database: Database) -> None:
    looked_until = datetime(2030, 1, 1, tzinfo=UTC)
    first = turns(database)
    taken = await first.take()
    assert taken is not None
    assert taken.looked_until is None
    await first.finish(taken, next_after=timedelta(0), looked_until=looked_until)

    again = await turns(database).take()

    assert again is not None
    assert again.looked_until == looked_until


async def test_a_worker_that_takes_over_asks_for_what_ended_since_the_last_turn(
    database: Database, cluster: RecordedCluster
) -> None:
    """Cancellations made in Operate while no worker searched, however long that was."""
    assert cluster.server is not None
    looked_until, last = datetime(2026, 1, 1, 12, tzinfo=UTC), turns(database)
    taken = await last.take()
    assert taken is not None
    await last.finish(taken, next_after=timedelta(0), looked_until=looked_until)

    async with searching(database, cluster.server.url, "w", turns(database)) as search:
        await search.look_in_turn()
    async with searching(database, cluster.server.url, "w", turns(database)) as search:
        await search.look_in_turn()

    (asked,) = cluster.asked("/v2/process-instances/search")  # the second found that it was not due
    assert asked["filter"]["endDate"] == {"$gte": "2026-01-01T11:59:00.000Z"}
    row = await database.fetchrow("SELECT looked_until FROM verbworker.upkeep_turn")
    assert row is not None
    assert row["looked_until"] > looked_until


async def test_engines_and_services_have_turns_of_their_own(database: Database) -> None:
    others = [
        UpkeepTurns(database, engine_id=engine, service=service, owner=uuid4())
        for engine, service in ((ENGINE, "search"), (ENGINE, "other"), ("another", "search"))
    ]

    assert None not in [await one.take() for one in others]


async def _true(value: bool) -> bool:
    return value
