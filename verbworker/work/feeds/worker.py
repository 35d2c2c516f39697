"""The worker: feeds, slots, heartbeats, relay, and a drain that loses no job."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from verbworker import metrics
from verbworker.background.poll_loop import PollLoop, Service, running
from verbworker.background.service_health import ServiceHealth
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import Ask, Engine, Interruptible
from verbworker.errors import EndedByBug, StoreError
from verbworker.job.job import RESERVED, Job
from verbworker.retrying import DATABASE
from verbworker.stores.jobs.frames import Frames
from verbworker.work.feeds.feed import MOST_PER_POLL, Feed
from verbworker.work.feeds.leases import Activations, Leases, StopReason
from verbworker.work.feeds.poll_retries import PollRetries
from verbworker.work.feeds.slots import Slot, Slots
from verbworker.work.feeds.watchdog import Watchdog
from verbworker.work.jobs.containment import contain_job
from verbworker.work.jobs.executor import Executor
from verbworker.work.jobs.verdicts import Relay
from verbworker.work.listeners.job_handler import JobHandler, Serving, Stoppable
from verbworker.work.upkeep.retention import Archiver

_log = logging.getLogger(__name__)

_Do = Callable[[Job], Coroutine[Any, Any, None]]

# Called with the number of runs that ignore their cancellation, and the bug that ended the worker, if one did.
Abandon = Callable[[int, EndedByBug | None], None]
_STOP_GRACE = 5.0  # for jobs that were stopped to store how they ended
_TICK = 0.25  # how exactly the lag of the loop is known
_SHORTEST_LAG_S = 1.0  # a loop that lags less is busy, not blocked


@dataclass(frozen=True, slots=True)
class Pace:
    """How a worker takes jobs and how it shuts down."""

    name: str
    engine_timeout: timedelta = timedelta(seconds=60)
    poll_wait: timedelta = timedelta(seconds=5)
    grace: timedelta = timedelta(seconds=30)
    streaming: bool = True
    tenant_ids: tuple[str, ...] = ()
    leases: bool = False


def start_in(slot: Slot, jobs: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    """Start the task of a job. It holds the slot until it ends; if it cannot be started the caller still holds it."""
    try:
        task = jobs.create_task(work)
    except BaseException:
        work.close()  # a group that is ending accepts no task
        raise
    # Not in the task itself: one that is cancelled before its first step runs no `finally`.
    task.add_done_callback(lambda _: slot.release())
    return task


class Worker:
    """Takes and runs the jobs of all verbs and handlers of one process."""

    def __init__(
        self,
        registry: Registry,
        engine: Engine,
        frames: Frames,
        executor: Executor,
        leases: Leases,
        relay: Relay,
        reaper: Archiver,
        pace: Pace,
        *,
        handlers: Sequence[JobHandler] = (),
        services: Sequence[Service] = (),
        serving: Serving | None = None,
        abandon: Abandon | None = None,
    ) -> None:
        """Take jobs until stopped. `abandon` ends the process when runs ignore their cancellation."""
        self._registry = registry
        self._engine = engine
        self._frames = frames
        self._executor = executor
        self._leases = leases
        self._handlers = handlers
        self._serving = serving
        self._abandon = abandon
        self._ticking = PollLoop("tick", self._tick, every=None)
        self._activations = Activations(engine)
        keepers = (*frames.services, *leases.services, self._activations.service, self._ticking)
        own = (*keepers, relay.service, reaper.service)
        rows = () if serving is None else serving.services
        self.services: tuple[Service, ...] = (*own, *rows, *services)
        self._pace = pace
        self._feeds: list[Feed] = []
        self._poll_retries = PollRetries()
        self._running: set[asyncio.Task[None]] = set()
        self._draining = False
        self._bug: EndedByBug | None = None
        self._tick_due = float("inf")
        interrupt = engine.interrupt if isinstance(engine, Interruptible) else None
        # A loop that is blocked for one heartbeat will not keep its leases for long.
        self._watchdog = Watchdog(interrupt, limit_s=max(_SHORTEST_LAG_S, frames.lease.total_seconds() / 3))
        self.ticked_at = float("-inf")

    @property
    def is_draining(self) -> bool:
        """Return whether the worker has stopped taking jobs."""
        return self._draining

    @property
    def in_flight(self) -> int:
        """Return how many jobs are being worked on."""
        return len(self._running)

    def seconds_since_poll(self) -> float:
        """Return the longest time a feed has waited for the engine; infinite before the first poll."""
        now = asyncio.get_running_loop().time()
        return max((feed.silence(now) for feed in self._feeds), default=float("inf"))

    def caught_up_for(self) -> float:
        """Return how many seconds the engine has answered every poll, with no jobs waiting there for a slot; else 0."""
        now = asyncio.get_running_loop().time()
        return min((feed.caught_up_for(now) for feed in self._feeds), default=0.0)

    def troubles(self) -> list[str]:
        """Return the feed loops whose last pass hit a bug and which continue, each with its error and place."""
        return [trouble for feed in self._feeds for trouble in feed.troubles()]

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then hand back jobs that have not started and finish those that run.

        A bug in a service or a feed sets `stop` as well; after the drain it is raised as `EndedByBug`.
        """
        await self._boot(stop)
        # Leases and engine timeouts are extended during the drain: the services end after the last job. The watchdog
        # ends before them, because one of them makes the ticks that it watches.
        async with running(self.services, stop):
            with self._watchdog:
                async with asyncio.TaskGroup() as jobs:
                    feeds = [jobs.create_task(self._keep(feed, stop)) for feed in self._open_feeds(jobs)]
                    await stop.wait()
                    await self._drain(feeds)
                await self._flush()
        if self._bug is not None:
            raise self._bug

    async def _keep(self, feed: Feed, stop: asyncio.Event) -> None:
        try:
            await feed.run()
        except Exception as error:
            self._bug = ServiceHealth("feed").note_end(error)
            stop.set()

    async def _flush(self) -> None:
        try:
            await self._frames.flush()
            await self._frames.note_end()
        except StoreError as error:
            _log.warning("acknowledgements not written, the relay will ask again", extra={"reason": str(error)})

    async def _boot(self, stop: asyncio.Event) -> None:
        """Register this worker in the database; an unavailable database is waited for."""
        health = ServiceHealth("boot")

        async def boot() -> None:
            if not health.failures or not stop.is_set():
                name, leases = self._pace.name, self._pace.leases
                await self._frames.boot(name=name, host=socket.gethostname(), pid=os.getpid(), leases=leases)
                health.note_success()

        async def pause(seconds: float) -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await stop.wait()

        await DATABASE.run(boot, failed=health.note_outage, sleep=pause)

    def _open_feeds(self, jobs: asyncio.TaskGroup) -> list[Feed]:
        timeout = self._pace.engine_timeout
        for verb in self._registry:
            ask = self._ask(verb.name, verb.timeout or timeout, (*RESERVED, *self._registry.flags_of(verb.name)))
            self._open_feed(jobs, ask, verb.concurrency, self._execute)
        for task in self._registry.tasks.values():
            ask = self._ask(task.name, task.timeout or timeout, task.variables)
            self._open_feed(jobs, ask, task.concurrency, self._execute, most=task.batch)
        for handler in self._handlers:
            ask = self._ask(handler.type, handler.timeout or timeout, handler.variables)
            self._open_feed(jobs, ask, handler.concurrency, partial(self._serve, handler))
        return self._feeds

    def _ask(self, kind: str, timeout: timedelta, variables: Sequence[str]) -> Ask:
        return Ask(
            type=kind,
            worker=self._pace.name,
            timeout_ms=int(timeout.total_seconds() * 1000),
            variables=variables,
            tenant_ids=self._pace.tenant_ids,
        )

    def _open_feed(
        self, jobs: asyncio.TaskGroup, ask: Ask, concurrency: int, do: _Do, *, most: int = MOST_PER_POLL
    ) -> None:
        slots = Slots(ask.type, concurrency)

        def start(job: Job, slot: Slot) -> None:
            task = start_in(slot, jobs, contain_job(self._work(job, do), job.type))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

        wait_ms = int(self._pace.poll_wait.total_seconds() * 1000)
        feed = Feed(
            self._engine,
            ask,
            slots,
            start,
            wait_ms=wait_ms,
            streaming=self._pace.streaming,
            most=most,
            retries=self._poll_retries,
        )
        self._feeds.append(feed)

    async def _execute(self, job: Job) -> None:
        if self._draining:
            await self._executor.give_back(job)
        else:
            await self._executor.execute(job)

    async def _serve(self, handler: JobHandler, job: Job) -> None:
        """Serve a job without a frame, with the row that lets another worker find it if this one dies."""
        if self._serving is None:
            await handler.serve(job)
        else:
            await self._serving.serve(handler, job)

    async def _work(self, job: Job, do: _Do) -> None:
        with metrics.IN_FLIGHT.labels(job.type).track_inprogress(), self._activations.held(job):
            await do(job)

    async def _drain(self, feeds: "list[asyncio.Task[None]]") -> None:
        self._draining = True
        _log.info("draining", extra={"in_flight": self.in_flight})
        for feed in self._feeds:
            feed.stop()
        if feeds:
            await asyncio.wait(feeds)
        await self._wait_for_running(self._pace.grace.total_seconds())
        self._leases.end_all(StopReason.SHUTDOWN)
        for handler in self._handlers:
            if isinstance(handler, Stoppable):
                handler.stop()
        await self._wait_for_running(_STOP_GRACE)
        for task in self._running:
            # Correctness never depends on a clean end: another worker takes over what is cut off here.
            task.cancel()
        if self._abandon is not None:
            await self._wait_for_running(_STOP_GRACE)
            if self._running:
                await self._flush()
                self._abandon(len(self._running), self._bug)

    async def _wait_for_running(self, seconds: float) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    async def _tick(self) -> int:
        """Record that the loop runs and how late it is, and schedule the next tick by the loop's own clock."""
        loop = asyncio.get_running_loop()
        self.ticked_at = loop.time()
        self._watchdog.tick()
        metrics.LOOP_LAG.set(max(0.0, self.ticked_at - self._tick_due))
        self._tick_due = self.ticked_at + _TICK
        loop.call_at(self._tick_due, self._ticking.poke)
        return 0
