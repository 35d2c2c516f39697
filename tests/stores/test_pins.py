"""Instances whose key another instance has: a broker that lost its last records gives keys out again."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from tests.support.ledger import TABLE, Provider, ledger_registry, ledger_workflow
from tests.support.start import Begun, begin, prepare
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Ask, Start
from verbworker.errors import StoreError
from verbworker.job.job import RESERVED, Job
from verbworker.payload.boundary import JobVariables
from verbworker.stores.cases.instances import Instances
from verbworker.stores.database import Database
from verbworker.stores.jobs.frames import Frames
from verbworker.testing.memory import JobState, MemoryEngine
from verbworker.work.feeds.leases import Leases
from verbworker.work.jobs.executor import Databases, Executor
from verbworker.work.jobs.perform import VerbRun


class Reused:
    """Two engines under one id: the second gives out the keys of the first again."""

    def __init__(self, database: Database, workflow: WorkflowVerb, executor: Executor, new: MemoryEngine) -> None:
        self.database = database
        self.workflow = workflow
        self.executor = executor
        self.new = new
        self.old: Begun | None = None

    async def job(self, **changes: object) -> Job:
        """The first job of an instance on the second engine."""
        ready = await prepare(self.database, self.new.engine_id, self.workflow, {"amount": 2})
        self.uid = ready.instance_uid
        await self.new.start(Start(self.workflow.process, {**ready.variables, **changes}))
        (job,) = await self.new.activate(Ask("ledger.book", "tests", 60_000, RESERVED), 1, 0)
        return job

    async def row(self, sql: str, *args: object) -> tuple[Any, ...]:
        """One row."""
        row: Any = await self.database.fetchrow(sql, *args)
        return tuple(row)


@pytest.fixture
async def reused(dsn: str) -> AsyncIterator[Reused]:
    async with _reused(dsn) as reused:
        yield reused


@asynccontextmanager
async def _reused(dsn: str) -> AsyncIterator[Reused]:
    registry = ledger_registry(Provider())
    workflow = ledger_workflow(registry, "ledger")
    old, new = MemoryEngine(), MemoryEngine()
    for engine in (old, new):
        engine.line(workflow.process, ["ledger.book"])
    async with Database(dsn, size=4) as database, asyncio.TaskGroup() as tasks:
        await database.execute(TABLE)
        frames = Frames(database, engine_id=new.engine_id, owner=uuid4())
        writing = tasks.create_task(frames.run())
        with ThreadPoolExecutor(1) as threads:
            leases = Leases(frames, new, engine_timeout_ms=60_000)
            databases = Databases(database, database)
            executor = Executor(registry, new, frames, databases, leases, VerbRun(threads))
            reused = Reused(database, workflow, executor, new)
            reused.old = await begin(database, old, workflow, {"amount": 1})
            yield reused
        writing.cancel()


@pytest.mark.req("X-07")
async def test_a_key_that_was_given_out_again_goes_to_the_instance_whose_payload_came_with_it(reused: Reused) -> None:
    job = await reused.job()
    assert reused.old is not None
    assert job.process_instance_key == reused.old.instance_key

    await reused.executor.execute(job)

    instance = "SELECT instance_key, status FROM verbworker.workflow_instance WHERE instance_uid = $1"
    assert await reused.row(instance, reused.uid) == (job.process_instance_key, "active")
    assert await reused.row(instance, reused.old.instance_uid) == (None, "starting")
    assert await reused.row("SELECT count(*) FROM ledger") == (1,)


@pytest.mark.req("X-07")
async def test_a_key_of_another_instance_without_its_own_payload_is_an_incident_that_says_so(reused: Reused) -> None:
    job = await reused.job(domain_payload="{}")

    await reused.executor.execute(job)

    assert reused.old is not None
    row = await reused.row("SELECT state, fail_class, fail_code FROM verbworker.job_frame")
    assert row == ("incident", "PermanentContract", "InstanceMismatch")
    assert await reused.row("SELECT count(*) FROM ledger") == (0,)
    assert await reused.row(
        "SELECT instance_key FROM verbworker.workflow_instance WHERE instance_uid = $1", reused.old.instance_uid
    ) == (reused.old.instance_key,)
    assert reused.new.jobs[job.key].state is JobState.INCIDENT


@pytest.mark.req("X-07")
@pytest.mark.parametrize("was_done", [True, False])
async def test_a_job_key_that_was_given_out_again_runs_the_new_job_and_keeps_the_old_frame(
    reused: Reused, was_done: bool
) -> None:
    before = await reused.job()
    claim = None
    if was_done:
        await reused.executor.execute(before)
    else:
        claim, _ = await reused.executor._claim(before, JobVariables.of(before), 0.0)
    other = await reused.job()
    again = replace(other, key=before.key)

    await reused.executor.execute(again)

    assert await reused.row("SELECT count(*) FROM ledger") == (2 if was_done else 1,)
    now = await reused.row("SELECT instance_uid, state::text, epoch > 1 FROM verbworker.job_frame")
    assert now == (reused.uid, "completed", True)
    kept = await reused.row("SELECT state::text, job_key FROM verbworker.job_frame_archive")
    assert kept == ("completed" if was_done else "failed", before.key)
    assert await reused.row("SELECT count(*) FROM verbworker.frame_conflict") == (1,)
    assert (claim is None) == was_done


async def test_a_refusal_that_is_not_about_the_key_is_no_mismatch(reused: Reused) -> None:
    """As a missing grant, which a person repairs without touching the job."""
    job = await reused.job()
    await reused.database.execute(
        "ALTER TABLE verbworker.workflow_instance ADD CONSTRAINT no_pins CHECK (instance_key IS NULL) NOT VALID"
    )
    instances = Instances(reused.database)

    for takes_key in (True, False):
        with pytest.raises(StoreError, match="no_pins"):
            await instances.pin(reused.uid, instance_key=4711, definition_key=1, version=1, takes_key=takes_key)
    await reused.executor.execute(job)

    row = await reused.row("SELECT state::text, fail_class, fail_code FROM verbworker.job_frame")
    assert row == ("failed", "UnexpectedError", "StoreError")
    assert reused.new.jobs[job.key].state is JobState.BACKING_OFF
