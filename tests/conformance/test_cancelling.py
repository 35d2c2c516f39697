"""Cancelling on every engine: asked before or after the start, in a race with the result; one truth in any case."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support import case_models as models
from tests.support.case_setup import COMPLETE, PARK, Case, CaseSetup, case_registry, case_setup
from tests.support.engines import Gateway
from tests.support.entries import told
from tests.support.start_router import TENANT, asking
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import SameDatabase, Start, Started
from verbworker.errors import EngineUnavailable, NotFound, RequestConflict
from verbworker.job.frame import FrameState
from verbworker.runbook.event import Kind, describe

ON = ("embedded", "zeebe", "zeebe-rest")
ALSO_ON = ("zeebe-8.8", "zeebe-8.9")
SOON = timedelta(0)


@pytest.fixture
async def setup(dsn: str, gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[CaseSetup]:
    async with case_setup(dsn, gateway.address, unique("case")) as setup:
        yield setup


async def cancel(setup: CaseSetup, entry_id: UUID) -> str:
    entry = await setup.cancelling.cancel(entry_id, tenant_id=TENANT, by="ann", reason="asked twice")
    return entry.status.value


@pytest.mark.req("CMP-06", "CMP-08", "ADP-09", "EVT-09", "EVT-14", "X-35")
async def test_an_entry_that_waits_is_cancelled_and_says_what_was_done(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.waits_for, event=models.LETTER)
    await setup.serve("first", PARK)

    assert await cancel(setup, entry_id) == "cancelled"

    (asked, ended) = await setup.events(entry_id, Kind.CANCEL_REQUESTED, Kind.CANCELLED)
    assert told(asked, "by", "reason") == {"by": "ann", "reason": "asked twice"}
    assert told(ended, "by", "reason", "done", "undone", "instance_key") == {
        "by": "ann",
        "reason": "asked twice",
        "done": [f"{setup.domain}.first"],
        "undone": [],
        "instance_key": await setup.instance_key(entry_id),
    }
    assert (await setup.entry(entry_id)).cancel_requested_at is not None
    assert await setup.waits(entry_id) == []
    assert not await setup.engine.alive(await setup.instance_key(entry_id))


@pytest.mark.req("CMP-06")
async def test_a_cancel_during_an_external_call_names_the_call_whose_outcome_is_unknown(
    dsn: str, gateway: Gateway, unique: Callable[[str], str]
) -> None:
    domain, called, answered = unique("case"), asyncio.Event(), asyncio.Event()
    verbs = Registry()

    @verbs.verb(f"{domain}.first", mode="external", writes=("first",))
    async def first(case: Case) -> Case:
        """Call another system, which answers late."""
        called.set()
        await answered.wait()
        return case

    @verbs.verb(f"{domain}.second", mode="external", writes=("second",))
    async def second(case: Case) -> Case:
        """Is never called."""
        return case

    verbs.declare(case_registry(domain, f"{domain}-letter").workflows[f"{domain}.case"])
    async with case_setup(dsn, gateway.address, domain, verbs) as setup, asyncio.TaskGroup() as tasks:
        entry_id = await setup.start(models.line, "first")
        job = await setup.take("first")
        tasks.create_task(setup.deliver(job))
        await called.wait()
        key = await setup.idempotency_key(job)

        assert await cancel(setup, entry_id) == "cancelled"

        answered.set()
        (ended,) = await setup.events(entry_id, Kind.CANCELLED)
        (step,) = ended.detail["running"]
    assert told_step(step) == (f"{domain}.first", key, "external", "unknown")
    assert "outcome is unknown" in describe(ended)
    assert f"{domain}.first (idempotency key {key})" in describe(ended)


def told_step(step: Mapping[str, str]) -> tuple[str, ...]:
    return step["verb"], step["idempotency_key"], step["mode"], step["outcome"]


@pytest.mark.req("CMP-06")
async def test_an_entry_that_has_not_begun_is_withdrawn(setup: CaseSetup) -> None:
    await setup.deploy(models.line, "first")
    entry_id = await setup.ask()

    assert await cancel(setup, entry_id) == "cancelled"

    assert await setup.dispatcher.drain() == 0
    assert await setup.kinds(entry_id) == ["CancelRequested", "Cancelled"]


@pytest.mark.req("CMP-06")
async def test_while_the_engine_is_away_the_request_is_kept_and_sent_later(
    setup: CaseSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry_id = await setup.start(models.line, "first")
    with monkeypatch.context() as patch:
        patch.setattr(setup.engine, "cancel", _away)
        asked = await cancel(setup, entry_id)
        again = await cancel(setup, entry_id)
    assert (asked, again) == ("executing", "executing")

    assert await setup.cancelling.drain(longer_than=SOON) == 1

    assert await setup.status(entry_id) == "cancelled"
    assert await setup.kinds(entry_id) == ["DurableTaskStarted", "CancelRequested", "Cancelled"]
    assert await setup.cancelling.drain(longer_than=SOON) == 0


async def _away(instance_key: int) -> None:
    raise EngineUnavailable("nobody answers")


@pytest.mark.req("CMP-06")
async def test_a_cancel_whose_answer_was_lost_ends_all_the_same(
    setup: CaseSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry_id = await setup.start(models.line, "first")
    real = setup.engine.cancel

    async def lost(instance_key: int) -> None:
        await real(instance_key)
        raise EngineUnavailable("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(setup.engine, "cancel", lost)
        assert await cancel(setup, entry_id) == "executing"

    await setup.cancelling.drain(longer_than=SOON)

    assert await setup.status(entry_id) == "cancelled"


@pytest.mark.req("CMP-06")
async def test_a_result_that_came_first_stands(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.line, "first")
    await setup.serve("first", COMPLETE)

    with pytest.raises(RequestConflict, match="it is completed at "):
        await cancel(setup, entry_id)

    assert (await setup.kinds(entry_id))[-1] == "ExecutionResult"


@pytest.mark.req("CMP-06")
async def test_a_request_that_came_first_stands(setup: CaseSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    entry_id = await setup.start(models.line, "first")
    await setup.serve("first")
    with monkeypatch.context() as patch:
        patch.setattr(setup.engine, "cancel", _away)
        await cancel(setup, entry_id)

    await setup.serve(COMPLETE)

    assert await setup.status(entry_id) == "cancelled"
    assert "ExecutionResult" not in await setup.kinds(entry_id)
    assert not await setup.engine.alive(await setup.instance_key(entry_id))


@pytest.mark.req("CMP-06")
async def test_a_request_and_a_result_at_once_end_in_one_truth(setup: CaseSetup) -> None:
    truths = set()
    for _ in range(6):
        entry_id = await setup.start(models.line, "first")
        await setup.serve("first")
        job = await setup.take(COMPLETE)
        answers = await asyncio.gather(setup.deliver(job), cancel(setup, entry_id), return_exceptions=True)
        status = await setup.status(entry_id)
        ends = [kind for kind in await setup.kinds(entry_id) if kind in ("Cancelled", "ExecutionResult")]
        truths.add((status, *ends))
        await setup.until_gone(job.process_instance_key)
        assert isinstance(answers[1], RequestConflict) == (status == "completed")

    assert truths <= {("completed", "ExecutionResult"), ("cancelled", "Cancelled")}
    assert (await setup.runbook.verify(TENANT)).broken == {}


@pytest.mark.req("CMP-08")
async def test_a_late_job_of_a_cancelled_entry_changes_nothing(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.line, "first")
    job = await setup.take("first")
    await cancel(setup, entry_id)
    before = await setup.kinds(entry_id)

    await setup.deliver(job)

    frame = await setup.frame(job)
    assert await setup.kinds(entry_id) == before
    assert (frame.state, frame.fail_code, frame.output) == (FrameState.FAILED, "DuplicateInstance", None)
    assert await setup.waits(entry_id) == []


async def test_a_late_listener_of_a_cancelled_entry_changes_nothing(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.receives, interrupting=True)
    job = await setup.take(PARK)
    await cancel(setup, entry_id)
    before = await setup.kinds(entry_id)

    await setup.deliver(job)

    assert await setup.kinds(entry_id) == before
    assert await setup.waits(entry_id) == []


@pytest.mark.req("CMP-06")
@pytest.mark.parametrize("first", ["verb", "listener"])
async def test_a_withdrawn_start_that_came_through_is_cancelled_at_its_first_job(setup: CaseSetup, first: str) -> None:
    if first == "verb":
        await setup.deploy(models.line, "first")
    else:
        await setup.deploy(models.receives, interrupting=True)
    entry_id = await setup.ask()
    (dispatch,) = await setup.dispatches.claim(1, claim_for=timedelta(minutes=1))
    started = await setup.engine.start(Start(dispatch.process_id, dispatch.variables))
    assert await cancel(setup, entry_id) == "cancelled"

    await setup.serve("first" if first == "verb" else PARK)

    assert not await setup.engine.alive(started.instance_key)
    assert await setup.kinds(entry_id) == ["CancelRequested", "Cancelled"]


@pytest.mark.req("CMP-06")
async def test_a_dispatcher_that_is_overtaken_by_a_cancel_takes_its_start_back(
    setup: CaseSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    await setup.deploy(models.line, "first")
    entry_id = await setup.ask()
    noted: list[Started] = []
    if isinstance(setup.engine, SameDatabase):
        # Starting and pinning are one commit here: the cancel comes before it, and nothing is started.
        start_with = setup.engine.start_with

        async def overtaken_with(starts: Any, note: Any) -> Any:
            async def overtaken_note(connection: Any, started: Any) -> None:
                noted.extend(started)
                await cancel(setup, entry_id)
                await note(connection, started)

            return await start_with(starts, overtaken_note)

        monkeypatch.setattr(setup.engine, "start_with", overtaken_with)
    else:
        start = setup.engine.start

        async def overtaken(asked: Start) -> Started:
            noted.append(await start(asked))
            await cancel(setup, entry_id)
            return noted[-1]

        monkeypatch.setattr(setup.engine, "start", overtaken)
    await setup.dispatcher.drain()

    assert not await setup.engine.alive(noted[0].instance_key)
    assert await setup.status(entry_id) == "cancelled"


async def test_nobody_cancels_what_is_not_theirs_or_not_there(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.line, "first")

    with pytest.raises(NotFound):
        await setup.cancelling.cancel(entry_id, tenant_id="another", by="eve", reason="x")
    with pytest.raises(NotFound):
        await setup.cancelling.cancel(uuid4(), tenant_id=TENANT, by="eve", reason="x")
    assert await setup.status(entry_id) == "executing"


async def test_a_direct_verb_cannot_be_cancelled(setup: CaseSetup) -> None:
    args = {"name": "x"}
    setup.registry.declare(startable=[f"{setup.domain}.second"])
    entry = await setup.router.invoke(f"{setup.domain}.second", args, caller=asking())

    with pytest.raises(RequestConflict, match="it is completed"):
        await cancel(setup, entry.entry_id)
