"""A broker that is busy, paused, killed and back again, seen through our engine."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from tests.support.engines import RestPlace
from tests.support.errors import Unavailable
from tests.support.refusal import refuse
from tests.support.zeebe import Broker
from tests.support.zeebe_engine import Bench, outcome, until_it_works, zeebe
from tests.support.zeebe_models import sequence
from verbworker.engine.protocol import Interruptible
from verbworker.errors import Backpressure, EngineError, EngineUnavailable, JobGone
from verbworker.job.job import Job
from verbworker.job.outcome import NO_RESULT

pytestmark = pytest.mark.zeebe
WAYS = ("grpc", "rest")
_MOST_BURSTS = 10  # of 100 starts each; one is enough where the client gets its time
by_grpc = pytest.mark.parametrize("way", ["grpc"])  # REST has no streams


@pytest.fixture(scope="module")
def fragile() -> Iterator[Broker]:
    """A broker that these tests may hurt."""
    yield from _broker({})


@pytest.fixture(scope="module")
def narrow() -> Iterator[Broker]:
    """A broker that takes one command at a time."""
    yield from _broker({"ZEEBE_BROKER_BACKPRESSURE_ALGORITHM": "fixed", "ZEEBE_BROKER_BACKPRESSURE_FIXED_LIMIT": "1"})


def _broker(environment: dict[str, str]) -> Iterator[Broker]:
    broker = Broker(environment=environment)
    try:
        broker.start()
    except Unavailable as reason:
        refuse(reason)
    yield broker
    broker.stop()


def address_of(broker: Broker, way: str) -> str:
    return RestPlace(broker).address if way == "rest" else broker.address


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """How commands travel."""
    name: str = request.param
    return name


@pytest.fixture
async def bench(fragile: Broker, way: str, unique: Callable[[str], str]) -> AsyncIterator[Bench]:
    async with zeebe(address_of(fragile, way)) as engine:
        bench = Bench(engine, unique("case"), unique("kyc.check"))
        await bench.deploy(sequence(bench.process, bench.job_type))
        yield bench


@pytest.mark.req("FAIL-06")
async def test_a_busy_broker_asks_for_less_and_still_takes_completions(
    narrow: Broker, way: str, unique: Callable[[str], str]
) -> None:
    async with zeebe(address_of(narrow, way)) as engine:
        bench = Bench(engine, unique("case"), unique("kyc.check"))
        job = await bench.running(sequence(bench.process, bench.job_type))
        for _ in range(_MOST_BURSTS):
            async with asyncio.TaskGroup() as tasks:
                starts = [tasks.create_task(outcome(bench.start())) for _ in range(100)]
                completed = tasks.create_task(outcome(engine.complete(job.key, NO_RESULT)))
            answers = {type(start.result()) for start in starts if isinstance(start.result(), EngineError)}
            if Backpressure in answers:
                break
            # On a busy machine this client may be too slow to overload the broker, or wait too long for it: again.
            await until_it_works(bench.start)
            job = await bench.take()

    assert Backpressure in answers <= {Backpressure, EngineUnavailable}
    assert completed.result() is None


async def test_a_paused_broker_is_unavailable_and_takes_the_same_command_later(bench: Bench, fragile: Broker) -> None:
    await bench.start()
    job = await bench.take()
    await asyncio.to_thread(fragile.pause)
    with pytest.raises(EngineUnavailable):
        await bench.engine.complete(job.key, NO_RESULT)
    await asyncio.to_thread(fragile.resume)

    await until_it_works(lambda: bench.engine.complete(job.key, NO_RESULT))
    with pytest.raises(JobGone):
        await bench.engine.complete(job.key, NO_RESULT)


async def test_a_killed_broker_ends_a_poll_and_the_same_engine_goes_on_when_it_is_back(
    bench: Bench, fragile: Broker
) -> None:
    async with asyncio.TaskGroup() as tasks:
        poll = tasks.create_task(outcome(bench.engine.activate(bench.ask(), 1, 60_000)))
        await bench.engine.facts()
        await asyncio.to_thread(fragile.kill)
    with pytest.raises(EngineUnavailable):
        await bench.engine.facts()
    await asyncio.to_thread(fragile.start)
    await until_it_works(bench.start)

    assert isinstance(poll.result(), EngineUnavailable)
    assert (await bench.take()).process_id == bench.process


@by_grpc
async def test_a_killed_broker_ends_a_stream_too(bench: Bench, fragile: Broker) -> None:
    async with asyncio.TaskGroup() as tasks:
        read = tasks.create_task(outcome(anext(bench.engine.stream(bench.ask()))))
        await bench.engine.facts()
        await asyncio.to_thread(fragile.restart)

    assert isinstance(read.result(), EngineUnavailable)


async def test_a_frozen_broker_costs_a_deadline_and_no_more(fragile: Broker, way: str) -> None:
    async with zeebe(address_of(fragile, way), call_timeout_s=1.0) as engine:
        await until_it_works(engine.facts)
        os.kill(fragile.pid, signal.SIGSTOP)
        try:
            with pytest.raises(EngineUnavailable, match=r"DEADLINE_EXCEEDED|did not answer in time"):
                await engine.facts()
        finally:
            os.kill(fragile.pid, signal.SIGCONT)

        assert (await until_it_works(engine.facts)).partitions == 1


@by_grpc
async def test_connections_that_another_thread_cuts_end_every_call_and_are_made_anew(bench: Bench) -> None:
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        stream = tasks.create_task(outcome(_next(bench.engine.stream(bench.ask()))))
        poll = tasks.create_task(outcome(bench.engine.activate(bench.ask(), 1, 50_000)))
        await until_it_works(bench.engine.facts)
        assert isinstance(bench.engine, Interruptible)
        cut = await asyncio.to_thread(bench.engine.interrupt)
        ended = [await stream, await poll]
    started = await bench.start()

    assert cut >= 1
    assert [type(one) for one in ended] == [EngineUnavailable, EngineUnavailable]
    assert await bench.engine.alive(started.instance_key)


async def _next(jobs: AsyncIterator[Job]) -> Job:
    return await anext(jobs)
