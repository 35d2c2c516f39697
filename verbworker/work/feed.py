"""The feed of one verb: jobs pushed while little happens, polled in batches while much does."""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import replace

from verbworker import metrics
from verbworker.backoff import backoff
from verbworker.engine import Ask, Engine
from verbworker.errors import AnswerTooLarge, Backpressure, EngineError, EngineUnavailable
from verbworker.job import Job
from verbworker.load import Load
from verbworker.work.slots import Slots

_log = logging.getLogger(__name__)

_TICK = 0.1
_LINGER = 0.01
_QUIET = 0.05
_CALM = 5.0
_SHORT_LIVED = 1.0
_BRISK_PAUSE = 0.5
_LATELY = 30.0
_STREAM_TIMEOUT_MS = 20_000


class Feed:
    """Takes jobs of one verb, never more than there are slots, and hands each to `start`.

    Polling never stops, because the engine pushes neither timed-out nor given-back jobs.
    """

    def __init__(
        self, engine: Engine, ask: Ask, slots: Slots, start: Callable[[Job], None], *, wait_ms: int, streaming: bool
    ) -> None:
        self._engine = engine
        self._ask = ask
        self._slots = slots
        self._start = start
        self._wait_ms = wait_ms
        self._streaming = streaming
        self._stopping = asyncio.Event()
        self._load = Load()
        self._arrived = 0
        self._busy = asyncio.Event()
        self._idle = asyncio.Event()
        self._asked = 0
        self._choose()
        self._reading_since: float | None = None
        self._most = 10_000
        self._is_asking = False
        self._is_owed = False
        self._heard_at = float("-inf")
        self._answered_since: float | None = None
        self._emptied_at = float("-inf")

    async def run(self) -> None:
        """Feed until stopped. Cancelled, it ends at once, and what a poll would have brought stays locked."""
        async with asyncio.TaskGroup() as tasks:
            others = [tasks.create_task(self._watch_load())]
            if self._streaming:
                others.append(tasks.create_task(self._stream()))
            polling = tasks.create_task(self._poll())
            await self._stopping.wait()
            for task in others:
                task.cancel()
            if not self._is_asking:
                polling.cancel()

    def stop(self) -> None:
        """Ask for no more. A poll under way is waited for and what it brings is handed over: it is locked for us."""
        self._stopping.set()

    def silence(self, now: float) -> float:
        """How long the engine has owed an answer; a feed whose slots are all at work asks for nothing."""
        is_full = not self._is_owed and self._slots.free == 0
        return 0.0 if is_full else now - self._heard_at

    def caught_up_for(self, now: float) -> float:
        """How long every poll was answered; 0 unless the engine lately had fewer jobs than there were slots."""
        lately = max(_LATELY, 3 * self._wait_ms / 1000)
        if self._answered_since is None or now - self._emptied_at > lately:
            return 0.0
        return now - self._answered_since

    def _hand_over(self, job: Job) -> None:
        """Start a job. The slot that was taken to ask for it is the job's own now."""
        self._asked -= 1
        self._arrived += 1
        self._start(job)

    async def _watch_load(self) -> None:
        loop = asyncio.get_running_loop()
        self._load = replace(self._load, at=loop.time())
        while True:
            await asyncio.sleep(_TICK)
            arrived, self._arrived = self._arrived, 0
            self._load = self._load.after(arrived, loop.time())
            self._choose()

    def _choose(self) -> None:
        """Choose between push and pull: a stream needs a slot of its own beside the poll's, or nobody reads it."""
        only_pull = self._load.is_busy or self._slots.room(self._asked) < 2
        (self._busy.set if only_pull else self._busy.clear)()
        (self._idle.clear if only_pull else self._idle.set)()

    # ---- slots -------------------------------------------------------------------------------------------------

    async def _take_slots(self, most: int, patience: float = 0.0) -> int:
        count = await self._slots.take(most=most, patience=patience)
        self._asked += count
        return count

    def _give_slots(self, count: int) -> None:
        self._asked -= count
        self._slots.give(count)

    # ---- pull --------------------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        in_vain = 0
        while not self._stopping.is_set():
            pause = await self._poll_once(in_vain)
            in_vain = in_vain + 1 if pause else 0
            if pause:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._stopping.wait()

    async def _poll_once(self, in_vain: int) -> float:
        """Ask once, after `in_vain` times in vain; returns how many seconds to wait before the next time."""
        count = await self._take_slots(self._poll_size(), _LINGER)
        began = asyncio.get_running_loop().time()
        if not self._is_owed:
            # The wait for a slot was ours, not the engine's.
            self._heard_at = began
        jobs: list[Job] = []
        try:
            jobs = await self._ask_for(count)
        except EngineError as error:
            return self._complain(error, in_vain + 1)
        finally:
            self._give_slots(count - len(jobs))
        self._slots.praise(len(jobs))
        if jobs or self._heard_at - began >= self._wait_ms / 2000:
            return 0.0
        # A gateway that does not wait for jobs, as it was asked to, is not asked again at once.
        return backoff(in_vain, random.random(), cap=_BRISK_PAUSE)

    def _poll_size(self) -> int:
        if self._streaming and self._idle.is_set():
            # The stream brings what is new; a few slots suffice for what only a poll can get.
            return max(1, min(self._most, self._slots.free // 4))
        return self._most

    async def _ask_for(self, count: int) -> list[Job]:
        self._is_asking = self._is_owed = True
        try:
            jobs = await self._engine.activate(self._ask, count, self._wait_ms)
        finally:
            self._is_asking = False
        self._is_owed = False
        self._heard_at = asyncio.get_running_loop().time()
        if self._answered_since is None:
            self._answered_since = self._heard_at
        if len(jobs) < count:
            self._emptied_at = self._heard_at
        for job in jobs:
            self._hand_over(job)
        return jobs

    def _complain(self, error: EngineError, failures: int) -> float:
        """Adapt to what the engine said; returns how many seconds to wait."""
        self._answered_since = None
        cap, level = 5.0, logging.WARNING
        match error:
            case Backpressure():
                self._slots.blame()
                cap = 1.0
            case AnswerTooLarge():
                self._most, level = 1, logging.ERROR  # the jobs of one poll were too large together
            case EngineUnavailable():
                pass
            case _:
                cap, level = 15.0, logging.ERROR  # patience does not help here: a person must do something
        if failures == 1 or failures % 20 == 0:
            said = {"verb": self._ask.type, "failures": failures, "reason": str(error)}
            _log.log(level, "poll failed", extra=said)
        return backoff(failures, random.random(), cap=cap)

    # ---- push --------------------------------------------------------------------------------------------------

    async def _stream(self) -> None:
        in_vain = 0
        loop = asyncio.get_running_loop()
        gauge = metrics.STREAMING.labels(self._ask.type)
        ask = replace(self._ask, timeout_ms=min(self._ask.timeout_ms, _STREAM_TIMEOUT_MS))
        while True:
            if self._busy.is_set():
                await self._calm_down()
            opened_at = loop.time()
            gauge.set(1)
            try:
                await self._read_until_busy(ask)
            except EngineError as error:
                _log.info("stream ended", extra={"verb": self._ask.type, "reason": str(error)})
            finally:
                gauge.set(0)
            # One that the other side ends at once is no better than one that it refuses.
            is_short = self._idle.is_set() and loop.time() - opened_at < _SHORT_LIVED
            in_vain = in_vain + 1 if is_short else 0
            if in_vain:
                await asyncio.sleep(backoff(in_vain, random.random()))

    async def _calm_down(self) -> None:
        """Return when little has happened for a while: a job that is on its way to a stream as it closes is locked."""
        while True:
            await self._idle.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(_CALM):
                    await self._busy.wait()
                    continue
            return

    async def _read_until_busy(self, ask: Ask) -> None:
        stream = self._engine.stream(ask)
        try:
            async with asyncio.TaskGroup() as tasks:
                reader = tasks.create_task(self._read(stream))
                watcher = tasks.create_task(self._close_when_busy(reader))
                await asyncio.wait([reader])
                watcher.cancel()
        except* EngineError as errors:
            raise errors.exceptions[0] from errors
        finally:
            await stream.aclose()

    async def _read(self, stream: AsyncGenerator[Job, None]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._take_slots(1)
            self._reading_since = loop.time()
            job: Job | None = None
            try:
                job = await anext(stream, None)
            finally:
                self._reading_since = None
                if job is None:
                    self._give_slots(1)
            if job is None:
                return
            self._heard_at = loop.time()
            self._hand_over(job)

    async def _close_when_busy(self, reader: "asyncio.Task[None]") -> None:
        await self._busy.wait()
        loop = asyncio.get_running_loop()
        give_up = loop.time() + 1.0
        # A reader that has been waiting has read everything there was, so nothing is lost by closing now.
        while loop.time() < give_up:
            if self._reading_since is not None and loop.time() - self._reading_since > _QUIET:
                break
            await asyncio.sleep(_QUIET)
        reader.cancel()
