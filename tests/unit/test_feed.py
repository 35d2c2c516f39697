"""The feed of one verb on an engine in memory: whatever may be pushed, polling never stops."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

from verbworker.engine import Ask, Start
from verbworker.job import Job
from verbworker.testing.memory import MemoryEngine
from verbworker.work.feed import Feed
from verbworker.work.slots import Slots

_PATIENCE = 20.0
_ASK = Ask(type="kyc.check", worker="tests", timeout_ms=60_000, variables=())


class QuietEngine(MemoryEngine):
    """An engine that would push, but has nothing new: what it has must be asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.line("kyc", ["kyc.check"])
        self.polled = asyncio.Semaphore(0)

    async def stream(self, ask: Ask) -> AsyncGenerator[Job, None]:
        await asyncio.Event().wait()
        async for job in super().stream(ask):
            yield job

    async def activate(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        self.polled.release()
        await asyncio.sleep(0.01)
        return await super().activate(ask, limit, wait_ms)


@asynccontextmanager
async def _feeding(engine: QuietEngine, concurrency: int) -> AsyncIterator["asyncio.Queue[Job]"]:
    taken: asyncio.Queue[Job] = asyncio.Queue()
    feed = Feed(engine, _ASK, Slots("kyc.check", concurrency), taken.put_nowait, wait_ms=0, streaming=True)
    async with asyncio.timeout(_PATIENCE), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(feed.run())
        yield taken
        running.cancel()


@pytest.mark.req("JOB-01")
async def test_a_verb_with_a_single_place_is_polled_for() -> None:
    engine = QuietEngine()
    async with _feeding(engine, concurrency=1) as taken:
        for _ in range(5):
            await engine.polled.acquire()
        await engine.start(Start("kyc", {}))

        assert (await taken.get()).type == "kyc.check"


@pytest.mark.req("FAIL-06")
async def test_an_engine_that_asked_for_less_is_polled_again() -> None:
    engine = QuietEngine()
    engine.refuse("activate")  # of two places one is left
    async with _feeding(engine, concurrency=2) as taken:
        for _ in range(3):
            await engine.polled.acquire()
        await engine.start(Start("kyc", {}))

        assert (await taken.get()).type == "kyc.check"


class BriskEngine(QuietEngine):
    """An engine that ends every stream as soon as it is opened, without a complaint."""

    def __init__(self) -> None:
        super().__init__()
        self.streams = 0

    async def stream(self, ask: Ask) -> AsyncGenerator[Job, None]:
        self.streams += 1
        for job in await self.activate(ask, 0, 0):
            yield job


async def test_streams_that_end_at_once_are_not_opened_in_a_hurry() -> None:
    engine = BriskEngine()
    async with _feeding(engine, concurrency=8):
        for _ in range(60):
            await engine.polled.acquire()

    assert engine.streams < 20
