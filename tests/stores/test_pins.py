"""An instance whose starter died before noting its key, on an engine whose key another instance has already."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from tests.support.ledger import TABLE, Provider, ledger_registry, ledger_workflow
from tests.support.start import begin, prepare
from verbworker.engine import Ask, Start
from verbworker.job import RESERVED
from verbworker.stores._database import Database
from verbworker.stores.frames import Frames
from verbworker.testing.memory import JobState, MemoryEngine
from verbworker.work.executor import Databases, Executor
from verbworker.work.heart import Heart
from verbworker.work.performance import Performance


@pytest.mark.req("X-07")
async def test_a_key_that_belongs_to_another_instance_is_an_incident_that_says_so(dsn: str) -> None:
    registry = ledger_registry(Provider())
    workflow = ledger_workflow(registry, "ledger")
    old, new = MemoryEngine(), MemoryEngine()
    for engine in (old, new):
        engine.line(workflow.process, ["ledger.book"])
    async with Database(dsn, size=4) as database, asyncio.TaskGroup() as tasks:
        await database.execute(TABLE)
        await begin(database, old, workflow, {"amount": 1})
        ready = await prepare(database, new.engine_id, workflow, {"amount": 2})
        await new.start(Start(workflow.process, ready.variables))
        (job,) = await new.activate(Ask("ledger.book", "tests", 60_000, RESERVED), 1, 0)
        frames = Frames(database, engine_id=new.engine_id, owner=uuid4())
        writing = tasks.create_task(frames.run())
        with ThreadPoolExecutor(1) as threads:
            heart = Heart(frames, new, engine_timeout_ms=60_000)
            databases = Databases(database, database)
            await Executor(registry, new, frames, databases, heart, Performance(threads)).execute(job)
        row: Any = await database.fetchrow("SELECT state, fail_class, fail_code FROM verbworker.job_frame")
        effects: Any = await database.fetchrow("SELECT count(*) FROM ledger")
        writing.cancel()

    assert tuple(row) == ("incident", "PermanentContract", "InstanceMismatch")
    assert tuple(effects) == (0,)
    assert new.jobs[job.key].state is JobState.INCIDENT
