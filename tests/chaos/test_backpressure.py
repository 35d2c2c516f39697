"""A broker that takes few requests at once: its workers ask for less, and nothing is lost."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from tests.chaos.oracle import consult
from tests.chaos.site import Site
from tests.chaos.stuck import at_rest
from tests.chaos.verbs import WORK
from tests.chaos.workers import WorkerGroup
from tests.support.zeebe import Broker

pytestmark = [pytest.mark.zeebe, pytest.mark.timeout(600)]


@pytest.fixture
def narrow(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker with a fixed, small limit."""
    limit = {"ZEEBE_BROKER_BACKPRESSURE_ALGORITHM": "fixed", "ZEEBE_BROKER_BACKPRESSURE_FIXED_LIMIT": "4"}
    broker = Broker(controlled_clock=False, environment=limit).start()
    yield broker
    broker.stop(keep_log=request.session.testsfailed > 0)


async def _watch_limits(workers: WorkerGroup, verb: str, seen: dict[str, list[float]]) -> None:
    name = f'verbworker_limit{{verb="{verb}"}}'
    while True:
        for place in workers.places:
            found = await workers.read_metrics(place)
            if name in found:
                seen[place.name].append(found[name])
        await asyncio.sleep(0.1)


@pytest.mark.req("FAIL-06", "TST-11")
async def test_a_broker_that_asks_for_less_gets_less_and_loses_no_completion(
    narrow: Broker, site_at: Callable[[str], Site]
) -> None:
    site = site_at(narrow.address)
    workers = site.workers(4, "book", "send", **{WORK: "0:0.02"})
    limits: dict[str, list[float]] = defaultdict(list)
    try:
        async with site.load("book", "send") as load, asyncio.TaskGroup() as tasks:
            await load.start(300)
            workers.start_all()
            watching = tasks.create_task(_watch_limits(workers, f"{site.domain}.book", limits))
            await at_rest(workers, site.harness_dsn, [load])
            watching.cancel()
            found = await consult(load, site.provider, site.harness_dsn)
    finally:
        workers.end_all()

    steps = [(before, after) for seen in limits.values() for before, after in pairwise(seen)]
    assert any(after < before for before, after in steps), limits
    assert any(after > before for before, after in steps), limits
    assert (found.lost, found.booked_twice, found.differing) == (0, 0, 0)
    assert (found.spent_retries, found.incidents) == (0, 0)
    assert found.acknowledged == found.completed == found.frames
    assert [place.boots for place in workers.places] == [1, 1, 1, 1]
    assert workers.bugs() == []
