"""Instances nobody wants, on every engine: a start that was sent twice, an instance that ended outside."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock
from uuid import UUID

import pytest

from tests.support import case_models as models
from tests.support.case_setup import COMPLETE, PARK, CaseSetup, case_setup
from tests.support.engines import Gateway
from tests.support.entries import told
from tests.support.start_router import TENANT
from verbworker.engine.protocol import SameDatabase, Start, Started
from verbworker.errors import EngineUnavailable
from verbworker.job.frame import FrameState
from verbworker.payload.boundary import JobVariables
from verbworker.runbook.event import Kind
from verbworker.stores.cases.instances import Instances
from verbworker.work.jobs.task_profiles import JobProfile

ON = ("embedded", "zeebe", "zeebe-rest")
ALSO_ON = ("zeebe-8.8", "zeebe-8.9")
DAY = timedelta(hours=2)


@pytest.fixture
async def setup(dsn: str, gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[CaseSetup]:
    async with case_setup(dsn, gateway.address, unique("case")) as setup:
        yield setup


async def started_twice(setup: CaseSetup, *, attempts: int = 2) -> tuple[UUID, Started]:
    """An entry whose start was sent again because an answer was lost; and the instance that is one too many."""
    entry_id = await setup.ask()
    (dispatch,) = await setup.dispatches.claim(1, claim_for=timedelta(0))
    variables = dict(dispatch.variables)
    if attempts > 1:
        await setup.dispatcher.drain()
    else:
        first = await setup.engine.start(Start(dispatch.process_id, variables))
        row = "UPDATE verbworker.workflow_instance SET instance_key = $2, definition_key = $3, process_version = $4"
        await setup.database.execute(
            f"{row} WHERE instance_uid = $1",
            dispatch.instance_uid,
            first.instance_key,
            first.definition_key,
            first.version,
        )
    return entry_id, await setup.engine.start(Start(dispatch.process_id, variables))


@pytest.mark.req("EVO-08", "COR-02")
async def test_a_twin_is_cancelled_at_its_first_verb_and_the_other_goes_on(setup: CaseSetup) -> None:
    await setup.deploy(models.line, "first")
    entry_id, twin = await started_twice(setup)
    jobs = [await setup.take("first") for _ in range(2)]
    for job in jobs:
        await setup.deliver(job)

    frames = {job.process_instance_key: await setup.frame(job) for job in jobs}
    assert not await setup.engine.alive(twin.instance_key)
    assert frames[twin.instance_key].state is FrameState.FAILED
    assert frames[twin.instance_key].fail_code == "DuplicateInstance"
    assert frames[twin.instance_key].acked_at is not None
    await setup.serve(COMPLETE)
    assert await setup.kinds(entry_id) == ["DurableTaskStarted", "StepCompleted", "ExecutionResult"]
    assert await setup.status(entry_id) == "completed"


@pytest.mark.req("EVO-08", "JOB-04")
async def test_of_two_twins_only_the_pinned_one_runs_even_when_the_other_was_claimed_first(setup: CaseSetup) -> None:
    await setup.deploy(models.line, "first")
    entry_id = await setup.ask()
    (dispatch,) = await setup.dispatches.claim(1, claim_for=timedelta(0))
    uid = dispatch.instance_uid
    twins = [await setup.engine.start(Start(dispatch.process_id, dict(dispatch.variables))) for _ in range(2)]
    await setup.database.execute("UPDATE verbworker.dispatch SET attempts = 2 WHERE instance_uid = $1", uid)
    jobs = {job.process_instance_key: job for job in [await setup.take("first") for _ in range(2)]}
    claimed_first, pinned = twins
    claim = setup.executor._claim

    async def claim_then_lose_the_pin(*args: Any) -> Any:
        made = await claim(*args)
        await Instances(setup.database).pin(
            uid, instance_key=pinned.instance_key, definition_key=pinned.definition_key, version=pinned.version
        )
        return made

    setup.executor._claim = claim_then_lose_the_pin  # type: ignore[method-assign, assignment]  # the race
    await setup.deliver(jobs[claimed_first.instance_key])
    setup.executor._claim = claim  # type: ignore[method-assign]
    await setup.deliver(jobs[pinned.instance_key])
    await setup.serve(COMPLETE)

    steps = await setup.events(entry_id, Kind.STEP_COMPLETED)
    assert [step.detail["instance_key"] for step in steps] == [pinned.instance_key]
    assert not await setup.engine.alive(claimed_first.instance_key)
    assert await setup.status(entry_id) == "completed"


@pytest.mark.req("EVO-08")
async def test_a_twin_is_cancelled_at_its_first_listener(setup: CaseSetup) -> None:
    await setup.deploy(models.receives, interrupting=True)
    entry_id, twin = await started_twice(setup)
    await setup.serve(PARK, PARK)

    assert not await setup.engine.alive(twin.instance_key)
    assert await setup.engine.alive(await setup.instance_key(entry_id))
    assert await setup.kinds(entry_id) == ["DurableTaskStarted", "Parked"]


async def recreate(setup: CaseSetup, entry_id: UUID, variables: dict[str, Any]) -> Started:
    """What a broker does that lost its last records: the instance is gone, and there is another from the beginning."""
    await setup.engine.cancel(await setup.instance_key(entry_id))
    return await setup.engine.start(Start(setup.workflow.process, variables))


@pytest.mark.req("JOB-05")
async def test_a_re_created_instance_is_adopted_and_its_completed_step_is_repeated_not_run(setup: CaseSetup) -> None:
    await setup.deploy(models.line, "first", "second")
    entry_id = await setup.ask()
    (dispatch,) = await setup.dispatches.claim(1, claim_for=timedelta(0))
    await setup.dispatcher.start(dispatch)
    before = await setup.serve("first")
    again = await recreate(setup, entry_id, dict(dispatch.variables))

    repeated = await setup.serve("first")
    await setup.serve("second", COMPLETE)

    assert repeated.key != before.key
    assert (await setup.frame(repeated)).output == (await setup.frame(before)).output
    assert await setup.instance_key(entry_id) == again.instance_key
    assert await setup.kinds(entry_id) == [
        "DurableTaskStarted",
        "StepCompleted",
        "InstanceAdopted",
        "StepCompleted",
        "ExecutionResult",
    ]
    assert await setup.status(entry_id) == "completed"


async def test_a_re_created_instance_is_adopted_though_an_element_of_another_has_the_lost_key_now(
    setup: CaseSetup,
) -> None:
    await setup.deploy(models.line, "first")
    entry_id = await setup.ask()
    (dispatch,) = await setup.dispatches.claim(1, claim_for=timedelta(0))
    await setup.dispatcher.start(dispatch)
    other = await setup.ask()
    await setup.dispatcher.drain()
    jobs = {job.process_instance_key: job for job in [await setup.take("first") for _ in range(2)]}
    own, key = await setup.instance_key(entry_id), jobs[await setup.instance_key(other)].element_instance_key
    await setup.engine.cancel(own)
    await setup.database.execute(
        "UPDATE verbworker.workflow_instance SET instance_key = $2 WHERE instance_key = $1", own, key
    )
    again = await setup.engine.start(Start(setup.workflow.process, dict(dispatch.variables)))

    await setup.serve("first", COMPLETE)

    assert await setup.instance_key(entry_id) == again.instance_key
    assert await setup.status(entry_id) == "completed"


@pytest.mark.req("X-06")
async def test_a_step_that_runs_is_waited_for_under_its_new_key_and_goes_on_with_its_idempotency_key(
    setup: CaseSetup,
) -> None:
    await setup.deploy(models.line, "first")
    entry_id = await setup.ask()
    (dispatch,) = await setup.dispatches.claim(1, claim_for=timedelta(0))
    await setup.dispatcher.start(dispatch)
    lost = await setup.take("first")
    claim = await setup.frames.push(setup.executor._delivery(lost, JobVariables.of(lost), JobProfile()))
    assert claim is not None
    await recreate(setup, entry_id, dict(dispatch.variables))

    waiting = await setup.serve("first")
    waited = await setup.frame(waiting)
    steps_then = await setup.events(entry_id, Kind.STEP_COMPLETED)
    await setup.expire(lost)
    await setup.serve("first", COMPLETE)

    old = await setup.frame(lost)
    assert (waited.state, waited.fail_code, steps_then) == (FrameState.FAILED, "StepBusy", [])
    assert (old.state, old.fail_code, old.epoch) == (FrameState.FAILED, "StepSucceeded", claim.epoch + 1)
    assert await setup.idempotency_key(waiting) == claim.idempotency_key
    assert len(await setup.events(entry_id, Kind.STEP_COMPLETED)) == 1
    assert await setup.status(entry_id) == "completed"


@pytest.mark.req("JOB-05")
async def test_a_delivery_from_before_the_records_were_lost_runs_nothing_and_leaves_the_job_that_is_there(
    setup: CaseSetup,
) -> None:
    await setup.deploy(models.line, "first")
    entry_id = await setup.ask()
    (dispatch,) = await setup.dispatches.claim(1, claim_for=timedelta(0))
    await setup.dispatcher.start(dispatch)
    late = await setup.take("first")
    again = await recreate(setup, entry_id, dict(dispatch.variables))
    now = await setup.take("first")
    assert await Instances(setup.database).adopt(dispatch.instance_uid, now, instead_of=late.process_instance_key)
    claim = await setup.frames.push(setup.executor._delivery(now, JobVariables.of(now), JobProfile()))
    await setup.expire(now)
    await setup.deliver(late)

    closed, left = await setup.frame(late), await setup.frame(now)
    assert claim is not None
    assert (closed.state, closed.fail_code, closed.acked_at is None) == (FrameState.FAILED, "StepMovedOn", False)
    assert (left.state, left.epoch, left.process_instance_key) == (FrameState.STARTED, claim.epoch, again.instance_key)
    assert await setup.events(entry_id, Kind.STEP_COMPLETED) == []


async def test_a_verb_of_an_instance_that_was_replaced_meanwhile_changes_nothing(setup: CaseSetup) -> None:
    await setup.deploy(models.line, "first")
    entry_id = await setup.ask()
    (dispatch,) = await setup.dispatches.claim(1, claim_for=timedelta(0))
    await setup.dispatcher.start(dispatch)
    lost = await setup.take("first")
    admit = setup.executor._identity.admit
    adopted: list[Started] = []

    async def admit_then_lose_the_instance(*args: Any) -> Any:
        known = await admit(*args)
        if not adopted:
            adopted.append(await recreate(setup, entry_id, dict(dispatch.variables)))
            uid, now = dispatch.instance_uid, replace(lost, process_instance_key=adopted[0].instance_key)
            assert await Instances(setup.database).adopt(uid, now, instead_of=lost.process_instance_key)
        return known

    setup.executor._identity.admit = admit_then_lose_the_instance  # type: ignore[method-assign, assignment]  # the race
    await setup.deliver(lost)

    assert await setup.events(entry_id, Kind.STEP_COMPLETED) == []
    assert (await setup.frame(lost)).state is not FrameState.COMPLETED


async def test_a_late_job_of_a_cancelled_duplicate_is_not_adopted_when_the_entrys_own_instance_is_gone(
    setup: CaseSetup,
) -> None:
    await setup.deploy(models.line, "first")
    entry_id, twin = await started_twice(setup)
    jobs = [await setup.take("first"), await setup.take("first")]
    (late,) = [job for job in jobs if job.process_instance_key == twin.instance_key]
    own = await setup.instance_key(entry_id)
    await setup.engine.cancel(twin.instance_key)
    await setup.engine.cancel(own)

    await setup.deliver(late)

    assert await setup.instance_key(entry_id) == own
    assert await setup.events(entry_id, Kind.STEP_COMPLETED) == []


async def test_a_look_that_the_engine_did_not_answer_is_repeated_in_a_minute(
    setup: CaseSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry_id = await setup.start(models.waits_for, event=models.LETTER)
    await setup.serve("first", PARK)
    await setup.age(entry_id)
    with monkeypatch.context() as away:
        away.setattr(setup.engine, "alive", AsyncMock(side_effect=EngineUnavailable("away")))
        unanswered = await setup.reconciler.look()
    at_once = await setup.reconciler.look()
    await setup.database.execute(
        "UPDATE verbworker.workflow_instance SET probed_at = probed_at - interval '61 seconds'"
    )

    assert (unanswered, at_once, await setup.reconciler.look()) == (1, 0, 1)


async def test_an_identity_that_was_surely_sent_once_is_forged_and_stops_for_a_person(setup: CaseSetup) -> None:
    await setup.deploy(models.receives, interrupting=True)
    entry_id, twin = await started_twice(setup, attempts=1)
    await setup.serve(PARK, PARK)

    ((_, retries, message),) = setup.engine.failures
    assert (retries, "InstanceMismatch" in message) == (0, True)
    assert await setup.engine.alive(twin.instance_key)
    assert len(await setup.waits(entry_id)) == 1
    await setup.engine.cancel(twin.instance_key)


@pytest.mark.req("EVT-14", "COR-10", "ADP-03")
async def test_an_instance_that_was_ended_in_the_engine_ends_its_entry_visibly(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.waits_for, event=models.LETTER)
    await setup.serve("first", PARK)
    await setup.engine.cancel(await setup.instance_key(entry_id))
    too_early = await setup.reconciler.look()
    await setup.age(entry_id)
    missed = await setup.reconciler.look()
    await setup.age(entry_id)

    looked = await setup.reconciler.look()

    (ended,) = await setup.events(entry_id, Kind.CANCELLED)
    # An engine in our own database cannot have made the instance again, so it is asked once.
    assert (too_early, missed, looked) == (0, 1, 0 if isinstance(setup.engine, SameDatabase) else 1)
    assert await setup.status(entry_id) == "cancelled"
    assert told(ended, "reason", "done") == {"reason": "ended outside", "done": [f"{setup.domain}.first"]}
    assert await setup.waits(entry_id) == []
    assert await setup.reconciler.look() == 0


async def test_an_instance_that_only_waits_is_left_and_looked_at_once_in_a_while(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.waits_for, event=models.LETTER)
    await setup.serve("first", PARK)
    await setup.age(entry_id)

    assert [await setup.reconciler.look(), await setup.reconciler.look()] == [1, 0]
    assert await setup.status(entry_id) == "parked"


async def test_an_entry_that_nothing_moves_is_found_as_stuck(setup: CaseSetup) -> None:
    waiting = await setup.start(models.waits_for, event=models.LETTER)
    await setup.serve("first", PARK)
    stuck = await setup.ask("another")
    await setup.dispatcher.drain()
    fresh = await setup.ask("a third")
    for entry_id in (waiting, stuck):
        await setup.age(entry_id)

    found = [still.entry.entry_id for still in await setup.runbook.stuck(TENANT, longer_than=DAY)]

    assert found == [stuck]
    assert fresh not in found


async def test_an_entry_whose_step_runs_is_not_stuck(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.line, "first")
    job = await setup.take("first")
    await setup.frames.push(setup.executor._delivery(job, JobVariables.of(job), JobProfile()))
    await setup.age(entry_id)

    assert await setup.runbook.stuck(TENANT, longer_than=DAY) == []
