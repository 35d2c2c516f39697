"""The feed of one verb on an engine in memory: never more than there are slots, and polling never stops."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.support.virtual_time import turns, virtual_time
from verbworker import metrics
from verbworker.engine.protocol import Ask, Start
from verbworker.errors import AccessDenied, AnswerTooLarge, EngineError, EngineUnavailable
from verbworker.job.job import Job
from verbworker.testing.memory import MemoryEngine
from verbworker.work.feeds.feed import Feed
from verbworker.work.feeds.leases import FIRST_TIMEOUT_MS
from verbworker.work.feeds.slots import Slot, Slots

VERB = "kyc.check"
ASK = Ask(type=VERB, worker="tests", timeout_ms=60_000, variables=())
LONGEST_UNRENEWED = 10
"""The lifetime of a stream of Zeebe in seconds: whoever reads one must have opened the next by then."""


class WatchedEngine(MemoryEngine):
    """An engine in memory that fails as it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.line("kyc", [VERB])
        self.asks: list[int] = []
        self.asked_at: list[float] = []
        self.errors: list[EngineError] = []
        self.broken_streams = 0
        self.streams = 0
        self.open_streams = 0
        self.kept: list[AsyncGenerator[Job, None]] = []
        self.answers_at_once = False
        self.ways: dict[int, list[str]] = defaultdict(list)
        self.timeouts: set[int] = set()
        self.polled = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def offer(self, count: int = 1) -> None:
        """Start instances, each with one job."""
        for _ in range(count):
            await self.start(Start("kyc", {}))

    async def activate(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        self.asks.append(limit)
        self.polled.set()
        self.asked_at.append(asyncio.get_running_loop().time())
        await self.may_answer.wait()
        if self.errors:
            raise self.errors.pop(0)
        jobs = await super().activate(ask, limit, 0 if self.answers_at_once else wait_ms)
        for job in jobs:
            self.ways[job.key].append("poll")
            self.timeouts.add(job.timeout_ms)
        return jobs

    def stream(self, ask: Ask) -> AsyncGenerator[Job, None]:
        # Kept, because a stream that nobody holds any more is closed by Python itself.
        self.kept.append(self._stream(ask))
        return self.kept[-1]

    async def _stream(self, ask: Ask) -> AsyncGenerator[Job, None]:
        self.streams += 1
        if self.broken_streams:
            self.broken_streams -= 1
            raise EngineUnavailable("no stream today")
        self.open_streams += 1
        try:
            async for job in super().stream(ask):
                self.ways[job.key].append("push")
                self.timeouts.add(job.timeout_ms)
                yield job
        finally:
            self.open_streams -= 1


@dataclass(slots=True)
class Feeding:
    """A running feed and everything a test wants to see of it."""

    engine: WatchedEngine
    slots: Slots
    feed: Feed
    task: "asyncio.Task[None]"
    jobs: "asyncio.Queue[tuple[Job, Slot]]" = field(default_factory=asyncio.Queue)
    held: list[Slot] = field(default_factory=list)

    async def take(self, count: int) -> list[Job]:
        """Jobs as they are handed over; they keep their slots."""
        taken = [await self.jobs.get() for _ in range(count)]
        self.held += [slot for _, slot in taken]
        return [job for job, _ in taken]

    def finish(self, count: int) -> None:
        """Jobs that were taken are done."""
        for _ in range(count):
            self.held.pop().release()

    async def work_off(self, count: int) -> list[Job]:
        """Jobs as they are handed over; each is done at once."""
        done = []
        for _ in range(count):
            job, slot = await self.jobs.get()
            done.append(job)
            slot.release()
        return done


@asynccontextmanager
async def feeding(
    engine: WatchedEngine, concurrency: int = 8, *, streaming: bool = False, wait_ms: int = 5_000
) -> AsyncIterator[Feeding]:
    slots = Slots(VERB, concurrency)
    jobs: asyncio.Queue[tuple[Job, Slot]] = asyncio.Queue()
    feed = Feed(engine, ASK, slots, lambda *given: jobs.put_nowait(given), wait_ms=wait_ms, streaming=streaming)
    async with asyncio.timeout(86_400), asyncio.TaskGroup() as tasks:
        running = Feeding(engine, slots, feed, tasks.create_task(feed.run()), jobs)
        yield running
        feed.stop()


async def asked(engine: WatchedEngine, times: int) -> None:
    """Return when the engine was polled so often."""
    while len(engine.asks) < times:
        engine.polled.clear()
        await engine.polled.wait()


async def seconds(count: float) -> None:
    """Let virtual time pass, which takes none."""
    await asyncio.sleep(count)


def now() -> float:
    return asyncio.get_running_loop().time()


# ---- what polls tell of the engine's queue ---------------------------------------------------------------------


@virtual_time
async def test_a_feed_is_caught_up_for_as_long_as_polls_are_answered() -> None:
    engine = WatchedEngine()
    async with feeding(engine) as running:
        before = running.feed.caught_up_for(now())
        await seconds(100)

        assert before == 0.0
        assert 90 <= running.feed.caught_up_for(now()) <= 100


@virtual_time
async def test_a_feed_whose_slots_are_all_at_work_is_not_caught_up() -> None:
    engine = WatchedEngine()
    await engine.offer(9)
    async with feeding(engine, 8) as running:
        await running.take(8)
        await seconds(100)
        busy = running.feed.caught_up_for(now())
        running.finish(8)
        await running.take(1)
        await seconds(10)

        assert (busy, running.feed.caught_up_for(now()) > 100) == (0.0, True)


@virtual_time
async def test_a_feed_begins_anew_after_a_poll_that_failed() -> None:
    engine = WatchedEngine()
    async with feeding(engine) as running:
        await seconds(100)
        engine.errors.append(EngineUnavailable("away"))
        await seconds(20)

        assert 0 < running.feed.caught_up_for(now()) <= 20


# ---- pull ----------------------------------------------------------------------------------------------------------


@virtual_time
async def test_no_more_jobs_are_taken_than_there_are_slots() -> None:
    engine = WatchedEngine()
    await engine.offer(20)
    async with feeding(engine, 5) as running:
        await running.take(5)
        await seconds(60)
        assert running.jobs.empty()
        running.finish(2)
        await running.take(2)
        await seconds(60)

        assert running.jobs.empty()
        assert engine.asks == [5, 2]


@virtual_time
async def test_slots_that_a_poll_did_not_fill_are_free_again() -> None:
    engine = WatchedEngine()
    await engine.offer(3)
    async with feeding(engine, 8) as running:
        await running.take(3)
        await turns()

        assert engine.asks == [8, 5]
        assert (running.slots.room, running.slots.free) == (5, 0)


@pytest.mark.req("FAIL-06")
@virtual_time
async def test_an_engine_that_is_too_busy_is_asked_for_less_and_later_for_more() -> None:
    engine = WatchedEngine()
    engine.refuse("activate", 3)
    async with feeding(engine, 8, wait_ms=1000) as running:
        await asked(engine, 4)
        fallen = engine.asks[:4]
        for _ in range(40):
            await engine.offer()
            await running.work_off(1)
        await asked(engine, len(engine.asks) + 1)

    assert fallen == [8, 4, 2, 1]
    assert engine.asks[-1] > 4


@pytest.mark.req("FAIL-06")
@virtual_time
async def test_a_busy_engine_is_left_alone_for_longer_and_longer() -> None:
    engine = WatchedEngine()
    engine.refuse("activate", 20)
    async with feeding(engine):
        await asked(engine, 21)
    pauses = [after - before for before, after in zip(engine.asked_at, engine.asked_at[1:], strict=False)]

    assert 0.05 <= pauses[0] < pauses[2]
    assert 0.49 <= pauses[-1] <= max(pauses) <= 1.01


@virtual_time
async def test_answers_that_are_too_large_are_asked_for_one_by_one() -> None:
    engine = WatchedEngine()
    engine.errors = [AnswerTooLarge("4 MiB")]
    await engine.offer(3)
    async with feeding(engine) as running:
        await running.take(3)
        await turns()

        assert engine.asks == [8, 1, 1, 1, 1]


@pytest.mark.req("ADP-04")
@pytest.mark.parametrize("error", [EngineUnavailable("away"), AccessDenied("no"), EngineError("odd")])
def test_an_engine_that_is_away_for_hours_is_asked_again_until_it_answers(error: EngineError) -> None:
    @virtual_time
    async def play() -> None:
        engine = WatchedEngine()
        engine.errors = [error] * 200
        await engine.offer()
        async with feeding(engine, 4) as running:
            (job,) = await running.take(1)

            assert job.type == VERB
            assert len(engine.asks) >= 201
            assert running.slots.room >= 0
            assert not running.task.done()

    play()


@virtual_time
async def test_the_pause_after_failures_begins_anew_after_a_success() -> None:
    engine = WatchedEngine()
    engine.errors = [EngineUnavailable("away")] * 20
    await engine.offer()
    async with feeding(engine) as running:
        await running.take(1)
        engine.errors = [EngineUnavailable("again")]
        await asked(engine, 24)

    assert engine.asked_at[-1] - engine.asked_at[-2] < 0.2


@virtual_time
async def test_a_gateway_that_answers_at_once_with_nothing_is_not_asked_all_the_time() -> None:
    engine = WatchedEngine()
    engine.answers_at_once = True
    async with feeding(engine):
        await seconds(60)

    assert 60 < len(engine.asks) < 400


@virtual_time
async def test_a_gateway_that_answers_at_once_with_jobs_is_asked_again_at_once() -> None:
    engine = WatchedEngine()
    engine.answers_at_once = True
    await engine.offer(50)
    async with feeding(engine, 2) as running:
        await running.work_off(50)

        assert now() < 1


@virtual_time
async def test_a_job_is_asked_for_with_a_short_timeout_and_handed_over_with_its_own() -> None:
    engine = WatchedEngine()
    async with feeding(engine, streaming=True) as running:
        await seconds(1)
        await engine.offer()
        (pushed,) = await running.take(1)
        engine.time_out(pushed.key)
        (polled,) = await running.take(1)

        assert engine.ways[pushed.key] == ["push", "poll"]
        assert engine.timeouts == {FIRST_TIMEOUT_MS}
        assert (pushed.timeout_ms, polled.timeout_ms) == (ASK.timeout_ms, ASK.timeout_ms)


# ---- silence -------------------------------------------------------------------------------------------------------


@virtual_time
async def test_a_feed_that_never_heard_from_the_engine_has_been_silent_for_ever() -> None:
    feed = Feed(WatchedEngine(), ASK, Slots(VERB, 2), lambda job, slot: None, wait_ms=1000, streaming=False)

    assert feed.silence(now()) == float("inf")


@virtual_time
async def test_an_engine_that_answers_with_nothing_is_not_silent() -> None:
    async with feeding(WatchedEngine(), wait_ms=5_000) as running:
        await seconds(600)

        assert running.feed.silence(now()) <= 5


@virtual_time
async def test_an_engine_that_does_not_answer_is_silent_for_longer_and_longer() -> None:
    engine = WatchedEngine()
    engine.may_answer.clear()
    async with feeding(engine) as running:
        await seconds(600)
        waiting = running.feed.silence(now())
        engine.errors = [EngineUnavailable("away")] * 1000
        engine.may_answer.set()
        await seconds(600)
        failing = running.feed.silence(now())
        engine.errors = []
        await seconds(60)

        assert waiting == pytest.approx(600)
        assert failing == pytest.approx(1200)
        assert running.feed.silence(now()) <= 5


@virtual_time
async def test_a_feed_whose_slots_are_all_at_work_is_not_silent() -> None:
    engine = WatchedEngine()
    await engine.offer(2)
    async with feeding(engine, 2) as running:
        await running.take(2)
        await seconds(3000)
        busy = running.feed.silence(now())
        running.finish(2)
        await turns()

        assert busy == 0
        assert running.feed.silence(now()) == 0


# ---- the end -------------------------------------------------------------------------------------------------------


@virtual_time
async def test_stopping_waits_for_the_poll_under_way_and_hands_over_what_it_brings() -> None:
    engine = WatchedEngine()
    await engine.offer(2)
    engine.may_answer.clear()
    async with feeding(engine, 8) as running:
        await asked(engine, 1)
        running.feed.stop()
        await seconds(60)
        assert not running.task.done()
        engine.may_answer.set()
        await running.task

        assert running.jobs.qsize() == 2
        assert running.slots.free == 6
        assert len(engine.asks) == 1


@virtual_time
async def test_stopping_while_a_poll_fails_gives_every_slot_back() -> None:
    engine = WatchedEngine()
    engine.errors = [EngineUnavailable("away")]
    engine.may_answer.clear()
    async with feeding(engine, 8) as running:
        await asked(engine, 1)
        before = now()
        running.feed.stop()
        await turns()
        engine.may_answer.set()
        await running.task

        assert running.slots.free == 8
        assert now() == before


@virtual_time
async def test_stopping_while_every_slot_is_taken_ends_at_once() -> None:
    engine = WatchedEngine()
    await engine.offer(2)
    async with feeding(engine, 2) as running:
        await running.take(2)
        await turns()
        before = now()
        running.feed.stop()
        await running.task

        assert now() == before
        assert running.slots.free == 0


@virtual_time
async def test_stopping_during_a_pause_ends_at_once() -> None:
    engine = WatchedEngine()
    engine.errors = [EngineUnavailable("away")] * 1000
    async with feeding(engine) as running:
        await asked(engine, 12)
        before = now()
        running.feed.stop()
        await running.task

        assert now() == before


@virtual_time
async def test_stopping_before_running_asks_for_nothing() -> None:
    engine = WatchedEngine()
    await engine.offer()
    feed = Feed(engine, ASK, Slots(VERB, 2), lambda job, slot: None, wait_ms=1000, streaming=True)
    feed.stop()
    feed.stop()
    await feed.run()

    assert (engine.asks, engine.streams) == ([], 0)


@virtual_time
async def test_stopping_closes_the_stream_and_gives_its_slot_back() -> None:
    engine = WatchedEngine()
    async with feeding(engine, 8, streaming=True) as running:
        await seconds(1)
        assert engine.open_streams == 1
        running.feed.stop()
        await running.task

        assert engine.open_streams == 0
        assert running.slots.free == 8


@virtual_time
async def test_cancelling_ends_at_once() -> None:
    engine = WatchedEngine()
    engine.may_answer.clear()
    async with feeding(engine, 8, streaming=True) as running:
        await asked(engine, 1)
        before = now()
        running.task.cancel()
        await asyncio.wait([running.task])

        assert now() == before
        assert running.slots.free == 8


# ---- push ----------------------------------------------------------------------------------------------------------


@virtual_time
async def test_while_little_happens_jobs_are_pushed() -> None:
    engine = WatchedEngine()
    async with feeding(engine, streaming=True) as running:
        await seconds(1)
        await engine.offer()
        (job,) = await running.take(1)

        assert engine.ways[job.key] == ["push"]
        assert metrics.REGISTRY.get_sample_value("verbworker_streaming", {"verb": VERB}) == 1


@virtual_time
async def test_without_streaming_no_stream_is_opened() -> None:
    engine = WatchedEngine()
    async with feeding(engine, streaming=False) as running:
        await engine.offer()
        (job,) = await running.take(1)
        await seconds(1)

        assert engine.ways[job.key] == ["poll"]
        assert engine.streams == 0


@pytest.mark.req("JOB-01")
@virtual_time
async def test_what_is_never_pushed_is_polled_beside_the_stream() -> None:
    engine = WatchedEngine()
    async with feeding(engine, streaming=True) as running:
        await seconds(1)
        await engine.offer()
        (pushed,) = await running.take(1)
        engine.time_out(pushed.key)
        (polled,) = await running.take(1)

        assert pushed.key == polled.key
        assert engine.ways[pushed.key] == ["push", "poll"]
        assert engine.open_streams == 1


@virtual_time
async def test_while_much_happens_the_stream_is_closed_and_afterwards_opened_again() -> None:
    engine = WatchedEngine()
    async with feeding(engine, 32, streaming=True) as running:
        await seconds(1)
        assert engine.open_streams == 1
        for _ in range(30):
            await engine.offer(20)
            await running.work_off(20)
            await seconds(0.1)
        assert engine.open_streams == 0
        assert metrics.REGISTRY.get_sample_value("verbworker_streaming", {"verb": VERB}) == 0
        await seconds(30)

        assert engine.open_streams == 1


@virtual_time
async def test_waves_of_jobs_close_the_stream_once_and_not_with_every_wave() -> None:
    engine = WatchedEngine()
    async with feeding(engine, 32, streaming=True) as running:
        await seconds(1)
        for _ in range(10):
            for _ in range(10):
                await engine.offer(20)
                await running.work_off(20)
                await seconds(0.1)
            await seconds(3)
        assert (engine.streams, engine.open_streams) == (1, 0)
        await seconds(10)

        assert engine.open_streams == 1


@virtual_time
async def test_a_stream_is_read_only_with_a_slot_in_hand() -> None:
    engine = WatchedEngine()
    async with feeding(engine, 4, streaming=True) as running:
        await seconds(1)
        for _ in range(6):
            await engine.offer()
            await turns()

        assert running.jobs.qsize() == 3  # the fourth slot is the poll's
        assert running.slots.free == 0


@virtual_time
async def test_when_the_slots_are_at_work_the_stream_gives_back_what_it_cannot_start() -> None:
    engine = WatchedEngine()
    async with feeding(engine, 4, streaming=True) as running:
        await seconds(1)
        for _ in range(6):
            await engine.offer()
            await turns()
        await running.take(3)
        await seconds(30)
        (polled,) = await running.take(1)
        assert (engine.open_streams, engine.ways[polled.key][-1]) == (0, "poll")
        running.finish(4)
        await running.work_off(2)
        await seconds(30)

        assert engine.open_streams in (1, 2)  # two while one takes over from the other
        assert len(engine.jobs) == 6


@virtual_time
async def test_two_places_are_enough_for_a_stream_and_a_poll() -> None:
    engine = WatchedEngine()
    async with feeding(engine, 2, streaming=True) as running:
        await seconds(60)

        assert (engine.open_streams, running.slots.free) == (1, 0)
        assert len(engine.asks) >= 10


@virtual_time
async def test_a_verb_with_a_single_place_is_only_polled_for() -> None:
    engine = WatchedEngine()
    async with feeding(engine, 1, streaming=True) as running:
        await asked(engine, 3)
        await engine.offer()
        (job,) = await running.take(1)

        assert engine.ways[job.key] == ["poll"]
        assert engine.streams == 0


@pytest.mark.req("FAIL-06")
@virtual_time
async def test_a_stream_never_keeps_the_last_slot_from_the_poll() -> None:
    engine = WatchedEngine()
    async with feeding(engine, 32, streaming=True) as running:
        await seconds(1)
        assert engine.open_streams == 1
        engine.refuse("activate", 8)
        await asked(engine, len(engine.asks) + 12)
        await engine.offer()

        assert (await running.take(1))[0].type == VERB


@virtual_time
async def test_a_stream_that_cannot_be_opened_is_tried_again_and_again_beside_the_poll() -> None:
    engine = WatchedEngine()
    engine.broken_streams = 200
    async with feeding(engine, streaming=True) as running:
        while engine.open_streams == 0:
            await seconds(1)
        await engine.offer()
        (job,) = await running.take(1)

        assert engine.ways[job.key] == ["push"]
        assert engine.streams == 201
        assert now() > 200


@virtual_time
async def test_while_streams_are_refused_the_poll_takes_all_slots_but_one() -> None:
    engine = WatchedEngine()
    engine.broken_streams = 10_000
    async with feeding(engine, 8, streaming=True) as running:
        await seconds(60)
        await engine.offer(7)
        await running.take(7)

        assert max(engine.asks) == 7
        assert {way for ways in engine.ways.values() for way in ways} == {"poll"}


class PollingEngine(WatchedEngine):
    """An engine whose transport has no streams, for as long as a test says so."""

    pushes_jobs = False


@virtual_time
async def test_over_a_transport_without_streams_none_is_begun(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "verbworker.work.feeds")
    engine = PollingEngine()
    async with feeding(engine, 8, streaming=True) as running:
        await seconds(600)
        await engine.offer(8)
        await running.take(8)

        assert (engine.streams, max(engine.asks), caplog.messages) == (0, 8, [])


@virtual_time
async def test_a_stream_is_begun_when_the_transport_has_streams_again() -> None:
    engine = PollingEngine()
    async with feeding(engine, 8, streaming=True) as running:
        await seconds(60)
        engine.pushes_jobs = True
        await seconds(30)
        await engine.offer()
        (job,) = await running.take(1)

        assert engine.ways[job.key] == ["push"]


class BriefEngine(WatchedEngine):
    """An engine that ends every stream after a while, without a complaint."""

    lifetime = 0.0

    async def _stream(self, ask: Ask) -> AsyncGenerator[Job, None]:
        self.streams += 1
        await asyncio.sleep(self.lifetime)
        for job in await MemoryEngine.activate(self, ask, 0, 0):
            yield job


@pytest.mark.parametrize(("lifetime", "least", "most"), [(0.0, 15, 60), (6.0, 9, 11)])
def test_streams_that_end_at_once_are_not_opened_in_a_hurry(lifetime: float, least: int, most: int) -> None:
    @virtual_time
    async def play() -> None:
        engine = BriefEngine()
        engine.lifetime = lifetime
        async with feeding(engine, streaming=True) as running:
            await seconds(60)

            assert least <= engine.streams <= most
            assert running.slots.room >= 0

    play()


class CutEngine(WatchedEngine):
    """An engine whose streams break when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = asyncio.Event()

    async def _stream(self, ask: Ask) -> AsyncGenerator[Job, None]:
        self.streams += 1
        if self.streams > 20:
            await self.cut.wait()
            self.cut.clear()
        for job in await MemoryEngine.activate(self, ask, 0, 0):
            yield job
        raise EngineUnavailable("the stream broke")


@virtual_time
async def test_a_stream_that_lived_long_is_opened_again_as_soon_as_it_breaks() -> None:
    engine = CutEngine()
    async with feeding(engine, streaming=True):
        while engine.streams <= 20:
            await seconds(0.1)
        await seconds(5)
        engine.cut.set()
        await seconds(0.2)

        assert engine.streams == 22


@virtual_time
async def test_a_stream_is_renewed_all_the_time_and_the_next_one_is_open_before_it_ends() -> None:
    engine = WatchedEngine()
    async with feeding(engine, streaming=True) as running:
        await seconds(1)
        fewest, most = 1, 1
        for _ in range(600):
            await seconds(0.1)
            fewest, most = min(fewest, engine.open_streams), max(most, engine.open_streams)
        free = running.slots.free

    assert engine.streams >= 60 // LONGEST_UNRENEWED
    assert (fewest, most) == (1, 2)
    assert free >= 5  # one slot reads the stream, a quarter of the rest polls


@virtual_time
async def test_jobs_that_arise_while_streams_are_renewed_are_all_started_once() -> None:
    engine = WatchedEngine()
    keys: list[int] = []
    async with feeding(engine, streaming=True) as running:
        for _ in range(1000):
            await engine.offer()
            keys += [job.key for job in await running.work_off(1)]
            await seconds(0.05)

    assert sorted(keys) == sorted(engine.jobs)
    assert running.slots.free == 8
