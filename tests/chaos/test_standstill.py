"""Workers that stand still and do not end: the others get their work, and nothing is done twice.

Zeebe 8.6.0 pushes jobs to any open stream, also to that of a stopped process, and pushes those that time out again, to
any stream; a poll beside it gets none of them. So a stopped worker gets a share of every job until its streams end.
"""

import asyncio
import os
import signal
from typing import Any

import grpc
import pytest
from pyzeebe.proto import gateway_pb2 as messages
from pyzeebe.proto.gateway_pb2_grpc import GatewayStub

from tests.chaos.load import Load
from tests.chaos.oracle import Findings, consult
from tests.chaos.site import Site
from tests.chaos.stuck import at_rest, free
from tests.chaos.verbs import BLOCK, WORK
from tests.chaos.workers import WorkerPlace, last_words
from tests.support.databases import value
from tests.support.eventually import eventually
from tests.support.zeebe import Broker

pytestmark = [pytest.mark.zeebe, pytest.mark.timeout(900)]

CASES = 30
# As a worker has them that was told nothing.
_DEFAULTS = {"VERBWORKER_LEASE": "30", "VERBWORKER_ENGINE_TIMEOUT": "60", "VERBWORKER_POLL_WAIT": "5", WORK: "0:0.05"}
# Engine timeout, grace before a case is reported, and a few looks.
_NAMED_BY_THEN = 120.0


async def _arrive(load: Load, count: int, cluster: Broker, dsn: str) -> tuple[float, int]:
    """Have so many instances arrive; returns after how many seconds, and how often the broker had to be restarted.

    It is restarted only for cases that the product reports as stalled.
    """
    loop = asyncio.get_running_loop()
    began, restarts = loop.time(), 0
    while load.arrived < count:
        before = load.arrived
        try:
            async with asyncio.timeout(_NAMED_BY_THEN), load.moved:
                await load.moved.wait_for(lambda: load.arrived > before)  # noqa: B023
        except TimeoutError:
            assert restarts < 2, f"{load.arrived} of {count} arrived, whatever is restarted"
            restarts += 1
            assert await free(dsn, [load], cluster), f"{load.arrived} of {count} arrived, and the others are not named"
    return loop.time() - began, restarts


async def _says(place: WorkerPlace, words: str) -> bool:
    return words in place.log.read_text()


def _assert_everything_happened_once(found: Findings) -> None:
    assert (found.lost, found.booked_twice, found.differing) == (0, 0, 0)
    assert found.provider.most_keys == 1
    assert (found.spent_retries, found.incidents) == (0, 0)
    assert found.acknowledged == found.completed == found.frames


@pytest.mark.req("JOB-01", "M-04")
async def test_with_one_of_two_workers_stopped_the_other_does_its_work(site: Site, cluster: Broker) -> None:
    workers = site.workers(2, "book", "send", **_DEFAULTS)
    stopped = workers.places[0]
    try:
        async with site.load("book", "send") as load:
            workers.start_all()
            await workers.all_ready()
            await load.start(4)
            await load.reach(4)
            await at_rest(workers, site.harness_dsn, [load])
            os.kill(stopped.pid, signal.SIGSTOP)
            await load.start(CASES)
            seconds, restarts = await _arrive(load, CASES + 4, cluster, site.harness_dsn)
            print(f"\none of two workers stopped: {CASES} cases in {seconds:.1f} s, timeouts lost by 8.6.0: {restarts}")
            os.kill(stopped.pid, signal.SIGCONT)
            await at_rest(workers, site.harness_dsn, [load])
            code = await workers.dismiss(stopped)
            found = await consult(load, site.provider, site.harness_dsn)
    finally:
        workers.end_all()

    _assert_everything_happened_once(found)
    assert code == 0, last_words(stopped.log, lines=60)
    assert workers.bugs() == []


@pytest.mark.req("JOB-01", "M-04")
async def test_a_worker_whose_loop_is_blocked_is_cut_off_and_comes_back(site: Site, cluster: Broker) -> None:
    workers = site.workers(2, "book", "send", VERBWORKER_LEASE="6", VERBWORKER_ENGINE_TIMEOUT="20", **{WORK: "0:0.05"})
    blocked, other = workers.places
    try:
        async with site.load("book", "send") as load:
            workers.start(blocked, **{BLOCK: "30"})
            workers.start(other)
            await workers.all_ready()
            while "blocks the loop" not in blocked.log.read_text():
                await load.start(1, pause=0.2)
            await load.start(CASES)
            # One stands in the blocked loop, and what it had claimed beside it waits for its lease.
            seconds, restarts = await _arrive(load, len(load.started) - 8, cluster, site.harness_dsn)
            print(f"\nloop of one of two workers blocked: {seconds:.1f} s, timeouts lost by 8.6.0: {restarts}")
            log = blocked.log.read_text()
            await _arrive(load, len(load.started), cluster, site.harness_dsn)
            await eventually(lambda: _says(blocked, "runs again"), timeout=120)
            stalls = (await workers.read_metrics(blocked)).get("verbworker_loop_stalls_total")
            # Alone it must do everything, so it is connected again.
            await workers.dismiss(other)
            await load.start(3)
            await _arrive(load, len(load.started), cluster, site.harness_dsn)
            await at_rest(workers, site.harness_dsn, [load])
            code = await workers.dismiss(blocked)
            found = await consult(load, site.provider, site.harness_dsn)
    finally:
        workers.end_all()

    assert "the event loop is blocked" in log
    assert "runs again" not in log
    assert "tests/chaos/verbs.py" in log
    assert "connections=0" not in log
    assert stalls is not None
    assert stalls >= 1
    _assert_everything_happened_once(found)
    assert code == 0, last_words(blocked.log, lines=60)


async def test_the_broker_is_restarted_for_cases_that_the_product_names_and_for_no_others(
    site: Site, cluster: Broker
) -> None:
    workers = site.workers(1, "book", "send", VERBWORKER_STALL_GRACE="3")
    try:
        async with site.load("book", "send") as load:
            await load.start(1)
            await _take_without_a_word(site)
            workers.start_all()
            await workers.all_ready()
            before = cluster.pid
            unnamed = await free(site.harness_dsn, [load], cluster)
            pid_unnamed = cluster.pid
            await eventually(lambda: _is_named(site), timeout=120)
            named = await free(site.harness_dsn, [load], cluster)
    finally:
        workers.end_all()

    assert (unnamed, pid_unnamed) == (0, before)
    assert (named, cluster.pid == before) == (1, False)


async def _take_without_a_word(site: Site) -> None:
    """Be handed the job as a worker is that dies before it claims: nothing of ours knows of it."""
    request = messages.ActivateJobsRequest(
        type=f"{site.domain}.book", worker="dead", timeout=3_600_000, maxJobsToActivate=1, requestTimeout=10_000
    )
    async with grpc.aio.insecure_channel(site.address) as channel:
        stub: Any = GatewayStub(channel)  # grpc ships no types
        jobs = [job async for answer in stub.ActivateJobs(request, timeout=20) for job in answer.jobs]
    assert len(jobs) == 1


async def _is_named(site: Site) -> bool:
    return bool(await value(site.harness_dsn, "SELECT count(*) FROM verbworker.stall WHERE kind = 'job'"))
