"""A broker that lost its last records gives keys out again: each entry has that of its own instance back soon."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import uuid4

import pytest

from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE, FIRST
from verbworker.engine.protocol import Ask, Start
from verbworker.errors import TransientInfrastructure
from verbworker.job.frame import InstanceFacts
from verbworker.job.job import ENTRY_ID, INSTANCE_UID, PAYLOAD, RESERVED, TENANT_ID, Job
from verbworker.payload.boundary import JobVariables
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.instances import Instances
from verbworker.stores.database import Database
from verbworker.testing.memory import MemoryEngine
from verbworker.work.starts.duplicate_instances import CONTENDED_FOR, InstanceIdentity


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


@pytest.fixture
def engine() -> MemoryEngine:
    engine = MemoryEngine(ENGINE)
    engine.line("kyc", ["kyc.check"])
    return engine


def identity(database: Database, engine: MemoryEngine, patience: timedelta = CONTENDED_FOR) -> InstanceIdentity:
    dispatches = Dispatches(database, engine_id=ENGINE, owner=uuid4())
    return InstanceIdentity(Instances(database), engine, dispatches, patience=patience)


async def started(engine: MemoryEngine, stored: StoredEntry) -> Job:
    """The job of one more engine instance of an entry."""
    variables = {
        ENTRY_ID: str(stored.entry_id),
        INSTANCE_UID: str(stored.instance_uid),
        TENANT_ID: "default",
        PAYLOAD: FIRST.decode(),
    }
    await engine.start(Start("kyc", variables))
    (job,) = await engine.activate(Ask("kyc.check", "tests", 60_000, RESERVED), 1, 0)
    return job


async def admitted(
    identity: InstanceIdentity, database: Database, stored: StoredEntry, job: Job
) -> InstanceFacts | None:
    known = await Instances(database).facts(stored.instance_uid)
    return await identity.admit(job, JobVariables.of(job), known)


async def test_entries_whose_keys_have_moved_on_in_a_row_have_their_own_again(
    database: Database, engine: MemoryEngine
) -> None:
    # Each is known by the key that the next one has now; what the first was known by is an instance of nobody's.
    entries = [await StoredEntry.open(database, attempts=1) for _ in range(3)]
    jobs = [await started(engine, stored) for stored in entries]
    nobodys = (await engine.start(Start("kyc", {}))).instance_key
    for stored, key in zip(entries, [nobodys, *(job.process_instance_key for job in jobs)], strict=False):
        assert await stored.start(key)
    guard = identity(database, engine)
    for stored, job in zip(entries, jobs, strict=True):
        with pytest.raises(TransientInfrastructure, match="may be another's now"):
            await admitted(guard, database, stored, job)
    await engine.cancel(nobodys)

    known = [await admitted(guard, database, stored, job) for stored, job in zip(entries, jobs, strict=True)]

    assert [one and one.instance_key for one in known] == [job.process_instance_key for job in jobs]


async def test_an_identity_that_stays_copied_is_left_to_a_person(database: Database, engine: MemoryEngine) -> None:
    stored = await StoredEntry.open(database, attempts=1)
    own = await started(engine, stored)
    await stored.start(own.process_instance_key)
    copy = await started(engine, stored)
    guard = identity(database, engine, timedelta(0))

    known = await admitted(guard, database, stored, copy)

    assert known is not None
    assert known.instance_key == own.process_instance_key
