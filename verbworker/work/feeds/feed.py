"""The feed of one verb: jobs are pushed under light load, and polled in batches under heavy load."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from verbworker import metrics
from verbworker.background.poll_loop import is_being_cancelled
from verbworker.background.service_health import place_of
from verbworker.engine.protocol import Ask, ChoosesTransport, Engine
from verbworker.errors import AnswerTooLarge, Backpressure, EngineError, EngineUnavailable
from verbworker.job.job import Job
from verbworker.retrying import FEED, SERVICE
from verbworker.work.feeds.leases import first_timeout_ms
from verbworker.work.feeds.poll_retries import PollRetries
from verbworker.work.feeds.slots import Reservation, Slot, Slots

_log = logging.getLogger(__name__)

MOST_PER_POLL = 10_000
"""More jobs than a poll ever has slots for."""

# Jobs per second. Two thresholds, so that a rate between them does not switch back and forth.
BUSY_RATE = 100.0
IDLE_RATE = 50.0
# The rate is measured every tick and forgets half of the past in half a second: a burst counts, a single job does not.
_TICK = 0.1
_HALF_LIFE = 0.5
# A poll waits this long for more slots, so that one call brings several jobs.
_LINGER = 0.01
# A stream that brings nothing for this long has been read to its end.
_QUIET = 0.05
# Streaming begins again after this long below the threshold: a job in transit while its stream closes stays locked.
_CALM = 5.0
# A stream that lives shorter counts as refused.
_SHORT_LIVED = 1.0
# A transport that has no streams may change for one that has: a look costs nothing.
_LOOK_FOR_STREAMS = 5.0
# The longest pause after a poll that returned early and empty: such a gateway ignores the requested wait.
_BRISK_PAUSE = 0.5
# An engine that had fewer jobs than slots within this time has no backlog.
_LATELY = 30.0
# The engine ends a stream that is not renewed, so a stopped worker gets no jobs after that (12 s on Zeebe).
_RENEW_AFTER = 9.0
# Zeebe's streams end by themselves after 10 s and drain within 1.3 s more; until then both bring jobs. Closing one
# sooner would return what the gateway still pushes to it, and such a job is redelivered some tenths of a second later.
_OVERLAP = 2.5
_CLOSE_WITHIN = 1.0  # a stream that is never quiet is cut off then, and its unread jobs are given back


@dataclass(frozen=True, slots=True)
class FeedLoad:
    """The smoothed arrival rate of one verb's jobs, and whether it is high enough to poll.

    Pushed jobs arrive soonest; polled jobs cost the engine half as much.
    """

    rate: float = 0.0
    at: float = 0.0
    is_busy: bool = False

    def after(self, jobs: int, now: float) -> "FeedLoad":
        """Return the load after `jobs` arrived since the last update."""
        elapsed = max(now - self.at, 1e-3)
        weight = 0.5 ** (elapsed / _HALF_LIFE)
        rate = self.rate * weight + (jobs / elapsed) * (1 - weight)
        is_busy = rate > BUSY_RATE or (self.is_busy and rate > IDLE_RATE)
        return replace(self, rate=rate, at=now, is_busy=is_busy)


class Feed:
    """Takes jobs of one verb, never more than there are slots, and passes each with its slot to `start`.

    Jobs are requested with a short first timeout: `Activations` extends those that take longer. A stream is renewed
    every few seconds for the same reason: a worker that stops loses its streams and blocks nothing for long.

    Polling never stops. Engines differ in what they push: Zeebe 8.6 pushes timed-out jobs again, to any open stream;
    8.10 does not; none pushes jobs that are older than the stream.

    A bug does not end a loop: it is logged, counted and shown by `troubles`, and the loop continues.
    """

    def __init__(
        self,
        engine: Engine,
        ask: Ask,
        slots: Slots,
        start: Callable[[Job, Slot], None],
        *,
        wait_ms: int,
        streaming: bool,
        most: int = MOST_PER_POLL,
        retries: PollRetries | None = None,
    ) -> None:
        self._engine = engine
        self._timeout_ms = ask.timeout_ms
        self._ask = replace(ask, timeout_ms=first_timeout_ms(ask.timeout_ms))
        self._slots = slots
        self._start = start
        self._wait_ms = wait_ms
        self._streaming = streaming
        self._stopping = asyncio.Event()
        self._load = FeedLoad()
        self._arrived = 0
        self._busy = asyncio.Event()
        self._idle = asyncio.Event()
        self._choose()
        self._most = most
        self._retries = retries or PollRetries()
        self._polls_in_vain = 0
        self._streams_in_vain = 0
        self._is_asking = False
        self._is_owed = False
        self._answered_at = float("-inf")
        self._answered_since: float | None = None
        self._emptied_at = float("-inf")
        self._troubles: dict[str, str] = {}

    async def run(self) -> None:
        """Feed until stopped. When cancelled it ends immediately, and jobs of an open poll stay locked."""
        self._load = replace(self._load, at=asyncio.get_running_loop().time())
        async with asyncio.TaskGroup() as tasks:
            others = [tasks.create_task(self._keep_going("load", self._watch_load))]
            if self._streaming:
                others.append(tasks.create_task(self._keep_going("stream", self._stream)))
            polling = tasks.create_task(self._keep_going("poll", self._poll))
            await self._stopping.wait()
            for task in others:
                task.cancel()
            if not self._is_asking:
                polling.cancel()

    def stop(self) -> None:
        """Stop asking for jobs. A poll in progress is awaited and its jobs are started: they are locked for us."""
        self._stopping.set()

    def silence(self, now: float) -> float:
        """Return how long an answer of the engine has been overdue; a feed without a free slot asks for nothing."""
        is_full = not self._is_owed and self._slots.free == 0
        return 0.0 if is_full else now - self._answered_at

    def caught_up_for(self, now: float) -> float:
        """Return how long every poll was answered; 0 unless the engine lately had fewer jobs than there were slots."""
        lately = max(_LATELY, 3 * self._wait_ms / 1000)
        if self._answered_since is None or now - self._emptied_at > lately:
            return 0.0
        return now - self._answered_since

    def troubles(self) -> list[str]:
        """Return the loops of this feed whose last pass ended with a bug, each with its error and place."""
        return [f"{loop} of {self._ask.type}: {trouble}" for loop, trouble in self._troubles.items()]

    # ---- loops -------------------------------------------------------------------------------------------------

    async def _keep_going(self, loop: str, step: Callable[[], Awaitable[None]]) -> None:
        """Repeat a step until stopped. After an unexpected error the loop continues, with growing pauses."""
        # Not `Retries`: the step never returns for good, and a success in between resets the pauses.
        failures = 0
        while not self._stopping.is_set():
            try:
                await step()
            except (Exception, asyncio.CancelledError) as error:
                if is_being_cancelled():
                    # An error during cancellation must not keep a cancelled loop alive.
                    raise asyncio.CancelledError from error
                # A cancellation that is not ours leaked out of a library: the loop would end silently.
                failures += 1
                self._report(loop, error)
                await self._pause(FEED.after(failures))
            else:
                failures = 0
                self._troubles.pop(loop, None)
                if is_being_cancelled():
                    # A task group that ends by an error of its own raises that error instead of our cancellation.
                    raise asyncio.CancelledError

    def _report(self, loop: str, error: BaseException) -> None:
        """Report what failed and where."""
        kind, file, line = place_of(error)
        self._troubles[loop] = f"{kind} at {file}:{line}"
        metrics.FEED_FAILURES.labels(self._ask.type, loop).inc()
        fields = {"verb": self._ask.type, "loop": loop, "error": kind, "file": file, "line": line}
        _log.error("feed failed with an unexpected error; it continues", extra=fields, exc_info=error)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def _hand_over(self, job: Job, reservation: Reservation) -> None:
        """Start a job in its own slot. A job that cannot be started keeps no slot, and the engine redelivers it."""
        slot = reservation.assign()
        self._arrived += 1
        try:
            self._start(job.with_timeout(self._timeout_ms), slot)
        except Exception as error:
            slot.release()
            self._report("start", error)
        except BaseException:
            slot.release()
            raise
        else:
            self._troubles.pop("start", None)

    async def _watch_load(self) -> None:
        await asyncio.sleep(_TICK)
        arrived, self._arrived = self._arrived, 0
        self._load = self._load.after(arrived, asyncio.get_running_loop().time())
        self._choose()

    def _choose(self) -> None:
        """Choose between push and pull: a stream needs a slot of its own beside the poll's, or it is not read."""
        only_pull = self._load.is_busy or self._slots.room < 2
        (self._busy.set if only_pull else self._busy.clear)()
        (self._idle.clear if only_pull else self._idle.set)()

    # ---- pull --------------------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        pause = await self._poll_once(self._polls_in_vain)
        self._polls_in_vain = self._polls_in_vain + 1 if pause else 0
        if pause:
            await self._pause(pause)

    async def _poll_once(self, in_vain: int) -> float:
        """Poll once, after `in_vain` polls without success; return how many seconds to wait before the next."""
        with await self._slots.reserve(most=self._poll_size(), linger=_LINGER) as reservation:
            began = asyncio.get_running_loop().time()
            if not self._is_owed:
                # The wait for a slot was ours, not the engine's.
                self._answered_at = began
            try:
                jobs = await self._ask_for(reservation.count)
            except EngineError as error:
                return self._complain(error, in_vain + 1)
            for job in jobs:
                self._hand_over(job, reservation)
        self._slots.note_answer(len(jobs))
        self._retries.note_answer()
        if jobs or self._answered_at - began >= self._wait_ms / 2000:
            return 0.0
        # A gateway that ignores the requested wait for jobs is not polled again immediately.
        return SERVICE.within(_BRISK_PAUSE).after(in_vain + 1)

    def _poll_size(self) -> int:
        if self._streaming and self._idle.is_set() and self._has_streams():
            # The stream brings new jobs; a few slots suffice for those that only a poll can get. While the engine
            # refuses streams the poll takes all but the slot that the next one is opened with.
            share = self._slots.free // 4 if self._streams_in_vain == 0 else self._slots.free - 1
            return max(1, min(self._most, share))
        return self._most

    async def _ask_for(self, count: int) -> list[Job]:
        self._is_asking = self._is_owed = True
        try:
            jobs = await self._engine.activate(self._ask, count, self._wait_ms)
        finally:
            self._is_asking = False
        self._is_owed = False
        self._answered_at = asyncio.get_running_loop().time()
        if self._answered_since is None:
            self._answered_since = self._answered_at
        if len(jobs) < count:
            self._emptied_at = self._answered_at
        return jobs

    def _complain(self, error: EngineError, failures: int) -> float:
        """Adapt to the engine's error; return how many seconds to wait."""
        self._answered_since = None
        pauses, level, turn = FEED, logging.WARNING, 0.0
        match error:
            case Backpressure():
                self._slots.note_refusal()
                pauses, turn = FEED.within(1.0), self._retries.schedule(asyncio.get_running_loop().time())
            case AnswerTooLarge():
                self._most, level = 1, logging.ERROR  # the jobs of one poll were too large together
            case EngineUnavailable():
                pass
            case _:
                pauses, level = replace(FEED, cap=15.0), logging.ERROR  # waiting does not help here: a person must act
        if failures == 1 or failures % 20 == 0:
            fields = {"verb": self._ask.type, "failures": failures, "reason": str(error)}
            _log.log(level, "poll failed", extra=fields)
        return max(turn, pauses.after(failures))

    # ---- push --------------------------------------------------------------------------------------------------

    async def _stream(self) -> None:
        """Receive pushed jobs until the load is too high for that, or the engine ends the stream."""
        if not self._has_streams():
            return await self._pause(_LOOK_FOR_STREAMS)
        if self._busy.is_set():
            await self._calm_down()
        loop = asyncio.get_running_loop()
        gauge = metrics.STREAMING.labels(self._ask.type)
        opened_at = loop.time()
        gauge.set(1)
        try:
            await self._read_streams()
        except EngineError as error:
            # An engine without streams refuses each: that is worth a line now and then.
            if self._streams_in_vain % 20 == 0:
                _log.info("stream ended", extra={"verb": self._ask.type, "reason": str(error)})
        finally:
            gauge.set(0)
        # A stream that the engine ends immediately counts like one that it refuses.
        is_short = self._idle.is_set() and loop.time() - opened_at < _SHORT_LIVED
        self._streams_in_vain = self._streams_in_vain + 1 if is_short else 0
        if self._streams_in_vain:
            await self._pause(FEED.after(self._streams_in_vain))
        return None

    def _has_streams(self) -> bool:
        return not isinstance(self._engine, ChoosesTransport) or self._engine.pushes_jobs

    async def _until_busy(self) -> None:
        await self._busy.wait()

    async def _calm_down(self) -> None:
        """Return after a quiet period: a job that is in transit while its stream closes stays locked."""
        while True:
            await self._idle.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(_CALM):
                    await self._busy.wait()
                    continue
            return

    async def _read_streams(self) -> None:
        """Read streams one after the other, each opened before the last one is closed, until busy or one ends."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as tasks:
                busy = tasks.create_task(self._until_busy())
                reader = self._open_stream(tasks)
                while not await _first_done(busy, reader.task, within=reader.opened_at + _RENEW_AFTER - loop.time()):
                    self._troubles.pop("stream", None)
                    successor = self._open_stream(tasks)
                    await _first_done(busy, reader.task, within=_OVERLAP)
                    await reader.close()
                    reader = successor
                await reader.close()
                busy.cancel()
        except* EngineError as errors:
            raise errors.exceptions[0] from errors

    def _open_stream(self, tasks: asyncio.TaskGroup) -> "_Reader":
        reader = _Reader(asyncio.get_running_loop().time())
        reader.task = tasks.create_task(self._read(reader))
        return reader

    async def _read(self, reader: "_Reader") -> None:
        loop = asyncio.get_running_loop()
        stream = self._engine.stream(self._ask)
        try:
            while True:
                with await self._slots.reserve(most=1) as reservation:
                    reader.waiting_since = loop.time()
                    try:
                        job = await anext(stream, None)
                    finally:
                        reader.waiting_since = None
                    if job is None:
                        return
                    self._answered_at = loop.time()
                    self._hand_over(job, reservation)
        finally:
            await stream.aclose()


class _Reader:
    """One open stream: the task that reads it, and since when it has been waiting for a job."""

    task: "asyncio.Task[None]"
    waiting_since: float | None = None

    def __init__(self, opened_at: float) -> None:
        self.opened_at = opened_at

    async def close(self) -> None:
        """End the stream when it has been quiet for a moment: then everything was read, and closing loses nothing."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _CLOSE_WITHIN
        while not self._is_quiet(loop.time()) and loop.time() < give_up:
            await asyncio.wait([self.task], timeout=_QUIET)
        self.task.cancel()
        await asyncio.wait([self.task])

    def _is_quiet(self, now: float) -> bool:
        return self.task.done() or (self.waiting_since is not None and now - self.waiting_since > _QUIET)


async def _first_done(*tasks: "asyncio.Task[object]", within: float) -> bool:
    """Wait for one of the tasks to end; return False if none did in time."""
    done, _ = await asyncio.wait(tasks, timeout=max(within, 0.0), return_when=asyncio.FIRST_COMPLETED)
    return bool(done)
