"""A gateway that is away, and a cluster that is paused: everything takes longer, and costs nothing."""

import asyncio
import os
import signal
from dataclasses import dataclass

import pytest

from tests.chaos.oracle import Findings, consult
from tests.chaos.site import Site
from tests.chaos.stuck import at_rest
from tests.chaos.verbs import WORK
from tests.chaos.workers import WorkerGroup
from tests.support.databases import value
from tests.support.zeebe import Broker

pytestmark = [pytest.mark.zeebe, pytest.mark.timeout(600)]

_CALM = {"VERBWORKER_LEASE": "10", "VERBWORKER_ENGINE_TIMEOUT": "15"}
_WAITING_VERDICTS = "SELECT count(*) FROM verbworker.job_frame WHERE state = 'completed' AND acked_at IS NULL"


class Frozen:
    """A gateway that takes connections and says nothing."""

    def begin(self, cluster: Broker) -> None:
        os.kill(cluster.pid, signal.SIGSTOP)

    def end(self, cluster: Broker) -> None:
        os.kill(cluster.pid, signal.SIGCONT)


class Killed:
    """A gateway that nobody listens for."""

    def begin(self, cluster: Broker) -> None:
        cluster.kill()

    def end(self, cluster: Broker) -> None:
        cluster.start()


class Paused:
    """A cluster that refuses everything, as an administrator may tell it to."""

    def begin(self, cluster: Broker) -> None:
        cluster.pause()

    def end(self, cluster: Broker) -> None:
        cluster.resume()


@dataclass(frozen=True, slots=True)
class Endured:
    """What an outage left: answers to /live during it, verdicts that waited at its end, and what was found later."""

    live: set[int | None]
    waiting: int
    pids_before: list[int]
    pids_after: list[int]
    findings: Findings
    bugs: list[str]


async def _endure(site: Site, cluster: Broker, outage: Frozen | Killed | Paused, seconds: float) -> Endured:
    workers = site.workers(2, "book", "send", **{WORK: "0.5:2"}, **_CALM)
    try:
        async with site.load("book", "send") as load:
            # All of them before the workers, so that enough is at work when the engine goes.
            await load.start(60)
            workers.start_all()
            pids = [place.pid for place in workers.places]
            await load.reach(3)
            await asyncio.to_thread(outage.begin, cluster)
            try:
                live = await _watched(workers, seconds)
                waiting = await value(site.harness_dsn, _WAITING_VERDICTS)
            finally:
                await asyncio.to_thread(outage.end, cluster)
            await at_rest(workers, site.harness_dsn, [load])
            after = [place.pid for place in workers.places if place.is_running()]
            return Endured(
                live, waiting, pids, after, await consult(load, site.provider, site.harness_dsn), workers.bugs()
            )
    finally:
        workers.end_all()


async def _watched(workers: WorkerGroup, seconds: float) -> set[int | None]:
    loop = asyncio.get_running_loop()
    over, seen = loop.time() + seconds, set()
    while loop.time() < over:
        seen |= {await workers.probe(place, "/live") for place in workers.places}
        await asyncio.sleep(0.5)
    return seen


@pytest.mark.req("FAIL-06", "TST-11")
@pytest.mark.parametrize(
    ("outage", "seconds"),
    [
        # Shorter than a lease would prove nothing; the other two ways to be away belong to the long form.
        pytest.param(Killed(), 12.0, id="killed"),
        pytest.param(Frozen(), 15.0, id="frozen", marks=pytest.mark.long),
        pytest.param(Paused(), 15.0, id="paused", marks=pytest.mark.long),
        pytest.param(Frozen(), 60.0, id="frozen for a minute", marks=pytest.mark.long),
        pytest.param(Killed(), 60.0, id="killed for a minute", marks=pytest.mark.long),
        pytest.param(Paused(), 60.0, id="paused for a minute", marks=pytest.mark.long),
    ],
)
async def test_an_engine_that_is_away_costs_no_retry_and_no_worker(
    site: Site, cluster: Broker, outage: Frozen | Killed | Paused, seconds: float
) -> None:
    endured = await _endure(site, cluster, outage, seconds)

    found = endured.findings
    assert endured.live == {200}
    assert endured.pids_after == endured.pids_before
    assert endured.waiting > 0
    assert (found.lost, found.booked_twice, found.provider.repeated, found.differing) == (0, 0, 0, 0)
    assert (found.spent_retries, found.takeovers, found.fenced, found.incidents) == (0, 0, 0, 0)
    assert found.acknowledged == found.completed == found.frames
    assert endured.bugs == []
