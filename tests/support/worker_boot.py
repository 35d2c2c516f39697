"""One worker boot on an engine in memory and a real database: jobs are worked off when the test says so."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.support.flags import flag_contract
from tests.support.ledger import Account
from tests.support.start import Begun, begin
from verblint.contracts.contract import Flag, FlagType
from verbworker.contract.policy import DEFAULT_POLICY, Policy
from verbworker.contract.registry import Registry
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Ask
from verbworker.job import failpoint
from verbworker.job.failpoint import Point
from verbworker.job.frame import Frame
from verbworker.job.job import RESERVED, Job
from verbworker.stores.database import Database
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.sql import query
from verbworker.testing.kit import Crash
from verbworker.testing.memory import MemoryEngine, MemoryJob
from verbworker.work.feeds.leases import Leases
from verbworker.work.jobs.executor import Databases, Executor
from verbworker.work.jobs.perform import VerbRun
from verbworker.work.jobs.verdicts import JobResults

VERB = "desk.act"
OTHER = "desk.other"
PROCESS = "desk-run"
QUICK = DEFAULT_POLICY.model_copy(update={"name": "quick"})


class ToldEngine(MemoryEngine):
    """An engine in memory that keeps what it was told."""

    def __init__(self) -> None:
        super().__init__(f"desk-{uuid4().hex[:8]}")
        self.line(PROCESS, [VERB])
        self.failures: list[tuple[int, int, str]] = []
        self.extended: list[tuple[int, int]] = []

    async def fail(
        self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0, lease_token: str | None = None
    ) -> None:
        await super().fail(job_key, retries=retries, message=message, backoff_ms=backoff_ms, lease_token=lease_token)
        self.failures.append((job_key, retries, message))

    async def extend(self, job_key: int, timeout_ms: int, *, lease_token: str | None = None) -> None:
        await super().extend(job_key, timeout_ms, lease_token=lease_token)
        self.extended.append((job_key, timeout_ms))


@dataclass(slots=True)
class LooplessWorker:
    """A worker without its loop."""

    registry: Registry
    engine: ToldEngine
    database: Database
    frames: Frames
    leases: Leases
    returns: JobResults
    executor: Executor

    async def start(self, account: Account | None = None) -> Begun:
        """Start an instance; its first job can be delivered."""
        workflow = self.registry.workflows["desk.run"]
        return await begin(self.database, self.engine, workflow, (account or Account()).model_dump(mode="json"))

    async def deliver(self, verb: str = VERB) -> Job:
        """The next delivery of a verb's job."""
        (job,) = await self.engine.activate(Ask(verb, "desk", 60_000, RESERVED), 1, 0)
        return job

    async def work(self, verb: str = VERB) -> Job:
        """Take the next delivery and work it off."""
        job = await self.deliver(verb)
        await self.executor.execute(job)
        return job

    async def begun(self) -> Job:
        """Start an instance and take its job."""
        await self.start()
        return await self.deliver()

    async def crash(self, job: Job, point: Point) -> None:
        """Work a job off and die at `point`; nobody extends its lease, and the engine's timeout is over."""

        def strike(reached: Point) -> None:
            if reached is point:
                raise Crash

        failpoint.arm(strike)
        try:
            with pytest.raises(Crash):
                await self.executor.execute(job)
        finally:
            failpoint.arm(None)
        await self.lapse(job)

    async def lapse(self, job: Job) -> None:
        """Let the lease and the engine's timeout of a job be over."""
        await self.database.execute(query("testing", "expire_leases"), self.engine.engine_id)
        self.engine.time_out(job.key)

    async def later(self) -> None:
        """Let every backoff be over."""
        self.engine.advance(3600)
        await self.database.execute(query("testing", "end_backoffs"), self.engine.engine_id)

    async def frame(self, job: Job) -> Frame:
        """The frame of a job; there must be one."""
        frame = await self.frames.read(job.key)
        assert frame is not None
        return frame

    async def column(self, job: Job, name: str) -> Any:
        """One column of a frame."""
        row = await self.database.fetchrow(f"SELECT {name} FROM verbworker.job_frame WHERE job_key = $1", job.key)
        return None if row is None else row[0]

    async def change(self, job: Job, assignment: str) -> None:
        """Change a frame as only a test may."""
        await self.database.execute(f"UPDATE verbworker.job_frame SET {assignment} WHERE job_key = $1", job.key)

    async def story(self, job: Job) -> list[str]:
        """The kinds of everything that was noted about a job, in order."""
        rows = await self.database.fetch(
            "SELECT kind FROM verbworker.frame_event WHERE job_key = $1 ORDER BY at", job.key
        )
        return [row["kind"] for row in rows]

    def known(self, job: Job) -> MemoryJob:
        """The job as the engine has it."""
        return self.engine.jobs[job.key]


def one_verb(function: Callable[..., Any], *, policy: Policy = QUICK, **options: Any) -> Registry:
    """A registry in which `desk.act` does `function`, and `desk.other` marks the account as booked."""
    verbs = Registry()
    verbs.verb(VERB, **{"mode": "external", **options})(function)

    @verbs.verb(OTHER, mode="transactional", writes=("booked",))
    async def other(account: Account) -> Account:
        """Book."""
        return account.model_copy(update={"booked": True})

    workflow = WorkflowVerb(
        name="desk.run",
        version=1,
        process=PROCESS,
        schema="desk.run/v1",
        sub_verbs=(VERB, OTHER),
        policies={VERB: policy.name},
        flag_contract=flag_contract(Flag("orch_done", FlagType.BOOLEAN, False)),
    )
    return verbs.declare(workflow, policies=[policy]).check()


def quick(**changes: Any) -> Policy:
    """A policy whose retries are due at once."""
    retry = DEFAULT_POLICY.retry.model_copy(update={"initial_interval_seconds": 1e-6, **changes.pop("retry", {})})
    return DEFAULT_POLICY.model_copy(update={"name": "quick", "retry": retry, **changes})


@asynccontextmanager
async def opened(
    dsn: str,
    registry: Registry,
    *,
    engine: ToldEngine | None = None,
    frames_type: type[Frames] = Frames,
    verbs_dsn: str | None = None,
    lease: timedelta = timedelta(seconds=30),
) -> AsyncIterator[LooplessWorker]:
    """A worker on a migrated database; a second one with the same engine is a rival worker."""
    used = engine or ToldEngine()
    with ThreadPoolExecutor(4) as threads:
        async with (
            Database(dsn, size=6) as database,
            Database(verbs_dsn or dsn, size=4) as verbs,
            asyncio.TaskGroup() as tasks,
        ):
            frames = frames_type(database, engine_id=used.engine_id, owner=uuid4(), lease=lease)
            writing = tasks.create_task(frames.run())
            leases = Leases(frames, used, engine_timeout_ms=60_000)
            returns = JobResults(used, frames, timeout=timedelta(0))
            executor = Executor(registry, used, frames, Databases(database, verbs), leases, VerbRun(threads))
            try:
                yield LooplessWorker(registry, used, database, frames, leases, returns, executor)
            finally:
                await frames.flush()
                writing.cancel()


def beside(job: Job, verb: str = OTHER) -> Job:
    """The job of a parallel branch of the same instance."""
    key, element_instance_key = job.key + 1_000_000, job.element_instance_key + 1_000_000
    return replace(job, key=key, element_id="beside", element_instance_key=element_instance_key, type=verb)
