"""An instance that the engine lost and whose key it gave to another: it is named for what it is, and can be ended."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import uuid4

import pytest

from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE
from verbworker.engine.known_faults import lost_remedy
from verbworker.runbook.event import Status, Wait
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.stalls import Stalls
from verbworker.stores.database import Database
from verbworker.testing.memory import MemoryEngine
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.upkeep.stalls import StallDetector

MINUTE = timedelta(minutes=1)


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


async def lost(database: Database) -> StoredEntry:
    """An entry that was started, and whose key is another's now."""
    stored, other = await StoredEntry.open(database, attempts=1), await StoredEntry.open(database, attempts=1)
    await stored.start(7)
    await other.start(7)
    await database.execute("UPDATE verbworker.runbook_entry SET updated_at = clock_timestamp() - interval '1 hour'")
    await database.execute("UPDATE verbworker.dispatch SET done_at = clock_timestamp()")
    return stored


async def note(database: Database) -> None:
    engine = MemoryEngine(ENGINE)
    detector = StallDetector(database, engine, after=MINUTE, gates_after=MINUTE, caught_up_for=lambda: 3600.0)
    await detector.note()


async def test_an_instance_whose_key_is_anothers_is_named_as_lost_by_the_engine(database: Database) -> None:
    stored = await lost(database)
    await note(database)
    (stall,) = await Stalls(database).of_entry(stored.entry_id)

    assert "gave its key to another instance" in stall.reason
    assert stall.remedy == lost_remedy("memory")


async def test_an_instance_that_the_engine_lost_can_be_cancelled(database: Database) -> None:
    stored = await lost(database)
    cancelling = Cancellation(database, Dispatches(database, engine_id=ENGINE, owner=uuid4()), MemoryEngine(ENGINE))

    entry = await cancelling.cancel(stored.entry_id, tenant_id="default", by="ada", reason="lost")

    assert entry.status is Status.CANCELLED


@pytest.mark.parametrize(("version", "words"), [("8.6.0", "restart the brokers"), ("embedded 0.1.0", "check that")])
def test_the_remedy_of_a_lost_instance_ends_with_its_end(version: str, words: str) -> None:
    remedy = lost_remedy(version)

    assert remedy.startswith(words)
    assert "verbworker runbook cancel" in remedy


# ---- keys that the engine gave to another case -----------------------------------------------------------------------


async def test_what_waits_under_a_key_that_is_anothers_now_is_over(database: Database) -> None:
    stored, other = await StoredEntry.open(database, attempts=1), await StoredEntry.open(database, attempts=1)
    await stored.start(7)
    await stored.park(stored.token(instance_key=7))
    await other.start(7)

    assert (await stored.entry()).status is Status.EXECUTING
    assert await stored.value("SELECT closed_as FROM verbworker.parked_token") == "gone"


@pytest.mark.parametrize("kind", [Wait.HUMAN_GATE, Wait.EXTERNAL_SIGNAL, Wait.INCIDENT])
async def test_a_wait_is_the_one_of_the_case_that_has_its_key_now(database: Database, kind: Wait) -> None:
    stored, other = await StoredEntry.open(database), await StoredEntry.open(database)
    await stored.park(stored.token(5, kind))
    await other.park(other.token(5, kind))
    rows = await database.fetch("SELECT entry_id, closed_as, element_instance_key FROM verbworker.parked_token")
    known = {row["entry_id"]: (row["closed_as"], row["element_instance_key"]) for row in rows}

    assert known == {stored.entry_id: ("gone", -1), other.entry_id: (None, 5)}


async def test_a_cancel_of_an_instance_that_the_engine_lost_meanwhile_is_carried_out(database: Database) -> None:
    stored, other = await StoredEntry.open(database, attempts=1), await StoredEntry.open(database, attempts=1)
    await stored.start(7)
    dispatches = Dispatches(database, engine_id=ENGINE, owner=uuid4())
    await Cancellation(database, dispatches).cancel(stored.entry_id, tenant_id="default", by="ada", reason="late")
    await other.start(7)

    assert await Cancellation(database, dispatches, MemoryEngine(ENGINE)).drain(longer_than=timedelta(0)) == 1
    assert (await stored.entry()).status is Status.CANCELLED
    assert (await stored.events())[-1].detail["reason"] == "late"
    assert (await other.entry()).status is Status.EXECUTING
