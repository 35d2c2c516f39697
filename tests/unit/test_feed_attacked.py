"""A feed under attack: whatever is raised wherever, no slot is lost, no loop ends, and the next job is taken."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.virtual_time import VirtualLoop, virtual_time
from verbworker import metrics
from verbworker.engine.protocol import Ask, Start
from verbworker.errors import Backpressure, EngineUnavailable
from verbworker.job.job import Job
from verbworker.testing.memory import MemoryEngine
from verbworker.work.feeds.feed import Feed
from verbworker.work.feeds.slots import Slot, Slots
from verbworker.work.feeds.worker import start_in

VERB = "kyc.check"
ASK = Ask(type=VERB, worker="tests", timeout_ms=60_000, variables=())
PLACES = ("activate", "answered", "stream", "pushed", "closed", "start", "started", "job", "load")


def _never_raised(words: str) -> BaseException:
    """A group whose member has no traceback, as a library may build one."""
    return BaseExceptionGroup(words, [ZeroDivisionError(words)])


ERRORS: dict[str, Callable[[str], BaseException]] = {
    "away": EngineUnavailable,
    "busy": Backpressure,
    "bug": ZeroDivisionError,
    "cancelled": asyncio.CancelledError,
    "interrupt": KeyboardInterrupt,
    "exit": SystemExit,
    "group": _never_raised,
}
EXAMPLES = int(os.environ.get("VERBWORKER_FEED_EXAMPLES", "40"))
FATAL = (KeyboardInterrupt, SystemExit)


class Saboteur:
    """Raises what was planned when a place is reached for the planned time."""

    def __init__(self, plan: dict[tuple[str, int], str]) -> None:
        self._plan = plan
        self._times: dict[str, int] = {}
        self.strikes = 0

    def reach(self, place: str) -> None:
        self._times[place] = self._times.get(place, 0) + 1
        name = self._plan.get((place, self._times[place]))
        if name is not None:
            self.strikes += 1
            raise ERRORS[name](f"sabotaged at {place}")


class AttackedEngine(MemoryEngine):
    """An engine in memory that raises at every place where an engine can."""

    def __init__(self, saboteur: Saboteur) -> None:
        super().__init__()
        self.line("kyc", [VERB])
        self.saboteur = saboteur

    async def activate(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        self.saboteur.reach("activate")
        jobs = await super().activate(ask, limit, wait_ms)
        if jobs:
            self.saboteur.reach("answered")
        return jobs

    async def stream(self, ask: Ask) -> AsyncGenerator[Job, None]:
        self.saboteur.reach("stream")
        try:
            async for job in super().stream(ask):
                self.saboteur.reach("pushed")
                yield job
        finally:
            self.saboteur.reach("closed")


class Bench:
    """Feeds of one verb, one after the other on the same slots, as a worker starts their jobs."""

    def __init__(self, plan: dict[tuple[str, int], str], concurrency: int) -> None:
        self.saboteur = Saboteur(plan)
        self.engine = AttackedEngine(self.saboteur)
        self.slots = Slots(VERB, concurrency)
        self.done: list[int] = []
        self.running: set[asyncio.Task[None]] = set()

    async def feed(self, *, for_seconds: float, cancel: bool) -> None:
        """Run a feed, then stop or cancel it, and have every job end."""
        with suppress(*FATAL, asyncio.CancelledError):
            async with asyncio.TaskGroup() as jobs:
                feed = Feed(self.engine, ASK, self.slots, self._starter(jobs), wait_ms=1_000, streaming=True)
                self._sabotage_load(feed)
                task = jobs.create_task(feed.run())
                await asyncio.sleep(for_seconds)
                if cancel:
                    for one in (task, *self.running):
                        one.cancel()
                else:
                    feed.stop()

    def _sabotage_load(self, feed: Feed) -> None:
        choose = feed._choose

        def sabotaged() -> None:
            self.saboteur.reach("load")
            choose()

        feed._choose = sabotaged  # type: ignore[method-assign]  # the one way into this loop

    def _starter(self, jobs: asyncio.TaskGroup) -> Any:
        def start(job: Job, slot: Slot) -> None:
            self.saboteur.reach("start")
            task = start_in(slot, jobs, self._work(job))
            self.running.add(task)
            task.add_done_callback(self.running.discard)
            self.saboteur.reach("started")

        return start

    async def _work(self, job: Job) -> None:
        await asyncio.sleep(job.key % 7 / 10)
        try:
            self.saboteur.reach("job")
        except Exception:
            return  # as an executor, which never raises for a job's sake; the engine delivers it again
        self.done.append(job.key)


def drive(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in virtual time. What ends the process ends the loop too: then the loop is run once more."""
    loop = VirtualLoop()
    try:
        task = loop.create_task(coroutine)
        while not task.done():
            with suppress(*FATAL):
                loop.run_until_complete(task)
        task.result()
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


plans = st.dictionaries(
    st.tuples(st.sampled_from(PLACES), st.integers(1, 12)), st.sampled_from(sorted(ERRORS)), max_size=12
)
runs = st.lists(st.tuples(st.floats(0, 12), st.booleans()), min_size=1, max_size=3)


@settings(max_examples=EXAMPLES, deadline=None)
@given(plan=plans, runs=runs, concurrency=st.integers(1, 6))
def test_no_slot_is_ever_lost_and_the_feed_works_afterwards(
    plan: dict[tuple[str, int], str], runs: list[tuple[float, bool]], concurrency: int
) -> None:
    async def play() -> None:
        bench = Bench(plan, concurrency)
        for seconds, cancel in runs:
            for _ in range(5):
                await bench.engine.start(Start("kyc", {}))
            await bench.feed(for_seconds=seconds, cancel=cancel)

            assert bench.slots.free == bench.slots.room
            assert not bench.running

        bench.saboteur._plan.clear()
        bench.slots.note_answer(1_000)
        bench.slots.note_answer(1_000)
        assert bench.slots.free == concurrency
        bench.done.clear()
        await bench.engine.start(Start("kyc", {}))
        newest = max(bench.engine.jobs)
        await bench.feed(for_seconds=20, cancel=False)

        assert newest in bench.done
        assert bench.slots.free == concurrency

    logging.disable(logging.CRITICAL)
    try:
        drive(play())
    finally:
        logging.disable(logging.NOTSET)


# ---- loops that meet a bug -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "loop", "kind"),
    [
        ("activate", "poll", "bug"),
        ("activate", "poll", "cancelled"),  # not by us: a library let its own cancellation out
        ("stream", "stream", "bug"),
        ("pushed", "stream", "bug"),
        ("load", "load", "bug"),
        ("load", "load", "cancelled"),
    ],
)
def test_a_bug_in_a_loop_is_told_with_its_place_and_the_loop_goes_on(
    place: str, loop: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = type(ERRORS[kind]("")).__name__
    verb = {"verb": VERB, "loop": loop}

    def counted() -> float:
        return metrics.REGISTRY.get_sample_value("verbworker_feed_failures_total", verb) or 0.0

    @virtual_time
    async def play() -> None:
        bench = Bench({(place, time): kind for time in range(2, 5)}, 4)
        before = counted()
        async with asyncio.TaskGroup() as jobs:
            feed = Feed(bench.engine, ASK, bench.slots, bench._starter(jobs), wait_ms=1_000, streaming=True)
            bench._sabotage_load(feed)
            task = jobs.create_task(feed.run())
            seen: list[str] = []
            for _ in range(1200):
                await asyncio.sleep(0.1)
                seen += feed.troubles()
                if len(bench.engine.jobs) < 5:
                    await bench.engine.start(Start("kyc", {}))
            healed = feed.troubles()
            assert not task.done()
            feed.stop()

        assert counted() - before == 3
        assert f"{loop} of {VERB}: {name} at test_feed_attacked.py:" in seen[0]
        assert healed == []
        # What an engine drops after it was taken stays locked until its timeout, and time stands still here.
        assert len(bench.done) == len(bench.engine.jobs) - (3 if place == "pushed" else 0)

    play()

    record = next(record for record in caplog.records if "unexpected error" in record.getMessage())
    said: Any = record
    assert (said.verb, said.loop, said.error) == (VERB, loop, name)
    assert said.file == Path(__file__).name
    assert said.line > 0


@virtual_time
async def test_a_feed_that_is_cancelled_as_its_stream_is_refused_ends() -> None:
    bench = Bench({("stream", 1): "busy"}, 4)
    async with asyncio.timeout(3600):
        await bench.feed(for_seconds=1e-38, cancel=True)

    assert bench.slots.free == 4


@virtual_time
async def test_an_error_that_was_never_raised_ends_no_loop_either() -> None:
    bench = Bench({("activate", 2): "group"}, 4)
    async with asyncio.TaskGroup() as jobs:
        feed = Feed(bench.engine, ASK, bench.slots, bench._starter(jobs), wait_ms=1_000, streaming=False)
        task = jobs.create_task(feed.run())
        await asyncio.sleep(1.1)
        troubles = feed.troubles()
        await asyncio.sleep(30)
        assert not task.done()
        feed.stop()

    assert troubles == [f"poll of {VERB}: ZeroDivisionError at ?:0"]


def test_a_job_that_cannot_be_started_keeps_no_slot_and_no_other_job_from_starting() -> None:
    @virtual_time
    async def play() -> None:
        bench = Bench({("start", 2): "bug"}, 4)
        for _ in range(4):
            await bench.engine.start(Start("kyc", {}))
        await bench.feed(for_seconds=3, cancel=False)

        assert len(bench.done) == 3
        assert bench.slots.free == 4

    play()


@virtual_time
async def test_a_job_that_is_cancelled_before_its_first_step_gives_its_slot_back() -> None:
    slots = Slots(VERB, 1)

    async def work() -> None:
        raise AssertionError("it never began")

    async with asyncio.TaskGroup() as jobs:
        with await slots.reserve(most=1) as reservation:
            start_in(reservation.assign(), jobs, work()).cancel()

    assert slots.free == 1
