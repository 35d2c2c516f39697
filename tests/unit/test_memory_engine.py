"""The engine in memory: it keeps the promises of a real one, the weak ones too."""

import asyncio
from typing import Any

import pytest

from tests.support.virtual_time import turns, virtual_time
from verbworker.engine.protocol import Ask, Resource, Signal, Start
from verbworker.errors import Backpressure, CommandInvalid, EngineUnavailable, JobGone, JobNotActive
from verbworker.job.job import Job
from verbworker.job.outcome import NO_RESULT, JobResult
from verbworker.testing.memory import JobState, MemoryEngine

ASK = Ask(type="a.one", worker="tests", timeout_ms=60_000, variables=("x", "gone"))


async def started(engine: MemoryEngine, *verbs: str) -> int:
    engine.line("p", verbs or ("a.one",))
    return (await engine.start(Start("p", {"x": 1, "y": 2}))).instance_key


async def polled(engine: MemoryEngine, verb: str = "a.one", limit: int = 10) -> list[Job]:
    return await engine.activate(Ask(verb, "tests", 60_000, ("x",)), limit, 0)


async def the_job(engine: MemoryEngine, verb: str = "a.one") -> Job:
    (job,) = await polled(engine, verb)
    return job


# ---- delivering ----------------------------------------------------------------------------------------------------


async def test_a_job_carries_what_was_asked_for_and_is_there() -> None:
    engine = MemoryEngine()
    await started(engine)
    (job,) = await engine.activate(ASK, 1, 0)

    assert (job.type, job.variables, job.timeout_ms, job.retries) == ("a.one", {"x": 1}, 60_000, 3)


async def test_a_job_is_handed_out_once() -> None:
    engine = MemoryEngine()
    await started(engine)
    await the_job(engine)

    assert await polled(engine) == []


async def test_no_more_jobs_are_handed_out_than_were_asked_for() -> None:
    engine = MemoryEngine()
    for _ in range(5):
        await started(engine)

    assert len(await polled(engine, limit=2)) == 2
    assert len(await polled(engine)) == 3


@pytest.mark.parametrize("late", ["advance", "time_out"])
async def test_a_job_nobody_answered_for_comes_again_later(late: str) -> None:
    engine = MemoryEngine()
    await started(engine)
    first = await the_job(engine)
    engine.advance(59)
    assert await polled(engine) == []
    if late == "advance":
        engine.advance(1)
    else:
        engine.time_out(first.key)
    second = await the_job(engine)

    assert (second.key, second.retries) == (first.key, first.retries)
    assert second.activated_ms > first.activated_ms


async def test_only_an_activation_can_time_out() -> None:
    engine = MemoryEngine()
    await started(engine)
    job = await the_job(engine)
    await engine.complete(job.key, NO_RESULT)
    engine.time_out(job.key)

    assert engine.jobs[job.key].state is JobState.COMPLETED


async def test_jobs_may_come_in_another_order() -> None:
    engine = MemoryEngine(seed=1)
    for _ in range(20):
        await started(engine)
    engine.shuffled = True
    keys = [job.key for job in await polled(engine, limit=20)]

    assert sorted(keys) == list(engine.jobs)
    assert keys != sorted(keys)


@virtual_time
async def test_a_poll_waits_for_a_job_as_long_as_it_was_told() -> None:
    engine = MemoryEngine()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(engine.activate(ASK, 1, 5_000))
        await turns()
        assert not waiting.done()
        await started(engine)
    nothing = await engine.activate(ASK, 1, 5_000)

    assert len(waiting.result()) == 1
    assert nothing == []
    assert asyncio.get_running_loop().time() == pytest.approx(5)


@virtual_time
async def test_a_stream_pushes_what_is_new_and_nothing_that_came_back() -> None:
    engine = MemoryEngine()
    pushed: list[Job] = []

    async def read() -> None:
        async for job in engine.stream(ASK):
            pushed.append(job)  # noqa: PERF401  # one by one: the stream never ends

    async with asyncio.TaskGroup() as tasks:
        await started(engine)
        old = await the_job(engine)
        reading = tasks.create_task(read())
        await turns()
        engine.time_out(old.key)
        await turns()
        assert pushed == []
        await started(engine)
        await turns()
        reading.cancel()

    (job,) = pushed
    assert engine.jobs[job.key].state is JobState.ACTIVATED
    assert [again.key for again in await polled(engine)] == [old.key]


@virtual_time
async def test_what_was_pushed_and_not_read_is_given_back_when_a_stream_closes() -> None:
    engine = MemoryEngine()
    stream = engine.stream(ASK)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(anext(stream))
        await turns()
        await started(engine)
        await started(engine)
        read: Any = await reading
    await stream.aclose()

    assert [job.key for job in await polled(engine)] == [key for key in engine.jobs if key != read.key]


# ---- answering -----------------------------------------------------------------------------------------------------


async def test_a_completed_job_leads_to_the_next_verb_of_the_line() -> None:
    engine = MemoryEngine()
    instance = await started(engine, "a.one", "a.two")
    await engine.complete((await the_job(engine)).key, JobResult(flags={"x": 5}))
    assert not engine.has_ended(instance)
    job = await the_job(engine, "a.two")
    await engine.complete(job.key, NO_RESULT)

    assert job.variables == {"x": 5}
    assert engine.has_ended(instance)
    assert engine.variables(instance) == {"x": 5, "y": 2}


@pytest.mark.req("M-05")
async def test_whoever_knows_a_key_may_complete_a_job() -> None:
    engine = MemoryEngine()
    await started(engine)
    job = await the_job(engine)
    engine.time_out(job.key)
    await engine.complete(job.key, NO_RESULT)

    assert engine.jobs[job.key].state is JobState.COMPLETED


@pytest.mark.req("FAIL-07")
async def test_a_completed_job_is_gone_for_every_command() -> None:
    engine = MemoryEngine()
    await started(engine)
    job = await the_job(engine)
    await engine.complete(job.key, NO_RESULT)

    with pytest.raises(JobGone):
        await engine.complete(job.key, NO_RESULT)
    with pytest.raises(JobGone):
        await engine.fail(job.key, retries=1, message="")
    with pytest.raises(JobGone):
        await engine.throw(job.key, code="X", message="")
    with pytest.raises(JobGone):
        await engine.extend(job.key, 1)


async def test_a_redelivered_job_moves_its_instance_once() -> None:
    engine = MemoryEngine()
    await started(engine, "a.one", "a.two")
    job = await the_job(engine)
    await engine.complete(job.key, NO_RESULT)
    engine.redeliver(job.key)
    await engine.complete((await the_job(engine)).key, NO_RESULT)

    assert engine.jobs[job.key].completions == 2
    assert len(await polled(engine, "a.two")) == 1


async def test_a_failed_job_comes_again_after_its_backoff() -> None:
    engine = MemoryEngine()
    await started(engine)
    job = await the_job(engine)
    await engine.fail(job.key, retries=2, message="away", backoff_ms=1000)
    assert await polled(engine) == []
    with pytest.raises(JobNotActive):
        await engine.complete(job.key, NO_RESULT)
    engine.advance(1)

    assert (await the_job(engine)).retries == 2
    assert engine.jobs[job.key].messages == ["away"]


@pytest.mark.req("FAIL-08")
async def test_a_job_without_retries_is_an_incident_until_somebody_resolves_it() -> None:
    engine = MemoryEngine()
    await started(engine)
    job = await the_job(engine)
    await engine.fail(job.key, retries=0, message="wrong")
    engine.advance(3600)
    assert await polled(engine) == []
    with pytest.raises(JobNotActive):
        await engine.complete(job.key, NO_RESULT)
    await engine.release(job.key, retries=7)

    assert (await the_job(engine)).retries == 7


async def test_a_thrown_error_ends_a_job() -> None:
    engine = MemoryEngine()
    await started(engine)
    job = await the_job(engine)
    await engine.throw(job.key, code="NO", message="closed")

    assert (engine.jobs[job.key].state, engine.jobs[job.key].error_code) == (JobState.THROWN, "NO")


async def test_an_activation_ends_when_it_was_last_told_to() -> None:
    engine = MemoryEngine()
    await started(engine)
    job = await the_job(engine)
    await engine.extend(job.key, 120_000)
    engine.advance(119)
    assert await polled(engine) == []
    engine.advance(1)
    with pytest.raises(JobNotActive):
        await engine.extend(job.key, 1000)

    assert (await the_job(engine)).key == job.key


async def test_the_jobs_of_a_cancelled_instance_are_gone() -> None:
    engine = MemoryEngine()
    instance = await started(engine)
    job = await the_job(engine)
    await engine.cancel(instance)

    with pytest.raises(JobGone):
        await engine.complete(job.key, NO_RESULT)
    with pytest.raises(JobGone):
        await engine.cancel(instance + 1000)


async def test_what_it_cannot_do_it_says() -> None:
    engine = MemoryEngine()

    with pytest.raises(CommandInvalid):
        await engine.start(Start("nowhere", {}))
    with pytest.raises(CommandInvalid):
        await engine.deploy([Resource("a.bpmn", b"")])
    async with engine as opened:
        assert (await opened.facts()).version == "memory"
        await opened.publish(Signal("m", "k", "id", 0, {}))


# ---- misbehaving ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "error", "state"),
    [
        ("drop", EngineUnavailable, JobState.ACTIVATED),
        ("refuse", Backpressure, JobState.ACTIVATED),
        ("lose_answer", EngineUnavailable, JobState.COMPLETED),
    ],
)
async def test_a_command_misbehaves_as_often_as_it_was_told(
    trouble: str, error: type[Exception], state: JobState
) -> None:
    engine = MemoryEngine()
    await started(engine)
    job = await the_job(engine)
    getattr(engine, trouble)("complete")
    with pytest.raises(error):
        await engine.complete(job.key, NO_RESULT)
    after = engine.jobs[job.key].state
    if after is JobState.ACTIVATED:
        await engine.complete(job.key, NO_RESULT)

    assert (after, engine.jobs[job.key].state) == (state, JobState.COMPLETED)


async def test_trouble_with_polls_is_none_with_streams() -> None:
    engine = MemoryEngine()
    engine.refuse("activate")
    stream = engine.stream(ASK)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(anext(stream))
        await turns()
        await started(engine)

    job: Any = reading.result()
    assert job.type == "a.one"
    with pytest.raises(Backpressure):
        await polled(engine)


async def test_a_cancelled_instance_has_an_end_only_if_it_went_through_its_line() -> None:
    engine = MemoryEngine()
    instance = await started(engine)
    await engine.cancel(instance)

    assert not engine.has_ended(instance)


async def test_an_instance_is_alive_until_it_is_through_or_cancelled() -> None:
    engine = MemoryEngine()
    through, cancelled = await started(engine, "a.one"), await started(engine, "a.one")
    before = [await engine.alive(key) for key in (through, cancelled)]
    (job,) = await polled(engine, limit=1)
    await engine.complete(job.key, NO_RESULT)
    await engine.cancel(cancelled)

    assert before == [True, True]
    assert [await engine.alive(key) for key in (through, cancelled, 1)] == [False, False, False]
