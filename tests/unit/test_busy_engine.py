"""Many feeds against an engine that is too busy: their polls must not be what keeps it busy."""

import asyncio
from collections import deque
from itertools import count

import pytest

from tests.support.virtual_time import virtual_time
from verbworker.engine.protocol import Ask
from verbworker.errors import Backpressure
from verbworker.job.job import Job
from verbworker.testing.memory import MemoryEngine
from verbworker.work.feeds.feed import Feed
from verbworker.work.feeds.poll_retries import PollRetries
from verbworker.work.feeds.slots import Slots

PROCESSES = 4
VERBS = 36
CAPACITY = 60
"""Polls per second that the engine can take in all; refusing one costs it as much as answering one."""
WAIT_MS = 5_000


class StarvedEngine(MemoryEngine):
    """An engine that refuses every poll while more arrive than it can handle."""

    def __init__(self) -> None:
        super().__init__()
        self.capacity = CAPACITY
        self.answered: dict[str, int] = {}
        self.arrivals: deque[float] = deque()
        self.rates: list[int] = []

    async def activate(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        now = asyncio.get_running_loop().time()
        self.arrivals.append(now)
        while self.arrivals[0] < now - 1:
            self.arrivals.popleft()
        self.rates.append(len(self.arrivals))
        if len(self.arrivals) > self.capacity:
            raise Backpressure("too busy")
        await asyncio.sleep(wait_ms / 1000)
        self.answered[ask.type] = self.answered.get(ask.type, 0) + 1
        return []


def feeds_of(engine: MemoryEngine, process: int) -> list[Feed]:
    retries = PollRetries()
    asks = [Ask(f"{process}.verb-{number}", "tests", 60_000, ()) for number in range(VERBS)]
    return [
        Feed(
            engine,
            ask,
            Slots(ask.type, 8),
            lambda job, slot: None,
            wait_ms=WAIT_MS,
            streaming=False,
            retries=retries,
        )
        for ask in asks
    ]


@virtual_time
async def test_an_engine_that_is_too_busy_is_not_kept_busy_by_polls() -> None:
    engine = StarvedEngine()
    feeds = [feed for process in range(PROCESSES) for feed in feeds_of(engine, process)]
    async with asyncio.TaskGroup() as tasks:
        for feed in feeds:
            tasks.create_task(feed.run())
        await asyncio.sleep(90)
        for feed in feeds:
            feed.stop()

    assert len(engine.answered) == PROCESSES * VERBS, "some verbs got no answer at all"


@virtual_time
async def test_polls_come_back_soon_after_the_engine_recovers() -> None:
    engine = StarvedEngine()
    engine.capacity = 0
    feeds = feeds_of(engine, 0)
    async with asyncio.TaskGroup() as tasks:
        for feed in feeds:
            tasks.create_task(feed.run())
        await asyncio.sleep(120)
        slowest = engine.rates[-1]
        engine.capacity = CAPACITY
        await asyncio.sleep(25)
        for feed in feeds:
            feed.stop()

    assert slowest <= 3
    assert len(engine.answered) == VERBS


def test_a_moment_of_backpressure_costs_less_than_a_second() -> None:
    retries = PollRetries()

    delays = [retries.schedule(now=100.0 + number / 1000) for number in range(VERBS)]

    assert max(delays) < 1.0


def test_refusals_slow_the_polls_of_a_process_down_and_answers_speed_them_up() -> None:
    retries, times = PollRetries(), count(100)
    for _ in range(20):
        retries.schedule(now=float(next(times)))
    at = float(next(times)) + 100

    slow = retries.schedule(now=at), retries.schedule(now=at)
    for _ in range(100):
        retries.note_answer()
    quick = retries.schedule(now=at + 50), retries.schedule(now=at + 50)

    assert slow[1] - slow[0] == pytest.approx(0.5)
    assert quick[1] - quick[0] < 0.06
