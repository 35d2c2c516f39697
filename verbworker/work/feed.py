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
_QUIET = 0.005
_SHORT_LIVED = 1.0
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
        self._load = Load()
        self._arrived = 0
        self._busy = asyncio.Event()
        self._idle = asyncio.Event()
        self._choose()
        self._reading_since: float | None = None
        self._most = 10_000
        self._is_asking = False
        self._heard_at = float("-inf")

    async def run(self) -> None:
        """Feed until cancelled. A poll under way is waited for, so that no job is left locked behind it."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_load())
            tasks.create_task(self._poll())
            if self._streaming:
                tasks.create_task(self._stream())

    def silence(self, now: float) -> float:
        """How long the engine has owed an answer; a feed whose slots are all at work asks for nothing."""
        is_full = not self._is_asking and self._slots.free == 0
        return 0.0 if is_full else now - self._heard_at

    def _take(self, job: Job) -> None:
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
        """Choose between push and pull. A stream that held the last slot would keep everybody from polling."""
        only_pull = self._load.is_busy or not self._slots.is_roomy
        (self._busy.set if only_pull else self._busy.clear)()
        (self._idle.clear if only_pull else self._idle.set)()

    # ---- pull --------------------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        failures = 0
        while True:
            count = await self._slots.take(most=self._poll_size(), patience=_LINGER)
            if failures == 0:
                # The wait for a slot was ours, not the engine's.
                self._heard_at = asyncio.get_running_loop().time()
            self._is_asking = True
            try:
                jobs = await self._ask_for(count)
            except EngineError as error:
                await self._slots.give(count)
                failures += 1
                await self._complain(error, failures)
                continue
            except asyncio.CancelledError:
                await self._slots.give(count)
                raise
            finally:
                self._is_asking = False
            failures = 0
            await self._slots.give(count - len(jobs))
            await self._slots.praise(len(jobs))

    def _poll_size(self) -> int:
        if self._streaming and not self._load.is_busy:
            # The stream brings what is new; a few slots suffice for what only a poll can get.
            return max(1, min(self._most, self._slots.free // 4))
        return self._most

    async def _ask_for(self, count: int) -> list[Job]:
        request = asyncio.ensure_future(self._engine.activate(self._ask, count, self._wait_ms))
        try:
            jobs = await asyncio.shield(request)
        except asyncio.CancelledError:
            # What this poll still brings is ours: it is started, and given back by whoever stops us.
            with suppress(EngineError):
                for job in await request:
                    self._take(job)
            raise
        self._heard_at = asyncio.get_running_loop().time()
        for job in jobs:
            self._take(job)
        return jobs

    async def _complain(self, error: EngineError, failures: int) -> None:
        verb = self._ask.type
        match error:
            case Backpressure():
                await self._slots.blame()
                cap = 1.0
            case AnswerTooLarge():
                self._most = 1
                _log.error("the jobs of one poll are too large, asking for one at a time", extra={"verb": verb})
                cap = 5.0
            case EngineUnavailable():
                cap = 5.0
            case _:
                _log.error("the engine refuses to hand out jobs", extra={"verb": verb, "reason": str(error)})
                cap = 15.0
        if failures == 1 or failures % 20 == 0:
            _log.warning("poll failed", extra={"verb": verb, "failures": failures, "reason": str(error)})
        await asyncio.sleep(backoff(failures, random.random(), cap=cap))

    # ---- push --------------------------------------------------------------------------------------------------

    async def _stream(self) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        ask = replace(self._ask, timeout_ms=min(self._ask.timeout_ms, _STREAM_TIMEOUT_MS))
        while True:
            await self._idle.wait()
            metrics.STREAMING.labels(self._ask.type).set(1)
            opened_at = loop.time()
            try:
                await self._read_until_busy(ask)
                # One that the other side ends at once is no better than one that it refuses.
                failures = failures + 1 if self._idle.is_set() and loop.time() - opened_at < _SHORT_LIVED else 0
            except EngineError as error:
                failures += 1
                _log.info("stream ended", extra={"verb": self._ask.type, "reason": str(error)})
            finally:
                metrics.STREAMING.labels(self._ask.type).set(0)
            if failures:
                await asyncio.sleep(backoff(failures, random.random()))

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
            await self._slots.take(most=1)
            self._reading_since = loop.time()
            try:
                job = await anext(stream)
            except StopAsyncIteration:
                await self._slots.give()
                return
            except BaseException:
                await self._slots.give()
                raise
            finally:
                self._reading_since = None
            self._heard_at = loop.time()
            self._take(job)

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
