"""Cancelling without an engine, and with one in memory that comes and goes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from uuid import uuid4

import pytest

from tests.support.entries import StoredEntry, make_request
from tests.support.eventually import eventually
from tests.support.frames import ENGINE, claimed, make_delivery, make_job, working
from tests.support.proxy import Proxy, proxied
from verbworker.engine.protocol import Start
from verbworker.errors import EngineUnavailable, RequestConflict
from verbworker.runbook.event import EntryMode, Status
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.testing.memory import MemoryEngine
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.upkeep.reconciler import Reconciler

SOON = timedelta(0)


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


@pytest.fixture
def engine() -> MemoryEngine:
    engine = MemoryEngine(ENGINE)
    engine.line("kyc", ["kyc.check"])
    return engine


def cancelling(database: Database, engine: MemoryEngine | None = None, *, every: float = 2.0) -> Cancellation:
    return Cancellation(database, Dispatches(database, engine_id=ENGINE, owner=uuid4()), engine, every=every)


async def started(database: Database, engine: MemoryEngine) -> StoredEntry:
    stored = await StoredEntry.open(database, attempts=1)
    await stored.start((await engine.start(Start("kyc", {}))).instance_key)
    return stored


async def test_without_an_engine_a_request_is_kept_for_the_workers(database: Database, engine: MemoryEngine) -> None:
    stored = await started(database, engine)

    entry = await cancelling(database).cancel(stored.entry_id, tenant_id="default", by="ada", reason="x")

    assert (entry.status, entry.cancel_requested_at is not None) == (Status.EXECUTING, True)
    assert await cancelling(database).drain(longer_than=SOON) == 0
    assert await cancelling(database, engine).drain(longer_than=SOON) == 1
    assert (await stored.entry()).status is Status.CANCELLED


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_a_cancel_names_the_steps_that_ran_and_that_their_outcome_is_unknown(
    database: Database, engine: MemoryEngine, is_stopped: bool
) -> None:
    stored = await started(database, engine)
    instance_key = int(await stored.value("SELECT instance_key FROM verbworker.workflow_instance"))
    uid = await stored.value("SELECT instance_uid FROM verbworker.workflow_instance")
    async with working(database) as frames:
        delivery = make_delivery(make_job(1, process_instance_key=instance_key), instance_uid=uid, mode="external")
        claim = await claimed(frames, delivery)
        await cancelling(database).cancel(stored.entry_id, tenant_id="default", by="ada", reason="x")
        if is_stopped:  # its worker heard of the cancel before the entry ended
            await frames.close(claim.job_key, claim.epoch, code="JobGone", message="the engine dropped the job")

        await cancelling(database, engine).drain(longer_than=SOON)

    step = {"verb": "kyc.check", "idempotency_key": claim.idempotency_key, "mode": "external", "outcome": "unknown"}
    (found,) = (await stored.events())[-1].detail["running"]
    assert {name: found[name] for name in step} == step


async def test_what_is_performed_at_once_cannot_be_cancelled(database: Database) -> None:
    request = make_request(mode=EntryMode.SYNC)
    async with database.transaction() as connection:
        await Runbook(database).open_in(connection, request)

    with pytest.raises(RequestConflict, match="performed immediately"):
        await cancelling(database).cancel(request.entry_id, tenant_id="default", by="ada", reason="x")


async def test_nothing_is_carried_out_that_nobody_asked_for(database: Database, engine: MemoryEngine) -> None:
    stored = await started(database, engine)

    assert not await cancelling(database, engine).carry_out(stored.entry_id)
    assert (await stored.entry()).status is Status.EXECUTING


async def test_the_service_sends_what_the_engine_did_not_hear(database: Database, engine: MemoryEngine) -> None:
    stored = await started(database, engine)
    engine.drop("cancel", 2)
    service = cancelling(database, engine, every=0.01)
    await service.cancel(stored.entry_id, tenant_id="default", by="ada", reason="x")
    await database.execute("UPDATE verbworker.runbook_entry SET cancel_requested_at = now() - interval '1 minute'")

    async def is_cancelled() -> bool:
        return (await stored.entry()).status is Status.CANCELLED

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(service.service.run())
        await eventually(is_cancelled)
        running.cancel()

    assert await stored.kinds() == ["DurableTaskStarted", "CancelRequested", "Cancelled"]


class CuttingEngine(MemoryEngine):
    """An engine that cancels, and whose answer finds Postgres gone."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__(ENGINE)
        self.line("kyc", ["kyc.check"])
        self.proxy = proxy
        self.cancelled = asyncio.Event()

    async def cancel(self, instance_key: int) -> None:
        if not self.cancelled.is_set():
            self.proxy.go_away()
            self.cancelled.set()
        await super().cancel(instance_key)


async def test_a_cancel_that_waits_while_postgres_is_away_ends_nothing_and_is_done_once_it_is_back(dsn: str) -> None:
    async with proxied(dsn) as proxy, Database(proxy.dsn, size=4) as database, asyncio.TaskGroup() as tasks:
        engine = CuttingEngine(proxy)
        stored = await started(database, engine)
        await cancelling(database).cancel(stored.entry_id, tenant_id="default", by="ada", reason="x")
        await database.execute("UPDATE verbworker.runbook_entry SET cancel_requested_at = now() - interval '1 minute'")
        service = cancelling(database, engine, every=0.01).service
        running = tasks.create_task(service.run())
        await engine.cancelled.wait()

        async def is_waiting() -> bool:
            return service.health.failures >= 2

        await eventually(is_waiting)
        await proxy.come()

        async def is_cancelled() -> bool:
            return (await stored.entry()).status is Status.CANCELLED

        await eventually(is_cancelled)
        is_running = not running.done()
        running.cancel()

    assert is_running


async def test_the_reconciler_goes_on_when_the_engine_is_back(database: Database, engine: MemoryEngine) -> None:
    stored = await started(database, engine)
    service = cancelling(database, engine)
    await engine.cancel(int(await stored.value("SELECT instance_key FROM verbworker.workflow_instance")))
    engine.drop("alive", 2)
    reconciler = Reconciler(database, engine, service, after=SOON, missed_for=SOON, every=0.01)

    async def is_cancelled() -> bool:
        return (await stored.entry()).status is Status.CANCELLED

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reconciler.service.run())
        await eventually(is_cancelled)
        running.cancel()

    assert await stored.kinds() == ["DurableTaskStarted", "Cancelled"]


async def test_an_instance_that_ended_after_a_request_was_cancelled_by_it(
    database: Database, engine: MemoryEngine
) -> None:
    stored = await started(database, engine)
    engine.lose_answer("cancel")
    service = cancelling(database, engine)
    await service.cancel(stored.entry_id, tenant_id="default", by="ada", reason="a mistake")

    reconciler = Reconciler(database, engine, service, after=SOON, missed_for=SOON)
    await reconciler.look()
    await reconciler.look()

    assert (await stored.events())[-1].detail["reason"] == "a mistake"


async def test_an_instance_that_the_engine_does_not_have_is_missed_before_its_entry_ends(
    database: Database, engine: MemoryEngine
) -> None:
    stored = await started(database, engine)
    await engine.cancel(int(await stored.value("SELECT instance_key FROM verbworker.workflow_instance")))
    hasty = Reconciler(database, engine, cancelling(database, engine), after=SOON)

    await hasty.look()
    await hasty.look()
    assert (await stored.entry()).status is Status.EXECUTING

    await database.execute("UPDATE verbworker.workflow_instance SET missed_at = missed_at - interval '2 minutes'")
    await hasty.look()
    assert (await stored.entry()).status is Status.CANCELLED


async def test_an_engine_that_is_away_at_the_second_look_is_asked_again_soon(
    database: Database, engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = await started(database, engine)
    await engine.cancel(int(await stored.value("SELECT instance_key FROM verbworker.workflow_instance")))
    first, alive = Reconciler(database, engine, cancelling(database, engine), after=SOON), engine.alive
    await first.look()
    later = Reconciler(database, engine, cancelling(database, engine), after=timedelta(hours=1))

    async def away(instance_key: int) -> bool:
        raise EngineUnavailable("it restarts")

    for answer in (away, alive):
        await database.execute("UPDATE verbworker.workflow_instance SET missed_at = missed_at - interval '2 minutes'")
        monkeypatch.setattr(engine, "alive", answer)
        with suppress(EngineUnavailable):
            await later.look()

    assert (await stored.entry()).status is Status.CANCELLED


async def test_an_instance_that_is_there_again_is_not_missed_any_more(
    database: Database, engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = await started(database, engine)
    reconciler = Reconciler(database, engine, cancelling(database, engine), after=SOON, missed_for=SOON)

    async def gone(instance_key: int) -> bool:
        return False

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(engine, "alive", gone)
        await reconciler.look()
    await reconciler.look()

    assert await stored.value("SELECT missed_at FROM verbworker.workflow_instance") is None
    assert (await stored.entry()).status is Status.EXECUTING


async def test_an_instance_that_comes_under_another_key_is_not_taken_for_ended(
    database: Database, engine: MemoryEngine
) -> None:
    stored = await started(database, engine)
    key = int(await stored.value("SELECT instance_key FROM verbworker.workflow_instance"))
    await engine.cancel(key)
    again = make_delivery(make_job(process_instance_key=key + 1), None, instance_uid=stored.instance_uid)
    reconciler = Reconciler(database, engine, cancelling(database, engine), after=SOON, missed_for=SOON)
    async with working(database) as frames:
        claim = await claimed(frames, again)
        for _ in range(3):
            await reconciler.look()
        during = (await stored.entry()).status
        await frames.close(claim.job_key, claim.epoch, code="DuplicateInstance", message="it was another's")
    for _ in range(3):
        await reconciler.look()

    assert (during, (await stored.entry()).status) == (Status.EXECUTING, Status.CANCELLED)


async def test_a_cancel_that_is_asked_for_again_is_the_same_one(database: Database, engine: MemoryEngine) -> None:
    stored = await started(database, engine)
    cancellation = cancelling(database, engine)
    await cancellation.cancel(stored.entry_id, tenant_id="default", by="ada", reason="x")

    again = await cancellation.cancel(stored.entry_id, tenant_id="default", by="ada", reason="x")

    assert again.status is Status.CANCELLED
    for by, reason in (("bob", "x"), ("ada", "y")):
        with pytest.raises(RequestConflict, match=r"it is cancelled at .*, asked for by ada: x"):
            await cancellation.cancel(stored.entry_id, tenant_id="default", by=by, reason=reason)


async def test_a_cancel_of_what_ended_otherwise_is_no_repeat(database: Database, engine: MemoryEngine) -> None:
    stored = await started(database, engine)
    cancellation = cancelling(database, engine)
    key = int(await stored.value("SELECT instance_key FROM verbworker.workflow_instance"))
    await cancellation.end_outside(stored.entry_id, key)

    with pytest.raises(RequestConflict, match="it is cancelled at "):
        await cancellation.cancel(stored.entry_id, tenant_id="default", by="ada", reason="x")
