"""Activations on virtual time: quick jobs cost no command, slow ones are extended once, in time, claimed or not."""

import asyncio
from dataclasses import dataclass, field

import pytest

from tests.support.virtual_time import virtual_time
from verbworker.errors import EngineError, EngineUnavailable, JobGone, JobNotActive
from verbworker.job.job import Job
from verbworker.work.feeds.leases import FIRST_TIMEOUT_MS, Activations, first_timeout_ms

FULL_MS = 60_000


@dataclass(slots=True)
class Extensions:
    """An engine that hears of extensions, and fails as it is told."""

    heard: list[tuple[float, int, int]] = field(default_factory=list)
    errors: list[EngineError] = field(default_factory=list)
    answer: asyncio.Event | None = None

    async def extend(self, job_key: int, timeout_ms: int, *, lease_token: str | None = None) -> None:
        if self.answer is not None:
            await self.answer.wait()
        if self.errors:
            raise self.errors.pop(0)
        self.heard.append((asyncio.get_running_loop().time(), job_key, timeout_ms))


def job_of(key: int = 1, timeout_ms: int = FULL_MS) -> Job:
    return Job(key, "kyc.check", 3, 0, timeout_ms, 1, 1, 1, 1, "kyc", "check", "acme")


async def work(activations: Activations, seconds: float, key: int = 1, timeout_ms: int = FULL_MS) -> None:
    with activations.held(job_of(key, timeout_ms)):
        await asyncio.sleep(seconds)


async def play(engine: Extensions, *seconds: float, timeout_ms: int = FULL_MS) -> None:
    activations = Activations(engine)
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(activations.service.run())
        async with asyncio.TaskGroup() as jobs:
            for key, duration in enumerate(seconds):
                jobs.create_task(work(activations, duration, key, timeout_ms))
        keeping.cancel()


@virtual_time
async def test_quick_jobs_cost_no_command() -> None:
    engine = Extensions()
    await play(engine, *[0.01, 0.5, 1.0, 1.9] * 100)

    assert engine.heard == []


@virtual_time
async def test_a_slow_job_gets_its_whole_timeout_once_and_well_before_the_first_is_over() -> None:
    engine = Extensions()
    await play(engine, 50)
    ((at, key, timeout_ms),) = engine.heard

    assert (key, timeout_ms) == (0, FULL_MS)
    assert at * 1000 <= FIRST_TIMEOUT_MS / 2


@virtual_time
async def test_a_timeout_that_is_shorter_than_the_first_is_extended_in_time_too() -> None:
    engine = Extensions()
    await play(engine, 50, timeout_ms=2_000)

    assert first_timeout_ms(2_000) == 2_000
    assert [(key, timeout_ms) for _, key, timeout_ms in engine.heard] == [(0, 2_000)]
    assert engine.heard[0][0] < 1.5


@virtual_time
async def test_an_engine_that_is_away_is_asked_again_while_the_job_lasts() -> None:
    engine = Extensions(errors=[EngineUnavailable("away")] * 3)
    await play(engine, 10)
    kept = len(engine.heard)
    engine.errors = [EngineUnavailable("away")] * 1000
    await play(engine, 10)

    assert kept == 1
    assert len(engine.heard) == 1


@pytest.mark.parametrize("error", [JobGone("gone"), JobNotActive("timed out")])
def test_a_job_that_the_engine_does_not_keep_any_more_is_not_asked_for_again(error: EngineError) -> None:
    @virtual_time
    async def run() -> None:
        engine = Extensions(errors=[error])
        await play(engine, 30)

        assert engine.heard == []
        assert engine.errors == []

    run()


@virtual_time
async def test_an_engine_that_does_not_answer_keeps_no_other_job_from_its_extension() -> None:
    engine = Extensions(answer=asyncio.Event())
    activations = Activations(engine)
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(activations.service.run())
        ended = tasks.create_task(work(activations, 10, key=1))
        late = tasks.create_task(work(activations, 100, key=2))
        await ended
        assert engine.answer is not None
        engine.answer.set()
        await asyncio.sleep(1)
        heard = {key for _, key, _ in engine.heard}
        await late
        keeping.cancel()

    assert 2 in heard
