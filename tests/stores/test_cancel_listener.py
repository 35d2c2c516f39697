"""The cancel listener: a cancellation in the engine ends the entry at once, and never keeps the instance alive."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE, make_job
from verbworker.background.poll_loop import running
from verbworker.engine.protocol import Start
from verbworker.errors import EngineUnavailable, JobGone, StoreError
from verbworker.job.job import ENTRY_ID, INSTANCE_UID, Job
from verbworker.job.outcome import NO_RESULT, JobResult
from verbworker.model.weave import CANCEL
from verbworker.runbook.event import Status
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.database import Database
from verbworker.stores.jobs.deliveries import Deliveries
from verbworker.testing.memory import MemoryEngine
from verbworker.work.listeners.cancel_listener import CancelListener
from verbworker.work.listeners.job_handler import Serving
from verbworker.work.starts.cancel import Cancellation


class CancellingEngine(MemoryEngine):
    """An engine in memory that waits for its cancel listener, and keeps how that was answered."""

    def __init__(self) -> None:
        super().__init__(ENGINE)
        self.line("kyc", ["kyc.check"])
        self.completed: list[tuple[int, str | None]] = []
        self.lost = False
        self.has_job = True

    async def complete(self, job_key: int, result: JobResult, *, lease_token: str | None = None) -> None:
        assert result == NO_RESULT
        if self.lost:
            raise EngineUnavailable("cut")
        self.completed.append((job_key, lease_token))

    async def extend(self, job_key: int, timeout_ms: int, *, lease_token: str | None = None) -> None:
        if not self.has_job:
            raise JobGone("lost")

    async def cancel(self, instance_key: int) -> None:
        raise JobGone("the listener runs")


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


@pytest.fixture
def engine() -> CancellingEngine:
    return CancellingEngine()


@pytest.fixture
async def stored(database: Database, engine: CancellingEngine) -> StoredEntry:
    stored = await StoredEntry.open(database, attempts=1)
    await stored.start((await engine.start(Start("kyc", {}))).instance_key)
    return stored


def cancelling(database: Database, engine: CancellingEngine) -> Cancellation:
    return Cancellation(database, Dispatches(database, engine_id=ENGINE, owner=uuid4()), engine)


async def cancelled(stored: StoredEntry, engine: CancellingEngine, **changes: Any) -> Job:
    """The job that 8.10 makes for a cancelled instance: the element is the process."""
    key = int(await stored.value("SELECT instance_key FROM verbworker.workflow_instance"))
    known = {INSTANCE_UID: str(stored.instance_uid), ENTRY_ID: str(stored.entry_id)}
    given: dict[str, Any] = {
        "type": CANCEL,
        "process_instance_key": key,
        "element_instance_key": key,
        "element_id": "kyc",
        "variables": known,
        "lease_token": "token",
    }
    return make_job(1, **{**given, **changes})


async def serve(database: Database, engine: CancellingEngine, job: Job) -> bool:
    return await CancelListener(database, engine, cancelling(database, engine)).serve(job)


async def unwanted(job: Job, error: StoreError) -> None:
    raise AssertionError(f"given back: {error}")


@asynccontextmanager
async def serving(database: Database) -> AsyncIterator[Serving]:
    """What a worker serves internal jobs with: each has a row in the database while it is handled."""
    deliveries = Deliveries(database, engine_id=ENGINE, owner=uuid4())
    async with running(deliveries.services, asyncio.Event()):
        yield Serving(deliveries, unwanted)


async def test_a_worker_that_serves_the_listener_ends_the_entry_at_once(
    database: Database, engine: CancellingEngine, stored: StoredEntry
) -> None:
    listener = CancelListener(database, engine, cancelling(database, engine))
    async with serving(database) as served:
        await served.serve(listener, await cancelled(stored, engine))

    assert (await stored.entry()).status is Status.CANCELLED
    assert engine.completed == [(1, "token")]


async def test_another_job_of_the_instance_that_is_served_meanwhile_keeps_no_entry_open(
    database: Database, engine: CancellingEngine, stored: StoredEntry
) -> None:
    """The engine withdraws a user task of the same instance at the same time."""
    async with database.acquire() as connection:
        await connection.execute(
            """INSERT INTO verbworker.job_delivery (engine_id, job_key, type, instance_uid, retries, owner, lease_until)
            VALUES ($1, 2, 'canceling', $2, 1, $3, clock_timestamp() + interval '1 minute')""",
            *(ENGINE, stored.instance_uid, uuid4()),
        )
    await serve(database, engine, await cancelled(stored, engine))

    assert (await stored.entry()).status is Status.CANCELLED


async def test_a_redelivery_after_a_lost_answer_ends_the_entry_once_and_is_completed_again(
    database: Database, engine: CancellingEngine, stored: StoredEntry
) -> None:
    job = await cancelled(stored, engine)
    engine.lost = True
    first = await serve(database, engine, job)
    engine.lost = False
    second = await serve(database, engine, job)

    assert (first, second) == (False, True)
    assert (await stored.kinds()).count("Cancelled") == 1
    assert engine.completed == [(1, "token")]


async def test_a_late_delivery_that_the_engine_no_longer_has_ends_nothing(
    database: Database, engine: CancellingEngine, stored: StoredEntry
) -> None:
    """A worker was suspended with the job, and the engine lost the cancellation meanwhile: the instance goes on."""
    job = await cancelled(stored, engine, activated_ms=1, timeout_ms=1000)
    engine.has_job = False

    assert await serve(database, engine, job)
    assert (await stored.entry()).status is Status.EXECUTING
    assert engine.completed == []


async def test_a_cancel_in_the_engine_ends_the_entry_at_once(
    database: Database, engine: CancellingEngine, stored: StoredEntry
) -> None:
    is_answered = await serve(database, engine, await cancelled(stored, engine))
    (*_, last) = await stored.events()

    assert is_answered
    assert (await stored.entry()).status is Status.CANCELLED
    assert (last.detail["by"], last.detail["reason"]) == (None, "ended outside: cancelled in the engine")
    assert engine.completed == [(1, "token")]


async def test_a_cancel_of_ours_keeps_its_reason_and_its_listener_is_completed(
    database: Database, engine: CancellingEngine, stored: StoredEntry
) -> None:
    job = await cancelled(stored, engine)
    await cancelling(database, engine).cancel(stored.entry_id, tenant_id="default", by="ada", reason="a typo")
    is_answered = [await serve(database, engine, job) for _ in range(2)]
    (*_, last) = await stored.events()

    assert is_answered == [True, True]
    assert (last.detail["by"], last.detail["reason"]) == ("ada", "a typo")
    assert len(engine.completed) == 2


@pytest.mark.parametrize(
    "changes",
    [{"process_instance_key": 77}, {"variables": {}}, {"variables": {INSTANCE_UID: str(UUID(int=7))}}],
    ids=["a duplicate", "no identity", "an unknown identity"],
)
async def test_the_listener_of_another_instance_is_completed_and_ends_nothing(
    database: Database, engine: CancellingEngine, stored: StoredEntry, changes: dict[str, object]
) -> None:
    is_answered = await serve(database, engine, await cancelled(stored, engine, **changes))

    assert is_answered
    assert (await stored.entry()).status is Status.EXECUTING
    assert engine.completed == [(1, "token")]


async def test_an_entry_that_was_adopted_under_another_key_meanwhile_goes_on(
    database: Database, engine: CancellingEngine, stored: StoredEntry
) -> None:
    key = int(await stored.value("SELECT instance_key FROM verbworker.workflow_instance"))
    await stored.value("UPDATE verbworker.workflow_instance SET instance_key = 4711 RETURNING 1")

    is_ended = await cancelling(database, engine).end_outside(stored.entry_id, key, is_reported=True)

    assert not is_ended
    assert (await stored.entry()).status is Status.EXECUTING
