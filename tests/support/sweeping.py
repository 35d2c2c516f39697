"""Workers that die on an engine whose timeouts are lost, and the sweep of one that lives."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

import pytest

from verbworker.engine.protocol import Engine
from verbworker.job import failpoint
from verbworker.job.failpoint import Point
from verbworker.job.job import Job
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.database import Database
from verbworker.stores.jobs.deliveries import Deliveries
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.leases import ExpiredLeases
from verbworker.testing.kit import Crash
from verbworker.work.jobs.executor import Executor
from verbworker.work.jobs.verdicts import JobResults
from verbworker.work.listeners.job_handler import Serving
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.upkeep.reconciler import Reconciler
from verbworker.work.upkeep.sweep import Sweep

GRACE = timedelta(seconds=5)
LONG_OVER = """
UPDATE verbworker.job_{what}
SET lease_until = clock_timestamp() - interval '1 hour'
WHERE lease_until > clock_timestamp() - interval '1 minute'
"""
ROWS = "SELECT type, owner, lease_until > clock_timestamp() AS is_live FROM verbworker.job_delivery ORDER BY job_key"


def sweeper(database: Database, engine: Engine) -> Sweep:
    """The sweep of a worker that just began: it has nothing but a connection and a name."""
    owner = uuid4()
    frames = Frames(database, engine_id=engine.engine_id, owner=owner)
    deliveries = Deliveries(database, engine_id=engine.engine_id, owner=owner)
    cancelling = Cancellation(database, Dispatches(database, engine_id=engine.engine_id, owner=owner), engine)
    leases = ExpiredLeases(database, frames, grace=GRACE)
    return Sweep(engine, frames, leases, deliveries, Reconciler(database, engine, cancelling))


@asynccontextmanager
async def serving(
    database: Database, engine: Engine, **options: timedelta
) -> AsyncIterator[tuple[Serving, Deliveries]]:
    """What a worker has around its handlers, with its writer running."""
    deliveries = Deliveries(database, engine_id=engine.engine_id, owner=uuid4(), **options)
    returns = JobResults(engine, Frames(database, engine_id=engine.engine_id, owner=uuid4()), timeout=timedelta(0))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(deliveries.run())
        try:
            yield Serving(deliveries, returns.give_back_without_claim), deliveries
        finally:
            running.cancel()


async def leases_end(database: Database) -> None:
    """Let every lease be over for longer than any grace."""
    for what in ("frame", "delivery"):
        await database.execute(LONG_OVER.format(what=what))


async def die(executor: Executor, job: Job, point: Point) -> None:
    """Work a job off in a worker that is killed at `point`. The engine hears nothing of it."""

    def strike(reached: Point) -> None:
        if reached is point:
            raise Crash

    failpoint.arm(strike)
    try:
        with pytest.raises(Crash):
            await executor.execute(job)
    finally:
        failpoint.arm(None)


async def reconcile(sweep: Sweep, database: Database) -> None:
    """Let the instances that a sweep missed in the engine be missed for a while, and look after them."""
    await database.execute("UPDATE verbworker.workflow_instance SET missed_at = missed_at - interval '1 hour'")
    await sweep._reconciler.look()
