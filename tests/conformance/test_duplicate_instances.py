"""Instances nobody wants, on every engine: a start that was sent twice, an instance that ended outside."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.support import case_models as models
from tests.support.casebook import COMPLETE, PARK, CaseSetup, casebook
from tests.support.engines import Gateway
from tests.support.entries import told
from tests.support.start_router import TENANT
from verbworker.engine.protocol import SameDatabase, Start, Started
from verbworker.job.frame import FrameState
from verbworker.payload.boundary import JobVariables
from verbworker.runbook.event import Kind
from verbworker.stores.cases.instances import Instances
from verbworker.work.jobs.task_profiles import JobProfile

ON = ("embedded", "zeebe")
ALSO_ON = ("zeebe-8.8", "zeebe-8.9")
DAY = timedelta(hours=2)


@pytest.fixture
async def book(dsn: str, gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[CaseSetup]:
    async with casebook(dsn, gateway.address, unique("case")) as book:
        yield book


async def started_twice(book: CaseSetup, *, attempts: int = 2) -> tuple[UUID, Started]:
    """An entry whose start was sent again because an answer was lost; and the instance that is one too many."""
    entry_id = await book.ask()
    (dispatch,) = await book.dispatches.claim(1, claim_for=timedelta(0))
    variables = dict(dispatch.variables)
    if attempts > 1:
        await book.dispatcher.drain()
    else:
        first = await book.engine.start(Start(dispatch.process_id, variables))
        row = "UPDATE verbworker.workflow_instance SET instance_key = $2, definition_key = $3, process_version = $4"
        await book.database.execute(
            f"{row} WHERE instance_uid = $1",
            dispatch.instance_uid,
            first.instance_key,
            first.definition_key,
            first.version,
        )
    return entry_id, await book.engine.start(Start(dispatch.process_id, variables))


@pytest.mark.req("EVO-08", "COR-02")
async def test_a_twin_is_cancelled_at_its_first_verb_and_the_other_goes_on(book: CaseSetup) -> None:
    await book.deploy(models.line, "first")
    entry_id, twin = await started_twice(book)
    jobs = [await book.take("first") for _ in range(2)]
    for job in jobs:
        await book.deliver(job)

    frames = {job.process_instance_key: await book.frame(job) for job in jobs}
    assert not await book.engine.alive(twin.instance_key)
    assert frames[twin.instance_key].state is FrameState.FAILED
    assert frames[twin.instance_key].fail_code == "DuplicateInstance"
    assert frames[twin.instance_key].acked_at is not None
    await book.serve(COMPLETE)
    assert await book.kinds(entry_id) == ["DurableTaskStarted", "StepCompleted", "ExecutionResult"]
    assert await book.status(entry_id) == "completed"


@pytest.mark.req("EVO-08", "JOB-04")
async def test_of_two_twins_only_the_pinned_one_runs_even_when_the_other_was_claimed_first(book: CaseSetup) -> None:
    await book.deploy(models.line, "first")
    entry_id = await book.ask()
    (dispatch,) = await book.dispatches.claim(1, claim_for=timedelta(0))
    uid = dispatch.instance_uid
    twins = [await book.engine.start(Start(dispatch.process_id, dict(dispatch.variables))) for _ in range(2)]
    await book.database.execute("UPDATE verbworker.dispatch SET attempts = 2 WHERE instance_uid = $1", uid)
    jobs = {job.process_instance_key: job for job in [await book.take("first") for _ in range(2)]}
    claimed_first, pinned = twins
    claim = book.executor._claim

    async def claim_then_lose_the_pin(*args: Any) -> Any:
        made = await claim(*args)
        await Instances(book.database).pin(
            uid, instance_key=pinned.instance_key, definition_key=pinned.definition_key, version=pinned.version
        )
        return made

    book.executor._claim = claim_then_lose_the_pin  # type: ignore[method-assign, assignment]  # the race
    await book.deliver(jobs[claimed_first.instance_key])
    book.executor._claim = claim  # type: ignore[method-assign]
    await book.deliver(jobs[pinned.instance_key])
    await book.serve(COMPLETE)

    steps = await book.events(entry_id, Kind.STEP_COMPLETED)
    assert [step.detail["instance_key"] for step in steps] == [pinned.instance_key]
    assert not await book.engine.alive(claimed_first.instance_key)
    assert await book.status(entry_id) == "completed"


@pytest.mark.req("EVO-08")
async def test_a_twin_is_cancelled_at_its_first_listener(book: CaseSetup) -> None:
    await book.deploy(models.receives, interrupting=True)
    entry_id, twin = await started_twice(book)
    await book.serve(PARK, PARK)

    assert not await book.engine.alive(twin.instance_key)
    assert await book.engine.alive(await book.instance_key(entry_id))
    assert await book.kinds(entry_id) == ["DurableTaskStarted", "Parked"]


async def recreate(book: CaseSetup, entry_id: UUID, variables: dict[str, Any]) -> Started:
    """What a broker does that lost its last records: the instance is gone, and there is another from the beginning."""
    await book.engine.cancel(await book.instance_key(entry_id))
    return await book.engine.start(Start(book.workflow.process, variables))


@pytest.mark.req("JOB-05")
async def test_a_re_created_instance_is_adopted_and_its_completed_step_is_repeated_not_run(book: CaseSetup) -> None:
    await book.deploy(models.line, "first", "second")
    entry_id = await book.ask()
    (dispatch,) = await book.dispatches.claim(1, claim_for=timedelta(0))
    await book.dispatcher.start(dispatch)
    before = await book.serve("first")
    again = await recreate(book, entry_id, dict(dispatch.variables))

    repeated = await book.serve("first")
    await book.serve("second", COMPLETE)

    assert repeated.key != before.key
    assert (await book.frame(repeated)).output == (await book.frame(before)).output
    assert await book.instance_key(entry_id) == again.instance_key
    assert await book.kinds(entry_id) == [
        "DurableTaskStarted",
        "StepCompleted",
        "InstanceAdopted",
        "StepCompleted",
        "ExecutionResult",
    ]
    assert await book.status(entry_id) == "completed"


@pytest.mark.req("X-06")
async def test_a_step_that_runs_is_waited_for_under_its_new_key_and_goes_on_with_its_idempotency_key(
    book: CaseSetup,
) -> None:
    await book.deploy(models.line, "first")
    entry_id = await book.ask()
    (dispatch,) = await book.dispatches.claim(1, claim_for=timedelta(0))
    await book.dispatcher.start(dispatch)
    lost = await book.take("first")
    claim = await book.frames.push(book.executor._delivery(lost, JobVariables.of(lost), JobProfile()))
    assert claim is not None
    await recreate(book, entry_id, dict(dispatch.variables))

    waiting = await book.serve("first")
    waited = await book.frame(waiting)
    steps_then = await book.events(entry_id, Kind.STEP_COMPLETED)
    await book.expire(lost)
    await book.serve("first", COMPLETE)

    old = await book.frame(lost)
    assert (waited.state, waited.fail_code, steps_then) == (FrameState.FAILED, "StepBusy", [])
    assert (old.state, old.fail_code, old.epoch) == (FrameState.FAILED, "StepSucceeded", claim.epoch + 1)
    assert await book.idempotency_key(waiting) == claim.idempotency_key
    assert len(await book.events(entry_id, Kind.STEP_COMPLETED)) == 1
    assert await book.status(entry_id) == "completed"


@pytest.mark.req("JOB-05")
async def test_a_delivery_from_before_the_records_were_lost_runs_nothing_and_leaves_the_job_that_is_there(
    book: CaseSetup,
) -> None:
    await book.deploy(models.line, "first")
    entry_id = await book.ask()
    (dispatch,) = await book.dispatches.claim(1, claim_for=timedelta(0))
    await book.dispatcher.start(dispatch)
    late = await book.take("first")
    again = await recreate(book, entry_id, dict(dispatch.variables))
    now = await book.take("first")
    assert await Instances(book.database).adopt(dispatch.instance_uid, now, instead_of=late.process_instance_key)
    claim = await book.frames.push(book.executor._delivery(now, JobVariables.of(now), JobProfile()))
    await book.expire(now)
    await book.deliver(late)

    closed, left = await book.frame(late), await book.frame(now)
    assert claim is not None
    assert (closed.state, closed.fail_code, closed.acked_at is None) == (FrameState.FAILED, "StepMovedOn", False)
    assert (left.state, left.epoch, left.process_instance_key) == (FrameState.STARTED, claim.epoch, again.instance_key)
    assert await book.events(entry_id, Kind.STEP_COMPLETED) == []


async def test_a_verb_of_an_instance_that_was_replaced_meanwhile_changes_nothing(book: CaseSetup) -> None:
    await book.deploy(models.line, "first")
    entry_id = await book.ask()
    (dispatch,) = await book.dispatches.claim(1, claim_for=timedelta(0))
    await book.dispatcher.start(dispatch)
    lost = await book.take("first")
    admit = book.executor._identity.admit
    adopted: list[Started] = []

    async def admit_then_lose_the_instance(*args: Any) -> Any:
        known = await admit(*args)
        if not adopted:
            adopted.append(await recreate(book, entry_id, dict(dispatch.variables)))
            uid, now = dispatch.instance_uid, replace(lost, process_instance_key=adopted[0].instance_key)
            assert await Instances(book.database).adopt(uid, now, instead_of=lost.process_instance_key)
        return known

    book.executor._identity.admit = admit_then_lose_the_instance  # type: ignore[method-assign, assignment]  # the race
    await book.deliver(lost)

    assert await book.events(entry_id, Kind.STEP_COMPLETED) == []
    assert (await book.frame(lost)).state is not FrameState.COMPLETED


async def test_an_identity_that_was_surely_sent_once_is_forged_and_stops_for_a_person(book: CaseSetup) -> None:
    await book.deploy(models.receives, interrupting=True)
    entry_id, twin = await started_twice(book, attempts=1)
    await book.serve(PARK, PARK)

    ((_, retries, message),) = book.engine.failures
    assert (retries, "InstanceMismatch" in message) == (0, True)
    assert await book.engine.alive(twin.instance_key)
    assert len(await book.waits(entry_id)) == 1
    await book.engine.cancel(twin.instance_key)


@pytest.mark.req("EVT-14", "ADP-11", "COR-10", "ADP-03")
async def test_an_instance_that_was_ended_in_the_engine_ends_its_entry_visibly(book: CaseSetup) -> None:
    entry_id = await book.start(models.waits_for, event=models.LETTER)
    await book.serve("first", PARK)
    await book.engine.cancel(await book.instance_key(entry_id))
    too_early = await book.reconciler.look()
    await book.age(entry_id)
    missed = await book.reconciler.look()
    await book.age(entry_id)

    looked = await book.reconciler.look()

    (ended,) = await book.events(entry_id, Kind.CANCELLED)
    # An engine in our own database cannot have made the instance again, so it is asked once.
    assert (too_early, missed, looked) == (0, 1, 0 if isinstance(book.engine, SameDatabase) else 1)
    assert await book.status(entry_id) == "cancelled"
    assert told(ended, "reason", "done") == {"reason": "ended outside", "done": [f"{book.domain}.first"]}
    assert await book.waits(entry_id) == []
    assert await book.reconciler.look() == 0


@pytest.mark.req("ADP-11")
async def test_an_instance_that_only_waits_is_left_and_looked_at_once_in_a_while(book: CaseSetup) -> None:
    entry_id = await book.start(models.waits_for, event=models.LETTER)
    await book.serve("first", PARK)
    await book.age(entry_id)

    assert [await book.reconciler.look(), await book.reconciler.look()] == [1, 0]
    assert await book.status(entry_id) == "parked"


async def test_an_entry_that_nothing_moves_is_found_as_stuck(book: CaseSetup) -> None:
    waiting = await book.start(models.waits_for, event=models.LETTER)
    await book.serve("first", PARK)
    stuck = await book.ask("another")
    await book.dispatcher.drain()
    fresh = await book.ask("a third")
    for entry_id in (waiting, stuck):
        await book.age(entry_id)

    found = [still.entry.entry_id for still in await book.runbook.stuck(TENANT, longer_than=DAY)]

    assert found == [stuck]
    assert fresh not in found


async def test_an_entry_whose_step_runs_is_not_stuck(book: CaseSetup) -> None:
    entry_id = await book.start(models.line, "first")
    job = await book.take("first")
    await book.frames.push(book.executor._delivery(job, JobVariables.of(job), JobProfile()))
    await book.age(entry_id)

    assert await book.runbook.stuck(TENANT, longer_than=DAY) == []
