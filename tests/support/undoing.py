"""Workers that undo, as many as a test wants to crash: one database, one engine in memory, jobs taken by hand."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from tests.support.start_router import asking, open_starts
from tests.support.trip import EFFECTS, PLACES, TABLE
from verblint.names import COMPENSATE
from verbworker.background.poll_loop import run_all
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import Ask
from verbworker.job import failpoint
from verbworker.job.failpoint import Point
from verbworker.job.job import PAYLOAD, RESERVED, Job
from verbworker.payload.signature import KeyRing
from verbworker.runbook.event import Event, Kind
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.stores.jobs.compensations import Compensations
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.histories import Histories
from verbworker.stores.sql import query
from verbworker.testing.kit import Crash
from verbworker.testing.memory import MemoryEngine, MemoryJob
from verbworker.work.feeds.leases import Leases
from verbworker.work.feeds.worker import Pace, Worker
from verbworker.work.jobs.executor import Databases, Executor
from verbworker.work.jobs.perform import VerbRun
from verbworker.work.jobs.verdicts import JobResults, Relay
from verbworker.work.listeners.compensation import CompensationJobs
from verbworker.work.starts.duplicate_instances import InstanceIdentity
from verbworker.work.upkeep.releases import Release, ReleaseAnswer, Releases
from verbworker.work.upkeep.retention import Archiver

LEASE = timedelta(seconds=30)
TIMEOUT = timedelta(seconds=60)
RECORDS = "SELECT verb, state, record_id FROM verbworker.compensation_record ORDER BY step_seq"


@dataclass(slots=True)
class Undoer:
    """One worker boot: an executor for verbs and a handler for undoing."""

    executor: Executor
    compensation: CompensationJobs
    frames: Frames
    leases: Leases


class CompensationSetup:
    """The place where trips are arranged and undone."""

    def __init__(self, registry: Registry, database: Database, tasks: asyncio.TaskGroup, ring: KeyRing | None) -> None:
        self.registry = registry
        self.engine = MemoryEngine(f"memory-{uuid4().hex[:8]}")
        self.database = database
        self.runbook = Runbook(database)
        self.ring = ring
        self.running: list[asyncio.Task[None]] = []
        self._tasks = tasks
        self._threads = ThreadPoolExecutor(2)
        self.entry_id: UUID | None = None
        self.worker = self.boot()

    def boot(self, *, alone: bool = True, lease: timedelta = LEASE, timeout: timedelta = TIMEOUT) -> Undoer:
        """Another worker; `alone` it writes by itself, otherwise what is around it sees to that."""
        owner, pools = uuid4(), Databases(self.database, self.database)
        frames = Frames(self.database, engine_id=self.engine.engine_id, owner=owner, lease=lease)
        leases, verb_run = Leases(frames, self.engine, engine_timeout_ms=60_000), VerbRun(self._threads)
        executor = Executor(self.registry, self.engine, frames, pools, leases, verb_run, ring=self.ring)
        dispatches = Dispatches(self.database, engine_id=self.engine.engine_id, owner=owner)
        identity = InstanceIdentity(Instances(self.database), self.engine, dispatches)
        compensation = CompensationJobs(
            *(self.registry, self.engine, pools, verb_run),
            owner=owner,
            lease=lease,
            timeout=timeout,
            ring=self.ring,
            identity=identity,
        )
        if not alone:
            return Undoer(executor, compensation, frames, leases)
        self.running += [self._tasks.create_task(frames.run()), self._tasks.create_task(run_all(compensation.services))]
        return Undoer(executor, compensation, frames, leases)

    @asynccontextmanager
    async def working(
        self, *, grace: float = 30.0, lease: timedelta = LEASE, timeout: timedelta = TIMEOUT
    ) -> AsyncIterator[asyncio.Event]:
        """A whole worker that takes jobs by itself; in the end, or when what it yields is set, it drains."""
        me, stop = self.boot(alone=False, lease=lease, timeout=timeout), asyncio.Event()
        pace = Pace("house", poll_wait=timedelta(seconds=1), grace=timedelta(seconds=grace), streaming=False)
        relay, reaper = Relay(me.frames, JobResults(self.engine, me.frames)), Archiver(me.frames)
        worker = Worker(
            *(self.registry, self.engine, me.frames, me.executor, me.leases, relay, reaper, pace),
            handlers=[me.compensation],
            services=me.compensation.services,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(worker.run(stop))
            yield stop
            stop.set()

    async def start(self, *line: str) -> int:
        """Start a case whose process is this line; the key of its instance."""
        (workflow,) = self.registry.workflows.values()
        self.engine.line(workflow.process, line)
        async with open_starts(self.database, self.registry, self.engine, ring=self.ring) as opened:
            entry = await opened.router.invoke(workflow.name, {}, caller=asking())
            await opened.dispatcher.drain()
        self.entry_id = entry.entry_id
        return next(reversed(list(self.engine.jobs.values()))).job.process_instance_key

    async def booked(self, *after: str) -> MemoryJob:
        """Start a case, book everything, and stop where it is to be undone; that job."""
        await self.start(*(f"trip.book-{place}" for place in PLACES), COMPENSATE, *after)
        for place in PLACES:
            await self.work(f"trip.book-{place}")
        return self.compensate_job()

    def compensate_job(self) -> MemoryJob:
        """The youngest compensate job."""
        jobs = [known for known in self.engine.jobs.values() if known.job.type == COMPENSATE]
        return jobs[-1]

    async def take(self, kind: str) -> Job:
        """Take a job and leave it to the test."""
        (job,) = await self.engine.activate(
            Ask(kind, "house", 60_000, (*RESERVED, *self.registry.flags_of(kind))), 1, 0
        )
        return job

    async def work(self, verb: str) -> Job:
        """Take a verb's job and work it off."""
        job = await self.take(verb)
        await self.worker.executor.execute(job)
        return job

    async def undo(self) -> Job:
        """Take the compensate job and serve it."""
        job = await self.take(COMPENSATE)
        await self.worker.compensation.serve(job)
        return job

    async def crash(self, strike: Callable[[Point], bool]) -> bool:
        """Serve the compensate job in a worker that dies at a point; False when it lived through it."""
        job = await self.take(COMPENSATE)

        def reached(point: Point) -> None:
            if strike(point):
                raise Crash

        failpoint.arm(reached)
        try:
            await self.worker.compensation.serve(job)
        except Crash:
            self.worker = self.boot()
            await self.forget_leases()
            self.engine.time_out(job.key)
            return True
        finally:
            failpoint.arm(None)
        return False

    async def forget_leases(self) -> None:
        """The workers of all running undos are dead."""
        await self.database.execute(query("testing", "expire_leases"), f"{self.engine.engine_id}/undo")

    async def release(self, record_id: int) -> ReleaseAnswer:
        """A person releases a held undo, and the engine's incident with it."""
        records = Compensations(self.database, engine_id=self.engine.engine_id)
        frames = Frames(self.database, engine_id=records.engine_id, owner=uuid4())
        histories = Histories(self.database, engine_id=records.engine_id)
        releases = Releases(frames, histories, self.engine, records=records)
        return await releases.release(Release(record_id, "ann", "the agency found it", 3, incident_key=1))

    async def end_backoffs(self) -> None:
        """Time passes, for the engine and for the frames."""
        await self.database.execute(query("testing", "end_backoffs"), f"{self.engine.engine_id}/undo")
        self.engine.advance(60)

    async def effects(self) -> list[str]:
        """What was done in our own tables."""
        return [row["deed"] for row in await self.database.fetch(EFFECTS)]

    async def records(self) -> dict[str, str]:
        """How far each step is undone."""
        return {row["verb"]: row["state"] for row in await self.database.fetch(RECORDS)}

    async def record_of(self, verb: str) -> int:
        """The record of one step."""
        rows = await self.database.fetch(RECORDS)
        return next(int(row["record_id"]) for row in rows if row["verb"] == verb)

    async def events(self, *kinds: Kind) -> list[Event]:
        """What the entry tells, of these kinds."""
        assert self.entry_id is not None
        return [event for event in await self.runbook.events(self.entry_id) if event.kind in kinds]

    async def undone(self) -> list[str]:
        """The steps in the order in which they were undone, as the entry tells it."""
        return [event.detail["undoes"] for event in await self.events(Kind.COMPENSATED)]

    def envelope(self, instance_key: int) -> dict[str, Any]:
        """The payload as the engine carries it."""
        return dict(json.loads(str(self.engine.variables(instance_key)[PAYLOAD])))

    def close(self) -> None:
        """Let every worker go."""
        failpoint.arm(None)
        for task in self.running:
            task.cancel()
        self._threads.shutdown(wait=False)


@asynccontextmanager
async def open_compensation(
    dsn: str, registry: Registry, *, ring: KeyRing | None = None
) -> AsyncIterator[CompensationSetup]:
    """Compensation on a migrated database."""
    async with Database(dsn, size=8) as database, asyncio.TaskGroup() as tasks:
        await database.execute(TABLE)
        opened = CompensationSetup(registry.check(), database, tasks, ring)
        try:
            yield opened
        finally:
            opened.close()
