"""What Postgres cannot know is named: a job the engine handed out and lost, a backoff and a timer that never came."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from tests.support import case_models as models
from tests.support.casebook import COMPLETE, PARK, CaseSetup, casebook
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

ON = ("embedded", "zeebe")
ALSO_ON = ("zeebe-8.8", "zeebe-8.9")
AFTER = timedelta(hours=2)


@pytest.fixture
async def book(dsn: str, gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[CaseSetup]:
    async with casebook(dsn, gateway.address, unique("case")) as book:
        yield book


def detector(book: CaseSetup, *, caught_up_for: float = float("inf")) -> StallDetector:
    return StallDetector(
        book.database, book.engine, after=AFTER, gates_after=AFTER, caught_up_for=lambda: caught_up_for
    )


async def a_day_later(book: CaseSetup) -> None:
    """Everything that was written so far was written a day before."""
    for change in (
        "runbook_entry SET updated_at = updated_at - interval '1 day'",
        "job_frame SET acked_at = acked_at - interval '1 day', reported_at = reported_at - interval '1 day'",
        "job_frame SET next_retry_at = next_retry_at - interval '1 day' WHERE next_retry_at IS NOT NULL",
        "parked_token SET due_at = due_at - interval '1 day' WHERE due_at IS NOT NULL",
    ):
        await book.database.execute(f"UPDATE verbworker.{change}")


async def named(book: CaseSetup, entry_id: UUID) -> list[StallKind]:
    return [stall.kind for stall in await Stalls(book.database).of_entry(entry_id)]


async def test_a_job_that_was_handed_out_and_never_claimed_is_named_until_it_moves(book: CaseSetup) -> None:
    entry_id = await book.start(models.line, "first", "second")
    await book.serve("first")
    lost = await book.take("second", timeout_ms=3_600_000)
    await book.frames.flush()
    await a_day_later(book)
    look = detector(book)

    assert [await look.note(), await look.note()] == [1, 0]
    await look.clear()

    (stalled,) = await book.events(entry_id, Kind.STALLED)
    found = await EntryView(book.database).find(entry_id, TENANT)
    (stall,) = found.stalls
    assert stalled.detail["what"] == "job"
    assert f"{book.domain}.first was done at" in stall.reason
    assert str(await book.instance_key(entry_id)) in stall.reason
    assert stall.remedy
    assert found.progress.detailed.endswith(", stalled")
    assert await book.status(entry_id) == "executing"
    assert metrics.STALLED._value.get() == 1

    await book.deliver(lost)
    await look.clear()

    assert await named(book, entry_id) == []
    assert metrics.STALLED._value.get() == 0
    await book.serve(COMPLETE)
    assert await book.kinds(entry_id) == [
        *("DurableTaskStarted", "StepCompleted", "Stalled", "StepCompleted", "ExecutionResult")
    ]
    assert (await book.runbook.verify(TENANT, entry_id)).broken == {}


async def test_a_case_whose_first_job_was_lost_says_that_nothing_was_done(book: CaseSetup) -> None:
    entry_id = await book.start(models.line, "first")
    await book.take("first", timeout_ms=3_600_000)
    await a_day_later(book)

    assert await detector(book).note() == 1

    (stall,) = await Stalls(book.database).of_entry(entry_id)
    assert stall.reason.startswith("no step was done since it started at ")


async def test_several_detectors_name_it_once(book: CaseSetup) -> None:
    entry_id = await book.start(models.line, "first")
    await book.take("first", timeout_ms=3_600_000)
    await a_day_later(book)

    assert sorted([await detector(book).note(), await detector(book).note()]) == [0, 1]
    assert len(await book.events(entry_id, Kind.STALLED)) == 1


async def test_nothing_is_named_while_jobs_wait_in_the_engine(book: CaseSetup) -> None:
    await book.start(models.line, "first")
    await a_day_later(book)

    assert await detector(book, caught_up_for=AFTER.total_seconds() - 1).note() == 0


async def test_an_instance_that_the_engine_has_no_more_is_named_as_that(book: CaseSetup) -> None:
    entry_id = await book.start(models.line, "first")
    await book.engine.cancel(await book.instance_key(entry_id))
    await a_day_later(book)

    assert await detector(book).note() == 1

    (stall,) = await Stalls(book.database).of_entry(entry_id)
    assert f"has no instance {await book.instance_key(entry_id)} any more" in stall.reason
    assert "reconciler" in stall.remedy


async def test_an_entry_that_waits_normally_is_never_named(book: CaseSetup) -> None:
    entry_id = await book.start(models.waits_for, event=models.LETTER)
    await book.serve("first", PARK)
    await book.frames.flush()
    await a_day_later(book)

    assert await detector(book).note() == 0
    assert await named(book, entry_id) == []


async def test_a_backoff_that_the_engine_never_ended_is_named(book: CaseSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    entry_id = await book.start(models.line, "first")
    verb = book.registry.find(f"{book.domain}.first")
    assert verb is not None

    async def fails(case: object, call: object) -> None:
        raise TransientExternal("nobody answered")

    object.__setattr__(verb, "act", replace(verb.act, function=fails))
    job = await book.take("first", timeout_ms=3_600_000)
    await book.deliver(job)
    await book.frames.flush()
    assert (await book.frame(job)).state is FrameState.FAILED
    await a_day_later(book)
    look = detector(book)

    assert [await look.note(), await look.note()] == [1, 0]
    await look.clear()

    (overdue,) = await book.events(entry_id, Kind.OVERDUE)
    (stall,) = await Stalls(book.database).of_entry(entry_id)
    assert told(overdue, "what") == {"what": "backoff"}
    assert stall.kind is StallKind.BACKOFF
    assert f"the retry of {book.domain}.first was due at " in stall.reason
    assert metrics.OVERDUE_BACKOFFS._value.get() == 1


async def test_a_timer_that_the_engine_never_fired_is_named_until_it_fires(book: CaseSetup, gateway: Gateway) -> None:
    entry_id = await book.start(models.waits_for, event=models.TIMER)
    await book.serve("first", PARK)
    look = detector(book)
    early = await look.note()
    await a_day_later(book)

    assert [early, await look.note(), await look.note()] == [0, 1, 0]
    await look.clear()

    (stall,) = await Stalls(book.database).of_entry(entry_id)
    assert stall.kind is StallKind.TIMER
    assert "the timer at 'Awaiting documents' was due at " in stall.reason
    assert metrics.OVERDUE_TIMERS._value.get() == 1
    assert await book.status(entry_id) == "parked"

    gateway.advance(3600)
    await book.serve("verbworker.unpark")
    await look.clear()

    assert await named(book, entry_id) == []
    assert metrics.OVERDUE_TIMERS._value.get() == 0


@pytest.mark.parametrize("draw", [models.receives, models.chooses])
async def test_a_wait_is_due_when_a_timer_beside_it_is(book: CaseSetup, draw: Callable[..., bytes]) -> None:
    entry_id = await book.start(draw, **({"interrupting": True} if draw is models.receives else {}))
    await book.serve(PARK)

    row = await book.database.fetchrow(
        "SELECT due_at - opened_at AS after FROM verbworker.parked_token WHERE entry_id = $1", entry_id
    )

    assert row is not None
    assert abs(row["after"] - timedelta(hours=1)) < timedelta(minutes=1)


async def test_a_gate_is_due_when_the_timer_at_its_edge_is(book: CaseSetup) -> None:
    entry_id = await book.start(models.reviews)
    await book.serve("io.camunda.zeebe:userTask")

    row = await book.database.fetchrow(
        "SELECT due_at - opened_at AS after FROM verbworker.parked_token WHERE entry_id = $1", entry_id
    )

    assert row is not None
    assert abs(row["after"] - timedelta(hours=1)) < timedelta(minutes=1)


async def test_a_timer_that_fired_beside_a_wait_is_not_due_any_more(book: CaseSetup, gateway: Gateway) -> None:
    entry_id = await book.start(models.receives, interrupting=False)
    await book.serve(PARK)
    gateway.advance(3600)
    await book.serve("verbworker.fired")
    await a_day_later(book)

    assert await detector(book).note() == 0
    assert await named(book, entry_id) == []
