"""Whether a code may be thrown, asked of the record of deployments: late, away or without an answer."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.case_models import BEGIN, END, boundary, flows, task
from tests.support.weaving import BY_ERROR, woven
from verbworker.engine.protocol import Deployed
from verbworker.errors import StoreConflict, StoreError, StoreUnavailable
from verbworker.job.job import Job
from verbworker.job.outcome import Incident, Thrown
from verbworker.model.catches import Catches, StepCatches
from verbworker.model.weave import Woven
from verbworker.stores.database import Database
from verbworker.stores.deployments import Deployments
from verbworker.work.jobs.error_catchers import ErrorCatchers

JOB = Job(
    key=1,
    type="kyc.check",
    retries=3,
    activated_ms=0,
    timeout_ms=0,
    process_instance_key=2,
    element_instance_key=3,
    process_definition_key=7,
    process_version=1,
    process_id="case",
    element_id="work",
    tenant_id="tests",
)
REFUSED = Thrown("REFUSED", "the domain says no")


class Counted(Deployments):
    """The record, with how often it was read, and what goes wrong first."""

    def __init__(self, database: Database, *troubles: StoreError) -> None:
        super().__init__(database, engine_id="here")
        self.reads = 0
        self.first_read = asyncio.Event()
        self._troubles = list(troubles)

    async def catches(self, definition_key: int) -> Catches | None:
        self.reads += 1
        if self._troubles:
            raise self._troubles.pop()
        found = await super().catches(definition_key)
        self.first_read.set()
        return found


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=2) as database:
        yield database


def _caught() -> Woven:
    """A woven model whose step `work` has a boundary event for REFUSED."""
    return woven(BEGIN, END, task("work", "kyc.check"), boundary("no", "work", "end", BY_ERROR), flows("begin", "work"))


async def _request(deployments: Deployments, made: Woven) -> None:
    await deployments.request(made, resource="x", authored_sha256=b"1" * 32, by="a")


async def _record(deployments: Deployments, made: Woven) -> None:
    await deployments.record(Deployed("case", 1, 7, "case.bpmn"), made, resource="x", authored_sha256=b"1" * 32, by="a")


async def test_a_definition_is_read_once(database: Database) -> None:
    deployments = Counted(database)
    await _record(deployments, _caught())
    catchers = ErrorCatchers(deployments, object())

    assert [await catchers.judge(JOB, REFUSED) for _ in range(3)] == [REFUSED] * 3
    assert isinstance(await catchers.judge(JOB, Thrown("OTHER", "no")), Incident)
    assert deployments.reads == 1


async def test_a_job_that_is_quicker_than_the_record_of_its_deployment_waits_for_it(database: Database) -> None:
    deployments = Counted(database)
    catchers = ErrorCatchers(deployments, object(), grace=timedelta(seconds=30))
    async with asyncio.TaskGroup() as tasks:
        judged = tasks.create_task(catchers.judge(JOB, REFUSED))
        await deployments.first_read.wait()
        await _record(deployments, _caught())

    assert judged.result() == REFUSED


async def test_a_definition_that_is_not_on_record_is_looked_for_again_by_the_next_job(database: Database) -> None:
    deployments = Counted(database)
    catchers = ErrorCatchers(deployments, object(), grace=timedelta(0))

    unknown = await catchers.judge(JOB, REFUSED)
    await _record(deployments, _caught())

    assert unknown == Incident(
        "PermanentBusiness",
        "REFUSED",
        "the domain says no; whether the model catches REFUSED is unknown, because definition 7 is not on record here;"
        " deploy it by verbworker deploy, then release the frame",
    )
    assert await catchers.judge(JOB, REFUSED) == REFUSED


async def test_a_definition_whose_deployment_was_not_answered_is_judged_by_what_was_asked_for(
    database: Database,
) -> None:
    deployments = Counted(database)
    catchers = ErrorCatchers(deployments, object(), grace=timedelta(0))
    await _request(deployments, _caught())

    asked = await catchers.judge(JOB, REFUSED)
    other = await catchers.judge(JOB, Thrown("OTHER", "no"))

    assert (asked, isinstance(other, Incident)) == (REFUSED, True)


async def test_a_definition_of_another_process_is_not_judged_by_what_was_asked_for(database: Database) -> None:
    deployments = Counted(database)
    await _request(deployments, _caught())

    judged = await ErrorCatchers(deployments, object(), grace=timedelta(0)).judge(
        replace(JOB, process_id="other"), REFUSED
    )

    assert isinstance(judged, Incident)


async def test_of_two_deployments_that_were_not_answered_neither_is_taken_for_the_definition(
    database: Database,
) -> None:
    deployments = Counted(database)
    await _request(deployments, _caught())
    await _request(deployments, woven(BEGIN, END, task("work", "kyc.check"), flows("begin", "work", "end")))

    judged = await ErrorCatchers(deployments, object(), grace=timedelta(0)).judge(JOB, REFUSED)

    assert isinstance(judged, Incident)


async def test_a_database_that_is_away_is_waited_for(database: Database) -> None:
    troubles = (StoreUnavailable("the connection broke"), StoreConflict("deadlock detected"))
    deployments = Counted(database, *troubles)
    await _record(deployments, _caught())

    assert await ErrorCatchers(deployments, object(), grace=timedelta(0)).judge(JOB, REFUSED) == REFUSED
    assert deployments.reads == 3


async def test_what_a_definition_catches_is_read_from_its_bytes_where_nobody_kept_it(database: Database) -> None:
    made, deployments = _caught(), Deployments(database, engine_id="here")
    await _record(deployments, made)
    kept = await deployments.catches(7)
    await database.execute("UPDATE verbworker.process_deployment SET catches = NULL")

    assert kept == {"work": StepCatches(("REFUSED",), hosts=("work",))}
    assert await deployments.catches(7) == kept
    assert await deployments.catches(8) is None
