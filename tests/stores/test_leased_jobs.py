"""Leased jobs on a real database: a late worker is fenced, and senders without a token have the job delivered again."""

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tests.support.leasing import LeasingEngine
from tests.support.ledger import Account
from tests.support.start import Begun, begin
from tests.support.sweeping import die, leases_end, sweeper
from tests.support.worker_boot import LooplessWorker, one_verb, opened, quick
from verbworker.contract.registry import Registry
from verbworker.errors import PermanentBusiness, TransientExternal
from verbworker.job.failpoint import Point
from verbworker.job.frame import FrameState
from verbworker.job.job import Job
from verbworker.runbook.event import Kind, Status
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.cases.suspensions import Suspensions
from verbworker.testing.memory import JobState
from verbworker.work.jobs.verdicts import Relay
from verbworker.work.upkeep.suspension_watch import SuspensionWatch


class Outside:
    """What the verb calls: it counts, may fail, and may wait to be told to go on."""

    def __init__(self) -> None:
        self.calls = 0
        self.failures = 0
        self.refuses = False
        self.is_there = asyncio.Event()
        self.may_go = asyncio.Event()
        self.may_go.set()

    def registry(self) -> Registry:
        async def send(account: Account) -> Account:
            self.calls += 1
            self.is_there.set()
            await self.may_go.wait()
            if self.calls <= self.failures:
                raise TransientExternal("away", code="Away")
            if self.refuses:
                raise PermanentBusiness("no", code="NO")
            return account.model_copy(update={"sent": True})

        return one_verb(send, policy=quick())


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.fixture
def engine() -> LeasingEngine:
    return LeasingEngine()


@pytest.fixture
async def worker(dsn: str, outside: Outside, engine: LeasingEngine) -> AsyncIterator[LooplessWorker]:
    async with opened(dsn, outside.registry(), engine=engine) as worker:
        yield worker


async def start_with_entry(worker: LooplessWorker) -> Begun:
    """Start an instance that has an entry in the runbook."""
    workflow = worker.registry.workflows["desk.run"]
    data = Account().model_dump(mode="json")
    return await begin(worker.database, worker.engine, workflow, data, has_entry=True)


async def overtake(worker: LooplessWorker, job: Job) -> Job:
    """Let the engine's timeout of a delivery be over, and take the next delivery of the same job."""
    worker.engine.time_out(job.key)
    again = await worker.deliver()
    assert again.key == job.key
    assert again.lease_token != job.lease_token
    return again


async def during(worker: LooplessWorker, outside: Outside, job: Job, work: Any) -> Any:
    """Do some work while the verb of a job runs, then let the verb go on to its end."""
    outside.may_go.clear()
    outside.is_there.clear()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(worker.executor.execute(job))
        await outside.is_there.wait()
        done = await work()
        outside.may_go.set()
        await running
    return done


async def test_a_report_with_its_own_token_is_accepted(
    worker: LooplessWorker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        await worker.start()
        job = await worker.work()
    await worker.frames.flush()

    assert worker.known(job).state is JobState.COMPLETED
    assert await worker.column(job, "ack_result") == "ok"
    assert job.lease_token is not None
    assert job.lease_token not in caplog.text


async def test_a_stale_completion_is_refused_and_sent_once(
    worker: LooplessWorker, outside: Outside, engine: LeasingEngine
) -> None:
    job = await worker.begun()
    later = await during(worker, outside, job, lambda: overtake(worker, job))

    assert engine.refused == [("complete", job.key)]
    assert worker.known(job).state is JobState.ACTIVATED
    assert "verdict fenced" in await worker.story(job)

    await worker.executor.execute(later)
    await worker.frames.flush()

    assert (outside.calls, worker.known(job).completions) == (1, 1)
    assert "replay" in await worker.story(job)
    assert await worker.column(job, "ack_result") == "ok"


async def test_a_stale_error_is_refused_and_the_next_delivery_throws_it(
    worker: LooplessWorker, outside: Outside, engine: LeasingEngine
) -> None:
    outside.refuses = True
    job = await worker.begun()
    later = await during(worker, outside, job, lambda: overtake(worker, job))

    assert engine.refused == [("throw", job.key)]
    assert worker.known(job).state is JobState.ACTIVATED
    assert "verdict fenced" in await worker.story(job)

    await worker.executor.execute(later)
    await worker.frames.flush()

    assert (outside.calls, worker.known(job).state) == (1, JobState.THROWN)
    assert await worker.column(job, "ack_result") == "ok"


async def test_a_stale_failure_is_refused_and_the_next_delivery_runs_the_job(
    worker: LooplessWorker, outside: Outside, engine: LeasingEngine
) -> None:
    outside.failures = 1
    job = await worker.begun()
    later = await during(worker, outside, job, lambda: overtake(worker, job))

    assert engine.refused == [("fail", job.key)]
    assert engine.failures == []
    assert "failure fenced" in await worker.story(job)

    await worker.executor.execute(later)

    assert (outside.calls, worker.known(job).state) == (2, JobState.COMPLETED)


async def test_a_stale_extension_stops_the_run(worker: LooplessWorker, outside: Outside, engine: LeasingEngine) -> None:
    job = await worker.begun()

    async def overtake_and_beat() -> None:
        await overtake(worker, job)
        await worker.leases.beat()

    await during(worker, outside, job, overtake_and_beat)

    assert engine.refused == [("extend", job.key)]
    assert (await worker.frame(job)).state is FrameState.STARTED
    assert "fenced" in await worker.story(job)


async def test_the_relay_has_a_leased_job_delivered_again_and_its_verdict_replayed(
    worker: LooplessWorker, outside: Outside, engine: LeasingEngine
) -> None:
    job = await worker.begun()
    outside_of_engine = engine.tokens[job.key]
    await die(worker.executor, job, Point.POPPED)

    sent = await Relay(worker.frames, worker.returns, every=timedelta(0)).sweep()
    engine.advance(1)
    later = await worker.deliver()
    await worker.executor.execute(later)
    await worker.frames.flush()

    assert (sent, engine.refused, engine.extended) == (0, [("complete", job.key)], [(job.key, 1)])
    assert later.lease_token not in (None, outside_of_engine)
    assert (outside.calls, worker.known(job).completions) == (1, 1)
    assert await worker.column(job, "ack_result") == "ok"


async def test_the_relay_settles_a_leased_job_that_is_gone(worker: LooplessWorker, engine: LeasingEngine) -> None:
    job = await worker.begun()
    await die(worker.executor, job, Point.POPPED)
    await engine.cancel(job.process_instance_key)

    sent = await Relay(worker.frames, worker.returns, every=timedelta(0)).sweep()

    assert sent == 1


async def test_the_sweep_has_the_job_of_a_dead_worker_delivered_again(
    worker: LooplessWorker, outside: Outside, engine: LeasingEngine
) -> None:
    job = await worker.begun()
    await die(worker.executor, job, Point.PUSHED)
    await leases_end(worker.database)

    await sweeper(worker.database, engine).sweep()
    engine.advance(1)
    await worker.work()

    assert engine.refused == [("fail", job.key)]
    assert engine.extended == [(job.key, 1)]
    assert (outside.calls, worker.known(job).state) == (1, JobState.COMPLETED)


async def test_the_next_delivery_reports_the_failure_of_a_dead_worker(
    worker: LooplessWorker, outside: Outside, engine: LeasingEngine
) -> None:
    outside.failures = 1
    job = await worker.begun()
    await die(worker.executor, job, Point.FAILED)
    await leases_end(worker.database)

    await sweeper(worker.database, engine).sweep()

    assert (await worker.frame(job)).reported_at is None

    engine.advance(1)
    await worker.work()

    assert (outside.calls, worker.known(job).state) == (2, JobState.COMPLETED)


async def test_a_worker_without_leases_changes_nothing(dsn: str, outside: Outside) -> None:
    async with opened(dsn, outside.registry()) as worker:
        await worker.start()
        job = await worker.work()

        assert job.lease_token is None
        assert worker.known(job).state is JobState.COMPLETED


# ---- suspension -----------------------------------------------------------------------------------------------------


async def test_a_verdict_of_a_suspended_instance_waits_until_it_is_resumed(
    worker: LooplessWorker, outside: Outside, engine: LeasingEngine
) -> None:
    begun = await start_with_entry(worker)
    job = await worker.deliver()
    engine.suspended.add(job.process_instance_key)
    await worker.executor.execute(job)
    runbook, suspensions = Runbook(worker.database), Suspensions(worker.database, engine_id=engine.engine_id)
    watch = SuspensionWatch(suspensions, engine, every=timedelta(0))
    await watch.look()
    parked = await runbook.entry(begun.entry_id)

    assert parked is not None
    assert parked.status is Status.PARKED
    assert [wait.reason for wait in await runbook.waits(begun.entry_id)] == ["Suspended in the engine"]
    assert (await worker.frame(job)).state is FrameState.COMPLETED
    assert engine.failures == []

    engine.suspended.clear()
    await watch.look()
    await Relay(worker.frames, worker.returns, every=timedelta(0)).sweep()
    engine.advance(1)
    await worker.work()
    await worker.frames.flush()
    events = [event.kind for event in await runbook.events(begun.entry_id)]

    assert await runbook.waits(begun.entry_id) == []
    assert (events.count(Kind.PARKED), events.count(Kind.RESUMED)) == (1, 1)
    assert (outside.calls, worker.known(job).completions) == (1, 1)


async def test_an_instance_can_be_suspended_twice(worker: LooplessWorker, engine: LeasingEngine) -> None:
    begun = await start_with_entry(worker)
    job = await worker.deliver()
    suspensions = Suspensions(worker.database, engine_id=engine.engine_id)
    parked = [await suspensions.park(job.key, job.process_instance_key) for _ in range(2)]
    (first,) = await suspensions.due(10)
    resumed = [await suspensions.resume(first) for _ in range(2)]
    again = await suspensions.park(job.key, job.process_instance_key)
    kinds = [event.kind for event in await Runbook(worker.database).events(begun.entry_id)]

    assert (parked, resumed, again) == ([True, False], [True, False], True)
    assert [kind for kind in kinds if kind in (Kind.PARKED, Kind.RESUMED)] == [Kind.PARKED, Kind.RESUMED, Kind.PARKED]


async def test_a_job_without_an_entry_parks_nothing(worker: LooplessWorker, engine: LeasingEngine) -> None:
    assert not await Suspensions(worker.database, engine_id=engine.engine_id).park(7, 8)


async def test_a_running_verb_learns_that_its_instance_is_suspended(
    worker: LooplessWorker, outside: Outside, engine: LeasingEngine
) -> None:
    begun = await start_with_entry(worker)
    job = await worker.deliver()
    worker.leases._suspensions = Suspensions(worker.database, engine_id=engine.engine_id)

    async def suspend_and_beat() -> list[str]:
        engine.suspended.add(job.process_instance_key)
        await worker.leases.beat()
        waits = await Runbook(worker.database).waits(begun.entry_id)
        engine.suspended.clear()
        return [wait.kind for wait in waits]

    assert await during(worker, outside, job, suspend_and_beat) == ["suspended"]
    assert worker.known(job).state is JobState.COMPLETED


async def test_the_failure_of_a_suspended_instance_is_reported_after_that(
    worker: LooplessWorker, outside: Outside, engine: LeasingEngine
) -> None:
    outside.failures = 1
    job = await worker.begun()
    engine.suspended.add(job.process_instance_key)
    await worker.executor.execute(job)
    await leases_end(worker.database)
    await sweeper(worker.database, engine).sweep()

    assert engine.failures == []
    assert (await worker.frame(job)).reported_at is None

    engine.suspended.clear()
    await leases_end(worker.database)
    await sweeper(worker.database, engine).sweep()
    engine.advance(1)
    await worker.work()

    assert (outside.calls, worker.known(job).state) == (2, JobState.COMPLETED)
