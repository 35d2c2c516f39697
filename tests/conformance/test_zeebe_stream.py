"""Jobs that the gateway pushes: at once, at the reader's pace, and given back when nobody reads them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import pytest

from tests.support.engines import Gateway
from tests.support.zeebe_engine import Bench, until_it_works, zeebe
from tests.support.zeebe_models import sequence
from verbworker.errors import JobGone
from verbworker.job.job import Job
from verbworker.job.outcome import NO_RESULT

CROWD = 120
PAYLOAD = "x" * 2_000


@pytest.fixture
async def bench(gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[Bench]:
    async with zeebe(gateway.address) as engine:
        bench = Bench(engine, unique("case"), unique("kyc.check"))
        await bench.deploy(sequence(bench.process, bench.job_type))
        yield bench


@pytest.fixture
async def crowd(broker: Gateway, unique: Callable[[str], str]) -> AsyncIterator[Bench]:
    """The same on the broker alone: test engines have no flow control to speak of."""
    async with zeebe(broker.address) as engine:
        bench = Bench(engine, unique("case"), unique("kyc.check"))
        await bench.deploy(sequence(bench.process, bench.job_type))
        yield bench


async def first_of_many(crowd: Bench, jobs: AsyncIterator[Job]) -> Job:
    """Have a stream meet a crowd of jobs and read one of them."""
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(_next(jobs))
        for _ in range(CROWD):
            await until_it_works(lambda: crowd.start({"domain_payload": PAYLOAD}))
    return first.result()


async def _next(jobs: AsyncIterator[Job]) -> Job:
    return await anext(jobs)


async def test_a_job_is_pushed_to_whoever_listens(bench: Bench) -> None:
    jobs = bench.engine.stream(bench.ask(variables=("orch_ok",)))
    async with aclosing(jobs), asyncio.TaskGroup() as tasks:
        pushed = tasks.create_task(_next(jobs))
        started = await _start_until(bench, pushed)

    job = pushed.result()
    assert job.process_instance_key in started
    assert (job.variables, job.headers, job.timeout_ms) == ({"orch_ok": True}, {"team": "v"}, 60_000)


async def test_a_pushed_job_is_completed_like_any_other(bench: Bench) -> None:
    async with aclosing(bench.engine.stream(bench.ask())) as jobs:
        async with asyncio.TaskGroup() as tasks:
            pushed = tasks.create_task(_next(jobs))
            await _start_until(bench, pushed)
        await bench.engine.complete(pushed.result().key, NO_RESULT)

        with pytest.raises(JobGone):
            await bench.engine.complete(pushed.result().key, NO_RESULT)


@pytest.mark.zeebe
async def test_a_reader_who_stops_leaves_most_jobs_to_the_poll(crowd: Bench) -> None:
    async with aclosing(crowd.engine.stream(crowd.ask())) as jobs:
        await first_of_many(crowd, jobs)
        polled = await crowd.everything(CROWD)

    # What the gateway has put on the wire already is about 32 KiB here; gRPC's own defaults take them all.
    assert len(polled) > CROWD / 2


@pytest.mark.zeebe
async def test_a_closed_stream_gives_its_unread_jobs_back_at_no_cost(crowd: Bench) -> None:
    async with aclosing(crowd.engine.stream(crowd.ask())) as jobs:
        first = await first_of_many(crowd, jobs)
    left = await crowd.everything(CROWD - 1)

    assert len({job.key for job in left} - {first.key}) == CROWD - 1
    assert {job.retries for job in left} == {3}


async def _start_until(bench: Bench, pushed: "asyncio.Task[Job]") -> list[int]:
    """Start instances until one is pushed: only jobs that arise after the stream is known are."""
    started = []
    while not pushed.done():
        started.append((await bench.start({"orch_ok": True})).instance_key)
        await asyncio.wait({pushed}, timeout=0.2)
    return started
