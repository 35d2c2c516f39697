"""Jobs without a frame: their row stands while they are served, and lets the sweep find those of a dead worker."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest

from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE, make_job
from tests.support.gate_cases import GATE, TENANT, memory, review_registry
from tests.support.gate_cases import opened as opened_gates
from tests.support.sweeping import GRACE, ROWS, leases_end, reconcile, serving, sweeper
from tests.support.trip import Agency, trip_registry
from tests.support.undoing import open_compensation
from verblint.contracts.contract import Gate
from verblint.names import COMPENSATE
from verbworker.engine.protocol import Ask, Start
from verbworker.errors import StoreError, StoreUnavailable
from verbworker.job import failpoint
from verbworker.job.failpoint import Point
from verbworker.job.job import ENTRY_ID, INSTANCE_UID, RESERVED, TENANT_ID, Job
from verbworker.runbook.event import Status
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.instances import Instances
from verbworker.stores.database import Connection, Database
from verbworker.stores.jobs.deliveries import Deliveries
from verbworker.testing.kit import Crash
from verbworker.testing.memory import JobState, MemoryEngine
from verbworker.work.listeners.job_handler import Act, JobVisit, ListenerJobs, ListenerKind, Serving
from verbworker.work.starts.duplicate_instances import InstanceIdentity

KIND = "verbworker.park"
AT_TASK_1 = Gate(GATE, "task_1", ("approve", "reject"), "reviewer")


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=8) as database:
        yield database


async def rows(database: Database) -> list[tuple[str, bool]]:
    return [(row["type"], row["is_live"]) for row in await database.fetch(ROWS)]


@dataclass(slots=True)
class CountingHandler:
    """A handler that does what the test says, and how often it was asked."""

    do: Callable[[Job], Awaitable[bool]]
    type: str = KIND
    concurrency: int = 4
    timeout: timedelta | None = None
    variables: tuple[str, ...] = RESERVED
    served: list[Job] = field(default_factory=list)

    async def serve(self, job: Job) -> bool:
        self.served.append(job)
        return await self.do(job)


def answering(is_answered: bool) -> CountingHandler:
    async def do(job: Job) -> bool:
        return is_answered

    return CountingHandler(do)


# ---- the row ---------------------------------------------------------------------------------------------------------


async def test_a_row_stands_while_a_job_is_served_and_goes_with_its_answer(database: Database) -> None:
    seen: list[list[tuple[str, bool]]] = []

    async def do(job: Job) -> bool:
        seen.append(await rows(database))
        return True

    async with serving(database, MemoryEngine(ENGINE)) as (around, _):
        await around.serve(CountingHandler(do), make_job(type=KIND))

    assert seen == [[(KIND, True)]]
    assert await rows(database) == []


async def test_a_job_that_is_left_undone_keeps_its_row_until_the_sweep_finds_it(database: Database) -> None:
    async with serving(database, MemoryEngine(ENGINE)) as (around, deliveries):
        await around.serve(answering(False), make_job(type=KIND))
        await leases_end(database)
        await deliveries.beat()

        assert await rows(database) == [(KIND, False)]


async def test_a_service_that_is_cut_off_leaves_its_row(database: Database) -> None:
    begun = asyncio.Event()

    async def do(job: Job) -> bool:
        begun.set()
        await asyncio.Event().wait()
        return True

    async with serving(database, MemoryEngine(ENGINE)) as (around, _):
        task = asyncio.create_task(around.serve(CountingHandler(do), make_job(type=KIND)))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert await rows(database) == [(KIND, True)]


async def test_the_row_of_a_long_service_is_kept_alive_and_written_anew_when_it_is_missing(database: Database) -> None:
    async with serving(database, MemoryEngine(ENGINE)) as (_, deliveries):
        for key in (1, 2):
            await deliveries.begin(make_job(key, type=KIND), None)
        await leases_end(database)
        await database.execute("DELETE FROM verbworker.job_delivery WHERE job_key = 2")

        await deliveries.beat()

        assert await rows(database) == [(KIND, True), (KIND, True)]
        for key in (1, 2):
            await deliveries.end(make_job(key, type=KIND))
        await deliveries.beat()
        assert await rows(database) == []


async def test_a_new_delivery_takes_the_row_over_and_a_heartbeat_does_not(database: Database) -> None:
    engine = MemoryEngine(ENGINE)
    async with serving(database, engine) as (_, first), serving(database, engine) as (_, second):
        await first.begin(make_job(type=KIND), None)
        await second.begin(make_job(type=KIND, at=2), None)
        await first.beat()
        await first.end(make_job(type=KIND))
        standing = await rows(database)
        await second.end(make_job(type=KIND))

        assert standing == [(KIND, True)]
        assert await rows(database) == []


async def test_two_deliveries_in_one_worker_share_a_row_until_both_are_answered(database: Database) -> None:
    async with serving(database, MemoryEngine(ENGINE)) as (_, deliveries):
        job = make_job(type=KIND)
        await deliveries.begin(job, None)
        await deliveries.begin(replace(job, activated_ms=2), None)
        await deliveries.end(job)
        shared = await rows(database)
        await deliveries.end(job)

        assert shared == [(KIND, True)]
        assert await rows(database) == []


async def test_many_rows_at_once_leave_nothing_behind(database: Database) -> None:
    async with serving(database, MemoryEngine(ENGINE), lease=timedelta(milliseconds=3)) as (around, _):
        handler = answering(True)
        await asyncio.gather(*(around.serve(handler, make_job(key % 50, type=KIND)) for key in range(400)))

        assert await rows(database) == []
        assert len(handler.served) == 400


# ---- a database that does not take it -------------------------------------------------------------------------------


class AwayDeliveries(Deliveries):
    """Rows that cannot be written for a while."""

    left = 10_000

    async def begin(self, job: Job, instance_uid: object) -> None:
        if self.left:
            self.left -= 1
            raise StoreUnavailable("away")
        await super().begin(job, None)


async def test_a_database_that_is_away_is_waited_for(database: Database) -> None:
    deliveries, handler = AwayDeliveries(database, engine_id=ENGINE, owner=uuid4()), answering(True)
    deliveries.left = 2

    async def give_back(job: Job, error: StoreError) -> None:
        raise AssertionError(error)

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(deliveries.run())
        await Serving(deliveries, give_back).serve(handler, make_job(type=KIND))
        running.cancel()

    assert len(handler.served) == 1


async def test_a_job_is_given_back_when_the_database_stays_away(database: Database) -> None:
    given: list[tuple[int, str]] = []

    async def give_back(job: Job, error: StoreError) -> None:
        given.append((job.key, str(error)))

    deliveries, handler = AwayDeliveries(database, engine_id=ENGINE, owner=uuid4()), answering(True)
    await Serving(deliveries, give_back).serve(handler, make_job(type=KIND, timeout_ms=0))

    assert (given, handler.served) == ([(1, "away")], [])


async def test_a_row_that_is_refused_keeps_no_job_from_being_served(database: Database) -> None:
    await database.execute("ALTER TABLE verbworker.job_delivery ADD CHECK (job_key < 0)")
    handler = answering(True)
    async with serving(database, MemoryEngine(ENGINE)) as (around, _):
        await around.serve(handler, make_job(type=KIND))

    assert len(handler.served) == 1


async def test_a_row_that_cannot_be_removed_is_removed_by_the_sweep(database: Database) -> None:
    engine = MemoryEngine(ENGINE)
    async with serving(database, engine) as (around, deliveries):

        async def do(job: Job) -> bool:
            await database.execute("ALTER TABLE verbworker.job_delivery RENAME TO elsewhere")
            return True

        await around.serve(CountingHandler(do), make_job(type=KIND))
        await database.execute("ALTER TABLE verbworker.elsewhere RENAME TO job_delivery")
        await leases_end(database)
        await deliveries.beat()
        assert await rows(database) == [(KIND, False)]

        await sweeper(database, engine).sweep()

        assert await rows(database) == []


# ---- the sweep -------------------------------------------------------------------------------------------------------


@pytest.fixture
async def listening(database: Database) -> tuple[StoredEntry, MemoryEngine, ListenerJobs]:
    engine = MemoryEngine(ENGINE)
    engine.line("kyc", [KIND])
    engine.lose_timeouts()
    stored = await StoredEntry.open(database, attempts=1)
    variables = {ENTRY_ID: str(stored.entry_id), INSTANCE_UID: str(stored.instance_uid), TENANT_ID: "default"}
    started = await engine.start(Start("kyc", variables))
    await stored.start(started.instance_key)
    dispatches = Dispatches(database, engine_id=ENGINE, owner=uuid4())
    identity = InstanceIdentity(Instances(database), engine, dispatches)
    return stored, engine, ListenerJobs(database, engine, identity)


async def handed_out(engine: MemoryEngine, kind: str) -> list[Job]:
    """What the engine hands out, however long one waits."""
    engine.advance(24 * 3600)
    return await engine.activate(Ask(kind, "tests", 60_000, RESERVED), 10, 0)


def acting(*errors: BaseException) -> Act:
    left = list(errors)

    async def act(connection: Connection, visit: JobVisit) -> bool:
        if left:
            raise left.pop()
        return True

    return act


@pytest.mark.parametrize("error", [Crash(), StoreUnavailable("away"), ZeroDivisionError()], ids=repr)
async def test_a_listener_job_that_was_not_answered_is_served_elsewhere_without_a_timeout(
    database: Database, listening: tuple[StoredEntry, MemoryEngine, ListenerJobs], error: BaseException
) -> None:
    _, engine, listener_jobs = listening
    handler = ListenerKind(KIND, partial(listener_jobs.receive, act=acting(error)))
    (job,) = await handed_out(engine, KIND)
    async with serving(database, engine) as (around, _):
        with suppress(Crash):
            await around.serve(handler, job)
    before = await handed_out(engine, KIND)
    await leases_end(database)

    await sweeper(database, engine).sweep()
    (again,) = await handed_out(engine, KIND)
    async with serving(database, engine) as (around, _):
        await around.serve(handler, again)

    assert (before, again.key, again.retries) == ([], job.key, job.retries)
    assert engine.jobs[job.key].state is JobState.COMPLETED
    assert await rows(database) == []


async def test_a_gate_whose_worker_died_before_it_was_parked_is_parked_by_another(database: Database) -> None:
    engine = memory()
    engine.lose_timeouts()
    async with opened_gates(database, engine, review_registry(gate=AT_TASK_1)) as setup:
        entry_id = await setup.ask()
        job = await setup.task(wait_ms=0)
        async with serving(database, engine) as (_, deliveries):
            await deliveries.begin(job, None)  # and there it is killed
        await leases_end(database)
        before = await handed_out(engine, job.type)
        await sweeper(database, engine).sweep()
        async with serving(database, engine) as (around, _):
            await around.serve(setup.handler, await setup.task(wait_ms=0))

        gate = await setup.gate(entry_id)
        await setup.decide(gate)
        assert before == []
        assert (await setup.status(entry_id), engine.jobs[job.key].state) == (Status.EXECUTING, JobState.COMPLETED)
        assert await rows(database) == []
        assert (gate.tenant_id, gate.gate) == (TENANT, GATE)


async def test_a_parked_gate_has_no_row_and_is_left_alone(database: Database) -> None:
    engine = memory()
    engine.lose_timeouts()
    async with opened_gates(database, engine, review_registry(gate=AT_TASK_1)) as setup:
        await setup.ask()
        async with serving(database, engine) as (around, _):
            await around.serve(setup.handler, await setup.task(wait_ms=0))
        await leases_end(database)

        assert await sweeper(database, engine).sweep() == 0
        assert await handed_out(engine, setup.handler.type) == []


@pytest.mark.parametrize("number", [1, 4, 7])
async def test_a_case_whose_worker_died_while_undoing_is_undone_elsewhere(dsn: str, number: int) -> None:
    agency = Agency()
    async with open_compensation(dsn, trip_registry(agency)) as place:
        known = await place.booked()
        place.engine.lose_timeouts()
        job = await place.take(COMPENSATE)
        passed = 0

        def strike(point: Point) -> None:
            nonlocal passed
            passed += 1
            if passed == number:
                raise Crash

        failpoint.arm(strike)
        async with serving(place.database, place.engine) as (around, _):
            with pytest.raises(Crash):
                await around.serve(place.worker.compensation, job)
        failpoint.arm(None)
        place.worker = place.boot()
        await leases_end(place.database)
        before = await handed_out(place.engine, COMPENSATE)

        await sweeper(place.database, place.engine).sweep()
        async with serving(place.database, place.engine) as (around, _):
            await around.serve(place.worker.compensation, await place.take(COMPENSATE))

        assert (before, known.state) == ([], JobState.COMPLETED)
        assert await place.effects() == ["book-flight", "book-car", "cancel-car", "cancel-flight"]
        assert agency.count_effects("cancel-hotel") == 1
        assert await rows(place.database) == []


async def test_a_walk_that_finds_a_rival_at_a_step_is_delivered_again_when_the_rival_dies(dsn: str) -> None:
    agency = Agency()
    async with open_compensation(dsn, trip_registry(agency)) as place:
        known = await place.booked()
        first = await place.take(COMPENSATE)

        def strike(point: Point) -> None:
            if point is Point.PUSHED:
                raise Crash

        failpoint.arm(strike)
        with pytest.raises(Crash):
            await place.worker.compensation.serve(first)
        failpoint.arm(None)
        place.engine.time_out(first.key)
        place.engine.lose_timeouts()
        place.worker = place.boot()
        async with serving(place.database, place.engine) as (around, _):
            await around.serve(place.worker.compensation, await place.take(COMPENSATE))  # the dead one's lease is alive
            waiting = (known.state, await handed_out(place.engine, COMPENSATE))
            await leases_end(place.database)
            await sweeper(place.database, place.engine).sweep()
            await around.serve(place.worker.compensation, await place.take(COMPENSATE))

        assert waiting == (JobState.ACTIVATED, [])
        assert known.state is JobState.COMPLETED
        assert agency.count_effects("cancel-hotel") == 1


async def test_a_job_that_is_gone_loses_its_row_and_its_instance_is_asked_for(
    database: Database, listening: tuple[StoredEntry, MemoryEngine, ListenerJobs]
) -> None:
    stored, engine, _ = listening
    (job,) = await handed_out(engine, KIND)
    async with serving(database, engine) as (_, deliveries):
        await deliveries.begin(job, stored.instance_uid)
    await engine.cancel(job.process_instance_key)
    await leases_end(database)

    sweep = sweeper(database, engine)
    await sweep.sweep()
    await reconcile(sweep, database)

    entry = await stored.runbook.entry(stored.entry_id)
    assert entry is not None
    assert entry.status is Status.CANCELLED
    assert await rows(database) == []


async def test_a_job_that_its_worker_had_answered_before_it_died_only_loses_its_row(
    database: Database, listening: tuple[StoredEntry, MemoryEngine, ListenerJobs]
) -> None:
    stored, engine, _ = listening
    (job,) = await handed_out(engine, KIND)
    async with serving(database, engine) as (_, deliveries):
        await deliveries.begin(job, stored.instance_uid)
    await engine.fail(job.key, retries=0, message="refused")
    await leases_end(database)

    await sweeper(database, engine).sweep()

    assert (engine.jobs[job.key].state, engine.jobs[job.key].messages) == (JobState.INCIDENT, ["refused"])
    assert await rows(database) == []


async def test_a_row_is_kept_while_the_engine_is_away_and_tried_again_later(
    database: Database, listening: tuple[StoredEntry, MemoryEngine, ListenerJobs]
) -> None:
    stored, engine, _ = listening
    (job,) = await handed_out(engine, KIND)
    async with serving(database, engine) as (_, deliveries):
        await deliveries.begin(job, stored.instance_uid)
    await leases_end(database)
    engine.drop("fail")
    sweep = sweeper(database, engine)

    assert [await sweep.sweep(), await sweep.sweep()] == [1, 0]
    assert len(await rows(database)) == 1
    await leases_end(database)
    await sweeper(database, engine).sweep()
    assert [known.key for known in await handed_out(engine, KIND)] == [job.key]
    assert await rows(database) == []


async def test_a_worker_that_gets_the_job_it_freed_itself_keeps_its_row(database: Database) -> None:
    async with serving(database, MemoryEngine(ENGINE)) as (_, deliveries):
        job = make_job(type=KIND)
        await deliveries.begin(job, None)
        await leases_end(database)
        (lapsed,) = await deliveries.take(grace=GRACE, limit=10)
        await deliveries.begin(replace(job, activated_ms=2), None)

        await deliveries.remove(lapsed)

        assert await rows(database) == [(KIND, True)]
