"""Many jobs: feeds, slots, heartbeats, relay; and the drain that loses none of them."""

import asyncio
import logging
import os
import random
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

from verbworker import metrics
from verbworker.backoff import backoff
from verbworker.engine import Ask, Engine, Interruptible
from verbworker.errors import StoreConflict, StoreUnavailable
from verbworker.job import RESERVED, Job
from verbworker.registry import Registry
from verbworker.stores.frames import Frames
from verbworker.work.activations import Activations
from verbworker.work.desk import Desk, Stoppable, variables_for
from verbworker.work.executor import Executor
from verbworker.work.feed import Feed
from verbworker.work.heart import End, Heart
from verbworker.work.reaper import Reaper
from verbworker.work.relay import Relay
from verbworker.work.slots import Slot, Slots
from verbworker.work.watchdog import Watchdog

_log = logging.getLogger(__name__)

_Do = Callable[[Job], Coroutine[Any, Any, None]]

_LAST_WORDS = 5.0
_TICK = 0.25
_LEAST_PATIENCE = 1.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How a worker takes jobs and how it ends."""

    name: str
    engine_timeout: timedelta = timedelta(seconds=60)
    poll_wait: timedelta = timedelta(seconds=5)
    grace: timedelta = timedelta(seconds=30)
    streaming: bool = True
    tenant_ids: tuple[str, ...] = ()


def start_in(slot: Slot, jobs: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    """Start the task of a job. It holds the slot until it ends; when it cannot be started the caller still has it."""
    try:
        task = jobs.create_task(work)
    except BaseException:
        work.close()  # a group that is ending takes no task
        raise
    # Not by the task itself: one that is cancelled before its first step runs no `finally`.
    task.add_done_callback(lambda _: slot.release())
    return task


class Worker:
    """Works for every verb of a registry until it is told to stop."""

    def __init__(
        self,
        registry: Registry,
        engine: Engine,
        frames: Frames,
        executor: Executor,
        heart: Heart,
        relay: Relay,
        reaper: Reaper,
        pace: Pace,
        *,
        desks: Sequence[Desk] = (),
        services: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
    ) -> None:
        self._registry = registry
        self._engine = engine
        self._frames = frames
        self._executor = executor
        self._heart = heart
        self._desks = desks
        self._activations = Activations(engine)
        keepers = (frames.run, heart.run, self._activations.run, self._tick)
        self._services = (*keepers, relay.run, reaper.run, *services)
        self._pace = pace
        self._feeds: list[Feed] = []
        self._running: set[asyncio.Task[None]] = set()
        self._draining = False
        interrupt = engine.interrupt if isinstance(engine, Interruptible) else None
        # A loop that stands still for one beat of the heart will not keep its leases for long.
        self._watchdog = Watchdog(interrupt, patience=max(_LEAST_PATIENCE, frames.lease.total_seconds() / 3))
        self.ticked_at = float("-inf")

    @property
    def is_draining(self) -> bool:
        """Whether no more jobs are taken."""
        return self._draining

    @property
    def in_flight(self) -> int:
        """How many jobs are being worked on."""
        return len(self._running)

    def seconds_since_poll(self) -> float:
        """How long the feed that waits longest has not heard from the engine; for ever before the first poll."""
        now = asyncio.get_running_loop().time()
        return max((feed.silence(now) for feed in self._feeds), default=float("inf"))

    def troubles(self) -> list[str]:
        """The feeds' loops that met a bug in their last pass and go on, each with what and where."""
        return [trouble for feed in self._feeds for trouble in feed.troubles()]

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then give back what has not begun and finish what runs."""
        await self._boot(stop)
        with self._watchdog:
            await self._run(stop)

    async def _run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as services:
            # Leases and engine timeouts are extended through the drain: these end after the last job.
            background = [services.create_task(service()) for service in self._services]
            async with asyncio.TaskGroup() as jobs:
                feeds = [jobs.create_task(feed.run()) for feed in self._open_feeds(jobs)]
                await stop.wait()
                await self._drain(feeds)
            await self._frames.flush()
            for task in background:
                task.cancel()

    async def _boot(self, stop: asyncio.Event) -> None:
        """Tell the database who we are; from here on one that is away is waited for."""
        for failures in count():
            try:
                await self._frames.boot(name=self._pace.name, host=socket.gethostname(), pid=os.getpid())
            except (StoreUnavailable, StoreConflict) as error:
                _log.warning("database away, not working yet", extra={"reason": str(error)})
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), backoff(failures, random.random()))
                if stop.is_set():
                    return
            else:
                return

    def _open_feeds(self, jobs: asyncio.TaskGroup) -> list[Feed]:
        timeout = self._pace.engine_timeout
        for verb in self._registry:
            self._open_feed(jobs, self._ask(verb.name, timeout, RESERVED), verb.concurrency, self._execute)
        for desk in self._desks:
            ask = self._ask(desk.type, desk.timeout or timeout, variables_for(desk))
            self._open_feed(jobs, ask, desk.concurrency, desk.serve)
        return self._feeds

    def _ask(self, kind: str, timeout: timedelta, variables: Sequence[str]) -> Ask:
        return Ask(
            type=kind,
            worker=self._pace.name,
            timeout_ms=int(timeout.total_seconds() * 1000),
            variables=variables,
            tenant_ids=self._pace.tenant_ids,
        )

    def _open_feed(self, jobs: asyncio.TaskGroup, ask: Ask, concurrency: int, do: _Do) -> None:
        slots = Slots(ask.type, concurrency)

        def start(job: Job, slot: Slot) -> None:
            task = start_in(slot, jobs, self._work(job, do))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

        wait_ms = int(self._pace.poll_wait.total_seconds() * 1000)
        self._feeds.append(Feed(self._engine, ask, slots, start, wait_ms=wait_ms, streaming=self._pace.streaming))

    async def _execute(self, job: Job) -> None:
        if self._draining:
            await self._executor.give_back(job)
        else:
            await self._executor.execute(job)

    async def _work(self, job: Job, do: _Do) -> None:
        with metrics.IN_FLIGHT.labels(job.type).track_inprogress(), self._activations.held(job):
            await do(job)

    async def _drain(self, feeds: "list[asyncio.Task[None]]") -> None:
        self._draining = True
        _log.info("draining", extra={"in_flight": len(self._running)})
        for feed in self._feeds:
            feed.stop()
        if feeds:
            await asyncio.wait(feeds)
        await self._wait_for_running(self._pace.grace.total_seconds())
        self._heart.end_all(End.SHUTDOWN)
        for desk in self._desks:
            if isinstance(desk, Stoppable):
                desk.stop()
        await self._wait_for_running(_LAST_WORDS)
        for task in self._running:
            # Correctness never depends on a clean end: what is cut off here is taken over by another worker.
            task.cancel()

    async def _wait_for_running(self, seconds: float) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await asyncio.sleep(_TICK)
            self.ticked_at = loop.time()
            self._watchdog.tick()
            metrics.LOOP_LAG.set(max(0.0, self.ticked_at - began - _TICK))
