"""The reception of listener jobs in bad weather: the database away, the engine away, a bug, another's key."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

import pytest

from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE
from verbworker.engine.protocol import Ask, Start
from verbworker.errors import (
    DuplicateInstance,
    PermanentContract,
    StoreConflict,
    StoreUnavailable,
    TransientInfrastructure,
)
from verbworker.job.job import ENTRY_ID, INSTANCE_UID, RESERVED, TENANT_ID, Job
from verbworker.runbook.event import Kind, Status, Wait
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.instances import Instances
from verbworker.stores.database import Connection, Database
from verbworker.testing.memory import JobState, MemoryEngine, MemoryJob
from verbworker.work.listeners.job_handler import Act, JobVisit, ListenerJobs, ListenerKind
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.starts.duplicate_instances import InstanceIdentity

KIND = "verbworker.park"


@dataclass(frozen=True, slots=True)
class ListenerSetup:
    stored: StoredEntry
    engine: MemoryEngine
    listener_jobs: ListenerJobs

    async def delivery(self) -> Job:
        ask = Ask(KIND, "tests", 60_000, RESERVED)
        (job,) = await self.engine.activate(ask, 1, 0)
        return job

    def known(self, job: Job) -> MemoryJob:
        return self.engine.jobs[job.key]


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


@pytest.fixture
async def setup(database: Database) -> ListenerSetup:
    engine = MemoryEngine(ENGINE)
    engine.line("kyc", [KIND])
    stored = await StoredEntry.open(database, attempts=1)
    variables = {ENTRY_ID: str(stored.entry_id), INSTANCE_UID: str(stored.instance_uid), TENANT_ID: "default"}
    started = await engine.start(Start("kyc", variables))
    await stored.start(started.instance_key)
    dispatches = Dispatches(database, engine_id=ENGINE, owner=uuid4())
    identity = InstanceIdentity(Instances(database), engine, dispatches)
    return ListenerSetup(stored, engine, ListenerJobs(database, engine, identity))


def failing(error: Exception, times: int = 1) -> Act:
    left = [error] * times

    async def act(connection: Connection, visit: JobVisit) -> bool:
        if left:
            raise left.pop()
        return True

    return act


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), StoreConflict("collided")])
async def test_while_the_database_is_away_the_job_is_left_to_the_engine(setup: ListenerSetup, error: Exception) -> None:
    job, act = await setup.delivery(), failing(error)
    await setup.listener_jobs.receive(job, act)
    left = setup.known(job).state
    setup.engine.advance(3)

    await setup.listener_jobs.receive(await setup.delivery(), act)

    assert left is JobState.ACTIVATED
    assert (setup.known(job).state, setup.known(job).deliveries) == (JobState.COMPLETED, 2)


async def test_a_job_of_a_duplicate_is_over_and_is_no_incident(setup: ListenerSetup) -> None:
    job = await setup.delivery()

    is_answered = await setup.listener_jobs.receive(
        job, failing(DuplicateInstance("not ours", code="DuplicateInstance"))
    )

    assert is_answered
    assert (setup.known(job).state, setup.known(job).messages) == (JobState.ACTIVATED, [])
    assert await setup.stored.kinds() == ["DurableTaskStarted"]


async def test_a_bug_leaves_the_job_to_the_engine(setup: ListenerSetup, caplog: pytest.LogCaptureFixture) -> None:
    job = await setup.delivery()

    await setup.listener_jobs.receive(job, failing(ZeroDivisionError()))

    assert setup.known(job).state is JobState.ACTIVATED
    assert "job failed with an unexpected error" in caplog.text


async def test_a_completion_the_engine_did_not_hear_of_is_said_again(setup: ListenerSetup) -> None:
    acted: list[int] = []

    async def act(connection: Connection, visit: JobVisit) -> bool:
        acted.append(visit.job.key)
        return True

    job = await setup.delivery()
    setup.engine.drop("complete")
    await setup.listener_jobs.receive(job, act)
    setup.engine.advance(3)
    await setup.listener_jobs.receive(await setup.delivery(), act)

    assert acted == [job.key, job.key]
    assert setup.known(job).state is JobState.COMPLETED


async def test_a_completion_whose_answer_was_lost_is_over(setup: ListenerSetup) -> None:
    job = await setup.delivery()
    setup.engine.lose_answer("complete")
    listener = ListenerKind(KIND, partial(setup.listener_jobs.receive, act=failing(ValueError(), 0)))

    await listener.serve(job)
    await listener.serve(job)

    assert setup.known(job).completions == 1


async def test_our_own_trouble_costs_a_try_and_then_stops_for_a_person(setup: ListenerSetup) -> None:
    act = failing(TransientInfrastructure("nothing is recorded", code="DeploymentUnknown"), 3)
    for _ in range(3):
        await setup.listener_jobs.receive(await setup.delivery(), act)
        setup.engine.advance(3)

    (known,) = setup.engine.jobs.values()
    (wait,) = await setup.stored.runbook.waits(setup.stored.entry_id)
    assert known.state is JobState.INCIDENT
    assert (wait.kind, wait.reason) == (Wait.INCIDENT, "Waiting for an operator: nothing is recorded")
    assert (await setup.stored.entry()).status is Status.PARKED


@pytest.mark.req("EVT-14")
async def test_a_refusal_the_engine_did_not_hear_of_is_told_once_and_said_again(setup: ListenerSetup) -> None:
    act = failing(PermanentContract("the hash differs", code="SealMismatch"), 2)
    setup.engine.drop("fail")
    await setup.listener_jobs.receive(await setup.delivery(), act)
    setup.engine.advance(3)
    await setup.listener_jobs.receive(await setup.delivery(), act)

    (known,) = setup.engine.jobs.values()
    assert known.state is JobState.INCIDENT
    assert await setup.stored.kinds() == ["DurableTaskStarted", "IncidentRaised", "Parked"]


async def test_a_refused_job_that_is_gone_concerns_nobody(setup: ListenerSetup) -> None:
    job = await setup.delivery()
    await setup.engine.cancel(job.process_instance_key)

    await setup.listener_jobs.receive(job, failing(PermanentContract("the hash differs", code="SealMismatch")))
    await setup.listener_jobs.receive(job, failing(TransientInfrastructure("not now")))
    await setup.listener_jobs.receive(job, failing(StoreUnavailable("gone")))

    assert setup.engine.jobs == {}


async def test_an_instance_key_that_another_instance_has_stops_for_a_person(
    setup: ListenerSetup, database: Database
) -> None:
    other = await StoredEntry.open(database, attempts=1)
    job = await setup.delivery()
    mine: dict[str, object] = {
        ENTRY_ID: str(other.entry_id),
        INSTANCE_UID: str(other.instance_uid),
        TENANT_ID: "default",
    }

    await setup.listener_jobs.receive(_with(job, mine), failing(ValueError(), 0))

    (known,) = setup.engine.jobs.values()
    assert "InstanceMismatch: another instance has this key" in known.messages[0]
    assert await other.kinds() == []


async def test_a_stray_waits_for_an_engine_that_is_away(setup: ListenerSetup, database: Database) -> None:
    dispatches = Dispatches(database, engine_id=ENGINE, owner=uuid4())
    await Cancellation(database, dispatches).cancel(setup.stored.entry_id, tenant_id="default", by="ada", reason="x")
    async with database.transaction() as connection:
        detail = {"by": "ada"}
        await setup.stored.runbook.end_in(
            connection, setup.stored.entry_id, outcome=None, detail=detail, kind=Kind.CANCELLED
        )
    job = await setup.delivery()
    setup.engine.drop("cancel")
    await setup.listener_jobs.receive(job, failing(ValueError()))
    kept = list(setup.engine.jobs)
    setup.engine.advance(3)

    await setup.listener_jobs.receive(await setup.delivery(), failing(ValueError()))

    assert kept == [job.key]
    assert setup.engine.jobs == {}


def _with(job: Job, variables: dict[str, object]) -> Job:
    return replace(job, variables=variables)
