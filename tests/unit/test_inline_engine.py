"""The inline engine: real models in memory, a clock that is the test's, and faults on request."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.drawing import Drawing
from verbworker.engine.protocol import Ask, Resource, Signal, Start
from verbworker.errors import Backpressure, CommandInvalid, EngineUnavailable, JobGone
from verbworker.job.job import Job
from verbworker.job.outcome import NO_RESULT
from verbworker.testing import Clock, InlineEngine, JobState

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def drawn(timer: str = "PT1M") -> Drawing:
    drawing = Drawing().start().catch("wait", timer=timer).task("work").end()
    return drawing.flow("begin", "wait", "work", "end")


async def deployed(drawing: Drawing) -> InlineEngine:
    engine = InlineEngine(clock=Clock(NOON))
    await engine.deploy([Resource("p.bpmn", drawing.xml())])
    return engine


async def taken(engine: InlineEngine, kind: str = "work") -> list[Job]:
    return await engine.activate(Ask(kind, "tests", 60_000, ()), 10, 0)


async def test_time_passes_when_the_test_says_so() -> None:
    engine = await deployed(drawn())
    await engine.start(Start("p", {}))
    engine.advance(59)
    assert await taken(engine) == []
    engine.advance(1)

    (job,) = await taken(engine)
    assert job.activated_ms >= int((NOON + timedelta(minutes=1)).timestamp() * 1000)


async def test_timers_fire_in_the_order_they_are_due() -> None:
    drawing = (
        Drawing().start().catch("wait", timer="=orch_pause").task("work").end().flow("begin", "wait", "work", "end")
    )
    engine = await deployed(drawing)
    for pause in ("PT3M", "PT1M", "PT2M"):
        await engine.start(Start("p", {"orch_pause": pause}))

    engine.advance(3600)

    assert [job.variables["orch_pause"] for job in await taken(engine)] == ["PT1M", "PT2M", "PT3M"]


async def test_engines_may_share_a_clock() -> None:
    clock = Clock(NOON)
    first, second = InlineEngine("first", clock=clock), InlineEngine("second", clock=clock)

    first.advance(60)

    assert (second.clock.now, first.engine_id) == (NOON + timedelta(minutes=1), "first")


@pytest.mark.parametrize(
    ("trouble", "error", "is_alive"),
    [("drop", EngineUnavailable, True), ("refuse", Backpressure, True), ("lose_answer", EngineUnavailable, False)],
)
async def test_a_command_misbehaves_as_it_was_told(trouble: str, error: type[Exception], is_alive: bool) -> None:
    engine = await deployed(Drawing().start().task("work").end().flow("begin", "work", "end"))
    instance = (await engine.start(Start("p", {}))).instance_key
    (job,) = await taken(engine)
    getattr(engine, trouble)("complete")

    with pytest.raises(error):
        await engine.complete(job.key, NO_RESULT)

    assert await engine.alive(instance) is is_alive


async def test_an_engine_that_lost_its_timeouts_hands_out_only_what_is_failed() -> None:
    engine = await deployed(Drawing().start().task("work").end().flow("begin", "work", "end"))
    await engine.start(Start("p", {}))
    (job,) = await taken(engine)
    engine.lose_timeouts()
    await engine.extend(job.key, 1)
    engine.advance(24 * 3600)
    locked = await taken(engine)

    await engine.fail(job.key, retries=job.retries, message="freed")
    (again,) = await taken(engine)

    assert locked == []
    assert (again.key, again.retries) == (job.key, job.retries)
    assert again.activated_ms > job.activated_ms


async def test_a_restarted_engine_has_its_timeouts_again() -> None:
    engine = await deployed(Drawing().start().task("work").end().flow("begin", "work", "end"))
    await engine.start(Start("p", {}))
    (job,) = await taken(engine)
    engine.lose_timeouts()
    engine.advance(3600)

    engine.lose_timeouts(lost=False)

    assert [known.key for known in await taken(engine)] == [job.key]


async def test_a_job_can_be_delivered_again_after_it_was_completed() -> None:
    engine = await deployed(Drawing().start().task("work").task("then").end().flow("begin", "work", "then", "end"))
    await engine.start(Start("p", {}))
    (job,) = await taken(engine)
    await engine.complete(job.key, NO_RESULT)
    engine.redeliver(job.key)
    (again,) = await taken(engine)
    await engine.complete(again.key, NO_RESULT)

    assert (again.key, engine.jobs[job.key].state) == (job.key, JobState.COMPLETED)
    assert len(await taken(engine, "then")) == 1


async def test_an_operator_sees_and_resolves_incidents() -> None:
    engine = await deployed(drawn("=orch_pause"))
    instance = (await engine.start(Start("p", {}))).instance_key
    (incident,) = await engine.incidents([instance])
    engine.set_variables(instance, {"orch_pause": "PT0S"})
    await engine.resolve_incident(incident.incident_key)

    left = await engine.incidents()
    assert (incident.kind, left, len(await taken(engine))) == ("EXTRACT_VALUE_ERROR", [], 1)
    with pytest.raises(JobGone):
        await engine.resolve_incident(incident.incident_key)


async def test_a_model_it_does_not_execute_is_refused_by_id_and_line() -> None:
    model = drawn().xml().replace(b"serviceTask", b"scriptTask")
    engine = InlineEngine()

    with pytest.raises(CommandInvalid, match=r"p.bpmn:\d+: .*'work' is a script"):
        await engine.deploy([Resource("p.bpmn", model)])


async def test_what_a_worker_changes_in_its_variables_stays_with_it() -> None:
    engine = await deployed(Drawing().start().task("work").end().flow("begin", "work", "end"))
    instance = (await engine.start(Start("p", {"orch_list": [1]}))).instance_key
    (job,) = await taken(engine)
    found = job.variables["orch_list"]
    assert isinstance(found, list)
    found.append(2)

    assert engine.variables(instance) == {"orch_list": [1]}


async def test_a_message_reaches_a_wait() -> None:
    drawing = Drawing().start().catch("wait", message="docs").task("work").end().flow("begin", "wait", "work", "end")
    engine = await deployed(drawing)
    await engine.publish(Signal("docs", "k", "m-1", 60_000, {"orch_seen": True}))
    await engine.start(Start("p", {"corr_key": "k"}))

    (job,) = await taken(engine)
    assert job.variables == {"corr_key": "k", "orch_seen": True}
