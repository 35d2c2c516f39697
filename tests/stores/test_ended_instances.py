"""An engine that forgot the end of an instance brings it back: it is found and cancelled, and nothing is done in it."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import uuid4

import pytest

from tests.support import worker_boot as rooms
from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE
from tests.support.gate_cases import TENANT, memory, review_registry
from tests.support.gate_cases import opened as opened_gates
from tests.support.ledger import Account
from verblint.contracts.contract import Gate
from verbworker.engine.protocol import Ask, Start
from verbworker.job.frame import FrameState
from verbworker.job.job import ENTRY_ID, INSTANCE_UID, RESERVED, TENANT_ID, Job
from verbworker.job.outcome import NO_RESULT
from verbworker.model.weave import COMPLETE, PARK
from verbworker.runbook.event import Kind, Status
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.instances import Instances
from verbworker.stores.database import Connection, Database
from verbworker.testing.memory import JobState, MemoryEngine
from verbworker.work.listeners.job_handler import JobVisit, ListenerJobs
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.starts.duplicate_instances import InstanceIdentity
from verbworker.work.upkeep.reconciler import Reconciler

NOW = timedelta(0)


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


def identity(database: Database, engine: MemoryEngine) -> InstanceIdentity:
    dispatches = Dispatches(database, engine_id=engine.engine_id, owner=uuid4())
    return InstanceIdentity(Instances(database), engine, dispatches)


def reconciler(database: Database, engine: MemoryEngine, after: timedelta = NOW) -> Reconciler:
    dispatches = Dispatches(database, engine_id=engine.engine_id, owner=uuid4())
    return Reconciler(database, engine, Cancellation(database, dispatches, engine), after=after)


async def end(stored: StoredEntry, kind: Kind = Kind.CANCELLED) -> None:
    detail = {} if kind is Kind.CANCELLED else {"result": "ok"}
    async with stored.database.transaction() as connection:
        await stored.runbook.end_in(connection, stored.entry_id, outcome=None, detail=detail, kind=kind)


async def begun(database: Database, engine: MemoryEngine, kind: str = "kyc.check") -> tuple[StoredEntry, int]:
    """An entry whose engine instance stands at one job."""
    engine.line("kyc", [kind, "kyc.other"])
    stored = await StoredEntry.open(database, attempts=1)
    variables = {ENTRY_ID: str(stored.entry_id), INSTANCE_UID: str(stored.instance_uid), TENANT_ID: "default"}
    started = await engine.start(Start("kyc", variables))
    await stored.start(started.instance_key)
    return stored, started.instance_key


async def delivery(engine: MemoryEngine, kind: str) -> Job:
    (job,) = await engine.activate(Ask(kind, "tests", 60_000, RESERVED), 1, 0)
    return job


# ---- what no job tells of ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.CANCELLED, Kind.RESULT])
async def test_an_instance_that_outlives_its_entry_is_cancelled(database: Database, kind: Kind) -> None:
    engine = MemoryEngine(ENGINE)
    stored, instance_key = await begun(database, engine)
    await end(stored, kind)

    await reconciler(database, engine).look()

    assert not await engine.alive(instance_key)


async def test_an_instance_that_ended_with_its_entry_is_asked_for_once(database: Database) -> None:
    engine = MemoryEngine(ENGINE)
    stored, instance_key = await begun(database, engine)
    await engine.cancel(instance_key)
    await end(stored)

    assert await reconciler(database, engine).look() == 1
    assert await reconciler(database, engine).look() == 0


async def test_an_instance_is_asked_for_again_when_the_engine_was_away(database: Database) -> None:
    engine = MemoryEngine(ENGINE)
    stored, instance_key = await begun(database, engine)
    await end(stored)
    engine.drop("alive", 1)
    await reconciler(database, engine).look()
    was_alive = await engine.alive(instance_key)

    await reconciler(database, engine).look()

    assert was_alive
    assert not await engine.alive(instance_key)


async def test_an_entry_that_has_just_ended_is_given_time(database: Database) -> None:
    engine = MemoryEngine(ENGINE)
    stored, instance_key = await begun(database, engine)
    await end(stored)

    assert await reconciler(database, engine, timedelta(minutes=1)).look() == 0
    assert await engine.alive(instance_key)


# ---- what a job tells of -------------------------------------------------------------------------------------------


async def act(connection: Connection, visit: JobVisit) -> bool:
    raise AssertionError("an entry that ended is not acted on")


async def test_an_instance_that_begins_to_wait_after_its_entry_was_completed_is_cancelled(database: Database) -> None:
    engine = MemoryEngine(ENGINE)
    stored, instance_key = await begun(database, engine, PARK)
    await end(stored, Kind.RESULT)

    await ListenerJobs(database, engine, identity(database, engine)).receive(await delivery(engine, PARK), act)

    assert not await engine.alive(instance_key)
    assert (await stored.entry()).status is Status.COMPLETED


async def test_the_last_listener_of_a_completed_entry_lets_its_instance_end(database: Database) -> None:
    engine = MemoryEngine(ENGINE)
    stored, _ = await begun(database, engine, COMPLETE)
    await end(stored, Kind.RESULT)
    job = await delivery(engine, COMPLETE)

    await ListenerJobs(database, engine, identity(database, engine)).receive(job, act)

    assert engine.jobs[job.key].state is JobState.COMPLETED


async def test_a_late_delivery_of_a_job_that_is_gone_cancels_nothing(database: Database) -> None:
    engine = MemoryEngine(ENGINE)
    engine.line("kyc", [PARK, COMPLETE])
    stored = await StoredEntry.open(database, attempts=1)
    variables = {ENTRY_ID: str(stored.entry_id), INSTANCE_UID: str(stored.instance_uid), TENANT_ID: "default"}
    started = await engine.start(Start("kyc", variables))
    await stored.start(started.instance_key)
    job = await delivery(engine, PARK)
    await engine.complete(job.key, NO_RESULT)
    await end(stored, Kind.RESULT)

    await ListenerJobs(database, engine, identity(database, engine)).receive(job, act)

    assert await engine.alive(started.instance_key)


async def test_the_gate_of_a_completed_entry_asks_nobody_and_its_instance_is_cancelled(database: Database) -> None:
    engine = memory()
    registry = review_registry(gate=Gate("review", "task_1", ("approve", "reject"), "reviewer"))
    async with opened_gates(database, engine, registry, identity=identity(database, engine)) as setup:
        entry_id = await setup.ask()
        job = await setup.task()
        async with database.transaction() as connection:
            await setup.starts.runbook.end_in(connection, entry_id, outcome=None, detail={"result": "ok"})

        await setup.handler.serve(job)

        assert await setup.gates.list(TENANT, entry_id=entry_id, closed=True) == []
        assert not await engine.alive(job.process_instance_key)


async def test_a_step_of_a_completed_entry_is_not_run_and_its_instance_is_cancelled(dsn: str) -> None:
    async def fail(account: Account) -> Account:
        raise AssertionError("an entry that ended is not worked on")

    async with rooms.opened(dsn, rooms.one_verb(fail, mode="transactional")) as worker:
        worker.executor._identity = identity(worker.database, worker.engine)
        begun = await worker.start()
        job = await worker.deliver()
        await worker.database.execute(
            "UPDATE verbworker.workflow_instance SET status = 'completed', ended_at = clock_timestamp()"
            " WHERE instance_uid = $1",
            begun.instance_uid,
        )

        await worker.executor.execute(job)

        assert not await worker.engine.alive(job.process_instance_key)
        assert (await worker.frame(job)).state is not FrameState.INCIDENT
