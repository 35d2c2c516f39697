"""The runtime's real parts in one test: a real engine, a real database, one executor, no worker loop around it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID, uuid4

from tests.support.connections import connection_to
from tests.support.models import line
from verbworker.contract.registry import Registry
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.embedded.job_completion import Completion
from verbworker.engine.inline import InlineEngine
from verbworker.engine.protocol import Ask, Engine, Resource
from verbworker.engine.variables import variables_of
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.job.frame import Frame
from verbworker.job.job import RESERVED, Job
from verbworker.job.outcome import JobResult
from verbworker.payload.signature import KeyRing
from verbworker.stores.database import Database
from verbworker.stores.jobs.frames import Frames
from verbworker.work.feeds.leases import Leases
from verbworker.work.jobs.executor import Databases, Executor
from verbworker.work.jobs.perform import VerbRun

TIMEOUT_MS = 20_000
IN_MEMORY = "memory"
_MOST_OF_OTHERS = 100


class RecordingEngine(Engine, Protocol):
    """An engine that records the commands it got."""

    failures: list[tuple[int, int, str]]
    completions: list[tuple[int, dict[str, Any]]]


class RecordingZeebe(ZeebeEngine):
    """Zeebe, with a record of the commands it got."""

    def __init__(self, connection: GatewayAddress, *, engine_id: str) -> None:
        super().__init__(connection, engine_id=engine_id)
        self.failures: list[tuple[int, int, str]] = []
        self.completions: list[tuple[int, dict[str, Any]]] = []

    async def fail(
        self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0, lease_token: str | None = None
    ) -> None:
        await super().fail(job_key, retries=retries, message=message, backoff_ms=backoff_ms, lease_token=lease_token)
        self.failures.append((job_key, retries, message))

    async def complete(self, job_key: int, result: JobResult, *, lease_token: str | None = None) -> None:
        await super().complete(job_key, result, lease_token=lease_token)
        self.completions.append((job_key, variables_of(result)))


class RecordingEmbedded(EmbeddedEngine):
    """The embedded engine, with a record of the commands it got."""

    def __init__(self, database: Database, *, engine_id: str) -> None:
        super().__init__(database, engine_id=engine_id)
        self.failures: list[tuple[int, int, str]] = []
        self.completions: list[tuple[int, dict[str, Any]]] = []

    async def fail(
        self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0, lease_token: str | None = None
    ) -> None:
        await super().fail(job_key, retries=retries, message=message, backoff_ms=backoff_ms, lease_token=lease_token)
        self.failures.append((job_key, retries, message))

    async def complete(self, job_key: int, result: JobResult, *, lease_token: str | None = None) -> None:
        await super().complete(job_key, result, lease_token=lease_token)
        self.completions.append((job_key, variables_of(result)))

    async def prepare_completion(self, job_key: int, result: JobResult) -> Completion:
        prepared = await super().prepare_completion(job_key, result)
        return RecordedCompletion(
            prepared.parts,
            prepared.command,
            prepared.turn,
            prepared.version,
            prepared.known,
            noted=lambda: self.completions.append((job_key, variables_of(result))),
        )


@dataclass(slots=True)
class RecordedCompletion(Completion):
    """A completion that tells when it is committed."""

    noted: Callable[[], None] = lambda: None

    def end(self, *, is_saved: bool) -> None:
        Completion.end(self, is_saved=is_saved)
        if is_saved:
            self.noted()


class RecordingInline(InlineEngine):
    """The engine in memory, with a record of the commands it got."""

    def __init__(self, *, engine_id: str) -> None:
        super().__init__(engine_id)
        self.failures: list[tuple[int, int, str]] = []
        self.completions: list[tuple[int, dict[str, Any]]] = []

    async def fail(
        self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0, lease_token: str | None = None
    ) -> None:
        await super().fail(job_key, retries=retries, message=message, backoff_ms=backoff_ms, lease_token=lease_token)
        self.failures.append((job_key, retries, message))

    async def complete(self, job_key: int, result: JobResult, *, lease_token: str | None = None) -> None:
        await super().complete(job_key, result, lease_token=lease_token)
        self.completions.append((job_key, variables_of(result)))


@dataclass(slots=True)
class Rig:
    """One worker boot without its loop: jobs are taken and worked off when the test says so."""

    registry: Registry
    engine: RecordingEngine
    database: Database
    frames: Frames
    leases: Leases
    executor: Executor
    ring: KeyRing | None = None
    taken: list[Job] = field(default_factory=list)

    async def deploy(self, process: str, verbs: Sequence[str]) -> None:
        """Deploy a process that is a line of service tasks."""
        await self.engine.deploy([Resource(f"{process}.bpmn", line(process, verbs))])

    async def take(self, verb: str, *, limit: int = 1, timeout_ms: int = 60_000) -> list[Job]:
        """Activate jobs of a verb and leave them to the test."""
        names = (*RESERVED, *self.registry.flags_of(verb))
        ask = Ask(type=verb, worker="rig", timeout_ms=timeout_ms, variables=names)
        return await self.engine.activate(ask, limit, TIMEOUT_MS)

    async def heard(self, kind: str) -> Job:
        """One job of a listener. All processes of a broker have the same type: what other tests left is passed over."""
        owned = {workflow.process for workflow in self.registry.workflows.values()}
        for _ in range(_MOST_OF_OTHERS):
            (job,) = await self.take(kind)
            if job.process_id in owned:
                return job
        raise AssertionError(f"only other tests' jobs of {kind} came")

    async def work(self, verb: str, *, limit: int = 1) -> Job:
        """Take jobs of a verb, work them off and return the last."""
        jobs = await self.take(verb, limit=limit)
        assert jobs, f"no job of {verb} arrived"
        for job in jobs:
            await self.executor.execute(job)
        return jobs[-1]

    async def frame(self, job: Job) -> Frame:
        """The frame of a job; there must be one."""
        frame = await self.frames.read(job.key)
        assert frame is not None
        return frame


@asynccontextmanager
async def opened(
    dsn: str,
    address: str,
    registry: Registry,
    *,
    ring: KeyRing | None = None,
    owner: UUID | None = None,
    rest_url: str | None = None,
) -> AsyncIterator[Rig]:
    """A rig on a migrated database and a broker, on that database alone where it is the address, or in memory."""
    engine: RecordingEngine
    if address == IN_MEMORY:
        engine = RecordingInline(engine_id="rig")
    elif address == dsn:
        engine = RecordingEmbedded(Database(dsn, size=8), engine_id="rig")
    else:
        connection = connection_to(address, **({} if rest_url is None else {"rest_url": rest_url}))
        engine = RecordingZeebe(connection, engine_id="rig")
    threads = ThreadPoolExecutor(4)
    async with engine, Database(dsn, size=8) as database, asyncio.TaskGroup() as tasks:
        frames = Frames(database, engine_id="rig", owner=owner or uuid4(), lease=timedelta(seconds=30))
        writing = tasks.create_task(frames.run())
        leases = Leases(frames, engine, engine_timeout_ms=60_000)
        executor = Executor(
            registry, engine, frames, Databases(database, database), leases, VerbRun(threads), ring=ring
        )
        try:
            yield Rig(registry, engine, database, frames, leases, executor, ring)
        finally:
            await frames.flush()
            writing.cancel()
            threads.shutdown(wait=False)
