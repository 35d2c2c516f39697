"""Our own Zeebe engine on a real gateway, and the few steps its tests share."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.support.connections import connection_to
from tests.support.embedded import EmbeddedPlace, embedded
from tests.support.engines import Gateway
from verbworker.engine.protocol import Ask, Engine, Resource, Start, Started
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import Backpressure, EngineError, EngineUnavailable, JobGone
from verbworker.job.job import Job

WAIT_MS = 30_000

_Answer = TypeVar("_Answer")


async def outcome(work: Awaitable[_Answer]) -> _Answer | EngineError:
    """What a command gave: its answer, or the error of ours it met."""
    try:
        return await work
    except EngineError as error:
        return error


async def until_it_works(work: Callable[[], Awaitable[_Answer]]) -> _Answer:
    """Send a command again until the engine takes it, as the worker does."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await work()
            except EngineUnavailable:
                await asyncio.sleep(0.05)


def zeebe(address: str, **settings: Any) -> ZeebeEngine:
    """An engine for this address, still to be opened."""
    return ZeebeEngine(connection_to(address, **settings), engine_id="test")


def engine_at(gateway: Gateway) -> Engine:
    """Our engine for whatever was started, still to be opened."""
    return embedded(gateway.dsn) if isinstance(gateway, EmbeddedPlace) else zeebe(gateway.address)


@dataclass(frozen=True, slots=True)
class Bench:
    """An open engine and the names of one test: a process and its job type."""

    engine: Engine
    process: str
    job_type: str

    def ask(self, job_type: str | None = None, *, timeout_ms: int = 60_000, variables: Sequence[str] = ()) -> Ask:
        """What a worker of this test asks for."""
        return Ask(job_type or self.job_type, "tests", timeout_ms, variables)

    async def deploy(self, model: bytes) -> int:
        """Deploy one model and return its definition key."""
        (deployed,) = await self.engine.deploy([Resource(f"{self.process}.bpmn", model)])
        return deployed.definition_key

    async def start(self, variables: Mapping[str, object] | None = None) -> Started:
        """Start the latest version."""
        return await self.engine.start(Start(self.process, variables or {}))

    async def take(self, job_type: str | None = None, *, timeout_ms: int = 60_000) -> Job:
        """Take the one job that is there or is about to be."""
        (job,) = await self.engine.activate(self.ask(job_type, timeout_ms=timeout_ms), 1, WAIT_MS)
        return job

    async def running(self, model: bytes, variables: Mapping[str, object] | None = None) -> Job:
        """Deploy a model, start it and take its first job."""
        await self.deploy(model)
        await self.start(variables)
        return await self.take()

    async def nothing_to_take(self, job_type: str | None = None) -> bool:
        """Whether the engine has no job of this type to give."""
        return await self.engine.activate(self.ask(job_type), 1, -1) == []

    async def everything(self, expected: int) -> list[Job]:
        """Poll until this many jobs have come, or none comes any more."""
        jobs: list[Job] = []
        while len(jobs) < expected:
            try:
                more = await self.engine.activate(self.ask(), 100, 3_000)
            except Backpressure:
                continue
            if not more:
                break
            jobs += more
        return jobs

    async def incident_of(self, job: Job) -> int:
        """The key of the job's incident: gRPC tells nobody, so it is looked for among the next keys."""
        last: EngineError | None = None
        for key in range(job.key + 1, job.key + 200):
            try:
                await self.engine.release(job.key, retries=1, incident_key=key)
            except JobGone as error:
                last = error
            else:
                return key
        raise LookupError("no incident among the next keys") from last
