"""The store of task profiles: what was kept is found again, and visits to a step are counted once each."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.frames import make_instance, make_job
from tests.support.profiled import VerbRecorder, profiled_model, profiled_registry
from verbworker.model.weave import weave
from verbworker.profile.task_profile import HEADER
from verbworker.stores.cases.instances import Instances
from verbworker.stores.database import Database
from verbworker.stores.deployments import Deployments
from verbworker.stores.task_profiles import TaskProfileStore


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=2) as opened:
        yield opened


@pytest.fixture
def store(database: Database) -> TaskProfileStore:
    return TaskProfileStore(database, engine_id="engine-1")


@pytest.mark.req("POL-05", "CPL-13")
async def test_terms_are_found_by_the_digest_a_job_carries(database: Database, store: TaskProfileStore) -> None:
    compiled = weave(profiled_model("doc"), profiled_registry("doc", VerbRecorder())).compiled
    job = make_job(element_id="ask", headers={HEADER: compiled.ir_digest})
    assert await store.of(job) is None

    await Deployments(database, engine_id="engine-1").record_task_profiles(compiled)
    await Deployments(database, engine_id="engine-2").record_task_profiles(compiled)

    terms = await store.of(job)
    assert terms is not None
    assert (terms.digest, terms.definition_id) == (compiled.ir_digest, "1")
    assert terms.task("ask").counts_steps
    assert await store.of(job) is terms
    assert await store.of(replace(job, headers={})) is None


@pytest.mark.req("TPL-08")
async def test_visits_that_come_at_once_get_numbers_of_their_own(dsn: str) -> None:
    async with Database(dsn, size=8) as crowded:
        store = TaskProfileStore(crowded, engine_id="engine-1")
        jobs = [make_job(key, element_instance_key=key) for key in range(1, 41)]
        numbers = await asyncio.gather(*(store.visit(job) for job in jobs))
        again = await asyncio.gather(*(store.visit(job) for job in reversed(jobs)))

    assert sorted(numbers) == list(range(1, 41))
    assert again == numbers[::-1]


@pytest.mark.req("TPL-08")
async def test_each_step_of_each_instance_counts_for_itself(store: TaskProfileStore) -> None:
    first = make_job(element_id="ask", element_instance_key=1)

    numbers = [
        await store.visit(job)
        for job in (
            first,
            replace(first, element_instance_key=2),
            replace(first, element_id="settle", element_instance_key=3),
            replace(first, process_instance_key=first.process_instance_key + 1, element_instance_key=4),
            replace(first, key=first.key + 1),
        )
    ]

    assert numbers == [1, 2, 1, 1, 1]


async def test_the_counts_of_an_instance_that_ended_are_forgotten(database: Database, store: TaskProfileStore) -> None:
    jobs = [make_job(key, process_instance_key=key, element_instance_key=key) for key in (1, 2)]
    instances = [make_instance(), make_instance()]
    for job, instance in zip(jobs, instances, strict=True):
        await Instances(database).open(instance)
        await Instances(database).pin(instance.instance_uid, instance_key=job.key, definition_key=1, version=1)
        await store.visit(job)
    ended = "UPDATE verbworker.workflow_instance SET ended_at = now() - interval '1 hour' WHERE instance_uid = $1"
    await database.execute(ended, instances[0].instance_uid)

    forgotten = await store.forget_visits(ended_before=timedelta(minutes=10), limit=100)

    left = await database.fetch("SELECT process_instance_key FROM verbworker.step_visit")
    assert (forgotten, [row["process_instance_key"] for row in left]) == (1, [2])
