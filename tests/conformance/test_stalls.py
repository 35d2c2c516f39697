"""What Postgres cannot know is named: a job the engine handed out and lost, a backoff and a timer that never came."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from tests.support import case_models as models
from tests.support.case_setup import COMPLETE, PARK, CaseSetup, case_setup
from tests.support.engines import Gateway
from tests.support.entries import told
from tests.support.start_router import TENANT
from verbworker import metrics
from verbworker.client.entry_view import EntryView
from verbworker.errors import TransientExternal
from verbworker.job.frame import FrameState
from verbworker.runbook.event import Kind, StallKind
from verbworker.stores.cases.stalls import Stalls
from verbworker.work.upkeep.stalls import StallDetector

ON = ("embedded", "zeebe", "zeebe-rest")
ALSO_ON = ("zeebe-8.8", "zeebe-8.9")
AFTER = timedelta(hours=2)


@pytest.fixture
async def setup(dsn: str, gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[CaseSetup]:
    async with case_setup(dsn, gateway.address, unique("case")) as setup:
        yield setup


def detector(setup: CaseSetup, *, caught_up_for: float = float("inf")) -> StallDetector:
    return StallDetector(
        setup.database, setup.engine, after=AFTER, gates_after=AFTER, caught_up_for=lambda: caught_up_for
    )


async def a_day_later(setup: CaseSetup) -> None:
    """Everything that was written so far was written a day before."""
    for change in (
        "runbook_entry SET updated_at = updated_at - interval '1 day'",
        "job_frame SET acked_at = acked_at - interval '1 day', reported_at = reported_at - interval '1 day'",
        "job_frame SET next_retry_at = next_retry_at - interval '1 day' WHERE next_retry_at IS NOT NULL",
        "parked_token SET due_at = due_at - interval '1 day' WHERE due_at IS NOT NULL",
    ):
        await setup.database.execute(f"UPDATE verbworker.{change}")


async def named(setup: CaseSetup, entry_id: UUID) -> list[StallKind]:
    return [stall.kind for stall in await Stalls(setup.database).of_entry(entry_id)]


async def test_a_job_that_was_handed_out_and_never_claimed_is_named_until_it_moves(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.line, "first", "second")
    await setup.serve("first")
    lost = await setup.take("second", timeout_ms=3_600_000)
    await setup.frames.flush()
    await a_day_later(setup)
    look = detector(setup)

    assert [await look.note(), await look.note()] == [1, 0]
    await look.clear()

    (stalled,) = await setup.events(entry_id, Kind.STALLED)
    found = await EntryView(setup.database).find(entry_id, TENANT)
    (stall,) = found.stalls
    assert stalled.detail["what"] == "job"
    assert f"{setup.domain}.first was done at" in stall.reason
    assert str(await setup.instance_key(entry_id)) in stall.reason
    assert stall.remedy
    assert found.progress.detailed.endswith(", stalled")
    assert await setup.status(entry_id) == "executing"
    assert metrics.STALLED._value.get() == 1

    await setup.deliver(lost)
    await look.clear()

    assert await named(setup, entry_id) == []
    assert metrics.STALLED._value.get() == 0
    await setup.serve(COMPLETE)
    assert await setup.kinds(entry_id) == [
        *("DurableTaskStarted", "StepCompleted", "Stalled", "StepCompleted", "ExecutionResult")
    ]
    assert (await setup.runbook.verify(TENANT, entry_id)).broken == {}


async def test_a_case_whose_first_job_was_lost_says_that_nothing_was_done(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.line, "first")
    await setup.take("first", timeout_ms=3_600_000)
    await a_day_later(setup)

    assert await detector(setup).note() == 1

    (stall,) = await Stalls(setup.database).of_entry(entry_id)
    assert stall.reason.startswith("no step was done since it started at ")


async def test_several_detectors_name_it_once(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.line, "first")
    await setup.take("first", timeout_ms=3_600_000)
    await a_day_later(setup)

    assert sorted([await detector(setup).note(), await detector(setup).note()]) == [0, 1]
    assert len(await setup.events(entry_id, Kind.STALLED)) == 1


async def test_nothing_is_named_while_jobs_wait_in_the_engine(setup: CaseSetup) -> None:
    await setup.start(models.line, "first")
    await a_day_later(setup)

    assert await detector(setup, caught_up_for=AFTER.total_seconds() - 1).note() == 0


async def test_an_instance_that_the_engine_has_no_more_is_named_as_that(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.line, "first")
    await setup.engine.cancel(await setup.instance_key(entry_id))
    await a_day_later(setup)

    assert await detector(setup).note() == 1

    (stall,) = await Stalls(setup.database).of_entry(entry_id)
    assert f"has no instance {await setup.instance_key(entry_id)} any more" in stall.reason
    assert "reconciler" in stall.remedy
    # It was the first look of two: the reconciler need not wait for its own turn.
    missed = "SELECT missed_at FROM verbworker.workflow_instance WHERE entry_id = $1"
    (row,) = await setup.database.fetch(missed, entry_id)
    assert row["missed_at"] is not None


async def test_an_entry_that_waits_normally_is_never_named(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.waits_for, event=models.LETTER)
    await setup.serve("first", PARK)
    await setup.frames.flush()
    await a_day_later(setup)

    assert await detector(setup).note() == 0
    assert await named(setup, entry_id) == []


async def test_a_backoff_that_the_engine_never_ended_is_named(
    setup: CaseSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry_id = await setup.start(models.line, "first")
    verb = setup.registry.find(f"{setup.domain}.first")
    assert verb is not None

    async def fails(case: object, call: object) -> None:
        raise TransientExternal("nobody answered")

    object.__setattr__(verb, "act", replace(verb.act, function=fails))
    job = await setup.take("first", timeout_ms=3_600_000)
    await setup.deliver(job)
    await setup.frames.flush()
    assert (await setup.frame(job)).state is FrameState.FAILED
    await a_day_later(setup)
    look = detector(setup)

    assert [await look.note(), await look.note()] == [1, 0]
    await look.clear()

    (overdue,) = await setup.events(entry_id, Kind.OVERDUE)
    (stall,) = await Stalls(setup.database).of_entry(entry_id)
    assert told(overdue, "what") == {"what": "backoff"}
    assert stall.kind is StallKind.BACKOFF
    assert f"the retry of {setup.domain}.first was due at " in stall.reason
    assert metrics.OVERDUE_BACKOFFS._value.get() == 1


async def test_a_timer_that_the_engine_never_fired_is_named_until_it_fires(setup: CaseSetup, gateway: Gateway) -> None:
    entry_id = await setup.start(models.waits_for, event=models.TIMER)
    await setup.serve("first", PARK)
    look = detector(setup)
    early = await look.note()
    await a_day_later(setup)

    assert [early, await look.note(), await look.note()] == [0, 1, 0]
    await look.clear()

    (stall,) = await Stalls(setup.database).of_entry(entry_id)
    assert stall.kind is StallKind.TIMER
    assert "the timer at 'Awaiting documents' was due at " in stall.reason
    assert metrics.OVERDUE_TIMERS._value.get() == 1
    assert await setup.status(entry_id) == "parked"

    gateway.advance(3600)
    await setup.serve("verbworker.unpark")
    await look.clear()

    assert await named(setup, entry_id) == []
    assert metrics.OVERDUE_TIMERS._value.get() == 0


@pytest.mark.parametrize("draw", [models.receives, models.chooses])
async def test_a_wait_is_due_when_a_timer_beside_it_is(setup: CaseSetup, draw: Callable[..., bytes]) -> None:
    entry_id = await setup.start(draw, **({"interrupting": True} if draw is models.receives else {}))
    await setup.serve(PARK)

    row = await setup.database.fetchrow(
        "SELECT due_at - opened_at AS after FROM verbworker.parked_token WHERE entry_id = $1", entry_id
    )

    assert row is not None
    assert abs(row["after"] - timedelta(hours=1)) < timedelta(minutes=1)


async def test_a_gate_is_due_when_the_timer_at_its_edge_is(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.reviews)
    await setup.serve("io.camunda.zeebe:userTask")

    row = await setup.database.fetchrow(
        "SELECT due_at - opened_at AS after FROM verbworker.parked_token WHERE entry_id = $1", entry_id
    )

    assert row is not None
    assert abs(row["after"] - timedelta(hours=1)) < timedelta(minutes=1)


async def test_a_timer_that_fired_beside_a_wait_is_not_due_any_more(setup: CaseSetup, gateway: Gateway) -> None:
    entry_id = await setup.start(models.receives, interrupting=False)
    await setup.serve(PARK)
    gateway.advance(3600)
    await setup.serve("verbworker.fired")
    await a_day_later(setup)

    assert await detector(setup).note() == 0
    assert await named(setup, entry_id) == []
