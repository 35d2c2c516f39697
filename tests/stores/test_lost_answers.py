"""A database whose answer is lost on the way back: the claim was written, and its worker recognises it as its own."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest

from tests.support.ledger import TABLE, Provider, ledger_registry, ledger_workflow
from tests.support.start import begin
from verbworker.engine.protocol import Ask
from verbworker.errors import StoreUnavailable
from verbworker.job.frame import Claim, Delivery
from verbworker.job.job import RESERVED, Job
from verbworker.stores.database import Database
from verbworker.stores.jobs.frames import Frames
from verbworker.testing.memory import JobState, MemoryEngine
from verbworker.work.feeds.leases import Leases
from verbworker.work.jobs.executor import Databases, Executor
from verbworker.work.jobs.perform import VerbRun


class ForgetfulFrames(Frames):
    """Frames that write, and lose what the database answered to the first claim."""

    has_lost = False

    async def push(self, delivery: Delivery) -> Claim | None:
        claim = await super().push(delivery)
        if not self.has_lost:
            self.has_lost = True
            raise StoreUnavailable("the connection broke before the answer came")
        return claim


@asynccontextmanager
async def _delivered(database: Database, engine: MemoryEngine) -> AsyncIterator[tuple[Executor, Job]]:
    registry = ledger_registry(Provider())
    await database.execute(TABLE)
    engine.line("ledger-settle", ["ledger.book"])
    await begin(database, engine, ledger_workflow(registry, "ledger"), {"amount": 1})
    (job,) = await engine.activate(Ask("ledger.book", "tests", 60_000, RESERVED), 1, 0)
    frames = ForgetfulFrames(database, engine_id=engine.engine_id, owner=uuid4())
    with ThreadPoolExecutor(1) as threads:
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(frames.run())
            leases = Leases(frames, engine, engine_timeout_ms=60_000)
            yield (
                Executor(registry, engine, frames, Databases(database, database), leases, VerbRun(threads)),
                job,
            )
            writing.cancel()


@pytest.mark.req("JOB-12")
async def test_a_claim_whose_answer_was_lost_runs_on_at_once(dsn: str) -> None:
    engine = MemoryEngine()
    async with Database(dsn, size=4) as database, _delivered(database, engine) as (executor, job):
        await executor.execute(job)

        row: Any = await database.fetchrow("SELECT runs, epoch, state FROM verbworker.job_frame")

    assert engine.jobs[job.key].state is JobState.COMPLETED
    assert tuple(row) == (1, 1, "completed")
