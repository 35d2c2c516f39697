"""Suspended instances under bad schedules: what people decide meanwhile, many at once, an end at the same time."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE
from tests.support.gate_cases import TENANT, GateSetup, opened, review_registry
from tests.support.leasing import LeasingEngine
from verbworker.errors import InstanceSuspended
from verbworker.job.outcome import JobResult
from verbworker.runbook.event import Kind, Status
from verbworker.stores.cases.suspensions import Suspensions
from verbworker.stores.database import Database
from verbworker.work.gates.gate_jobs import USER_TASK
from verbworker.work.upkeep import suspension_watch
from verbworker.work.upkeep.suspension_watch import SuspensionWatch

SUSPENDED = "Suspended in the engine"


class SuspendingEngine(LeasingEngine):
    """Native tasks too: their completion is refused while their instance is suspended, as every command is."""

    def __init__(self) -> None:
        super().__init__()
        self.line("hall-review", [USER_TASK, "hall.after"])
        self.completed_tasks: list[int] = []

    async def complete_user_task(self, key: int) -> None:
        if self.suspended:
            raise InstanceSuspended("the process instance is suspended")
        self.completed_tasks.append(key)

    async def assign_user_task(self, key: int, assignee: str, *, override: bool = False) -> None:
        pass

    async def unassign_user_task(self, key: int) -> None:
        pass

    async def deny(self, job_key: int, reason: str, *, lease_token: str | None = None) -> None:
        pass


class AskedEngine(LeasingEngine):
    """Every job is of a suspended instance, except some; keeps whom it was asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.resumed: set[int] = set()
        self.asked: list[int] = []

    async def extend(self, job_key: int, timeout_ms: int, *, lease_token: str | None = None) -> None:
        self.asked.append(job_key)
        if job_key not in self.resumed:
            raise InstanceSuspended("the process instance is suspended")

    async def complete(self, job_key: int, result: JobResult, *, lease_token: str | None = None) -> None:
        raise AssertionError("nothing is completed here")


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=8) as database:
        yield database


@pytest.fixture
def engine() -> SuspendingEngine:
    return SuspendingEngine()


@pytest.fixture
async def setup(database: Database, engine: SuspendingEngine) -> AsyncIterator[GateSetup]:
    async with opened(database, engine, review_registry()) as setup:
        yield setup


async def reasons(setup: GateSetup, entry_id: object) -> list[str]:
    rows = await setup.database.fetch(
        "SELECT reason FROM verbworker.parked_token WHERE entry_id = $1 AND closed_at IS NULL", entry_id
    )
    return [row["reason"] for row in rows]


@pytest.mark.parametrize("is_native", [False, True], ids=["job", "native"])
async def test_a_decision_in_a_suspended_instance_is_held_back_and_the_entry_says_why(
    setup: GateSetup, engine: SuspendingEngine, is_native: bool
) -> None:
    gate = await setup.parked()
    if is_native:
        await setup.change(gate, "user_task_key = 77, job_key = NULL")
    engine.suspended.update(job.job.process_instance_key for job in engine.jobs.values())
    watch = SuspensionWatch(Suspensions(setup.database, engine_id=engine.engine_id), engine, every=timedelta(0))

    decided = await setup.gates.decide(gate.token_id, "approve", by="anna", tenant_id=TENANT)
    await setup.due()
    await setup.relay.drain()
    await watch.look()

    assert decided.verdict is not None
    assert decided.verdict.answer is None
    assert (await setup.status(gate.entry_id), await reasons(setup, gate.entry_id)) == (Status.PARKED, [SUSPENDED])
    assert (await setup.kinds(gate.entry_id)).count(Kind.PARKED) == 2  # at the gate, and suspended: once each

    engine.suspended.clear()
    await watch.look()
    await setup.due()
    await setup.relay.drain()

    assert await reasons(setup, gate.entry_id) == []
    assert await setup.status(gate.entry_id) is Status.EXECUTING
    if is_native:
        assert engine.completed_tasks == [77]


async def test_an_instance_that_is_resumed_is_found_however_many_stay_suspended(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspension_watch, "_BATCH", 2)
    suspensions, engine = Suspensions(database, engine_id=ENGINE), AskedEngine()
    stored_entries = []
    for number in range(5):
        stored = await StoredEntry.open(database)
        await stored.start(9000 + number)
        assert await suspensions.park(number, 9000 + number)
        stored_entries.append(stored)
    engine.resumed.add(4)

    for _ in range(3):
        await SuspensionWatch(suspensions, engine, every=timedelta(0)).look()

    assert set(engine.asked) == set(range(5))
    assert [(await stored.entry()).status for stored in stored_entries] == [Status.PARKED] * 4 + [Status.EXECUTING]


async def test_of_many_workers_one_asks_about_an_instance_per_period(database: Database) -> None:
    suspensions, engine, stored = (
        Suspensions(database, engine_id=ENGINE),
        AskedEngine(),
        await StoredEntry.open(database),
    )
    await stored.start()
    await suspensions.park(1, 9000)
    await database.execute("UPDATE verbworker.parked_token SET seen_at = seen_at - interval '1 hour'")

    await asyncio.gather(*(SuspensionWatch(suspensions, engine).look() for _ in range(8)))

    assert engine.asked == [1]


async def test_an_entry_that_ends_while_it_is_being_parked_gets_no_event_after_its_end(database: Database) -> None:
    suspensions, stored = Suspensions(database, engine_id=ENGINE), await StoredEntry.open(database)
    await stored.start()
    async with database.transaction() as connection:
        await connection.execute(
            "SELECT 1 FROM verbworker.workflow_instance WHERE instance_uid = $1 FOR UPDATE", stored.instance_uid
        )
        parking = asyncio.ensure_future(suspensions.park(1, 9000))
        await asyncio.sleep(0.2)  # it waits for the row, or has read it before the end
        await stored.runbook.end_in(connection, stored.entry_id, outcome=None, detail={}, kind=Kind.CANCELLED)

    assert not await parking
    assert (await stored.kinds())[-1] == "Cancelled"
