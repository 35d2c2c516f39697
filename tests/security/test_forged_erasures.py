"""An erasure changes events that are sealed, so the owner of the tables could call any change one: it is found."""

from collections.abc import AsyncIterator

import pytest

from tests.support.logins import as_owner
from tests.support.record import RING, SealedRecord
from verbworker.errors import CannotRun
from verbworker.payload.signature import KeyRing
from verbworker.stores.cases.erasure import Erasure
from verbworker.stores.cases.seals import Seals
from verbworker.stores.database import Database

pytestmark = pytest.mark.attack("record")

OTHER_RING = KeyRing("2026", {"2026": b"a secret that the attacker made up for it"})
# Events of the decided case: 1 started, 2 decided, 3 resumed, 4 the end; the forged erasure is the fifth. As an erasure
# would, it names the hash that each changed event keeps, and the hash of what is there now.
ERASE = """
DO $$
DECLARE
  named jsonb;
BEGIN
  SELECT jsonb_object_agg(event.seq, jsonb_build_array(encode(event.hash, 'hex'), encode(event.due, 'hex')))
  INTO named
  FROM (
    SELECT one.seq, one.hash, verbworker.event_hash(
      coalesce(lag(one.hash) OVER (ORDER BY one.seq), verbworker.first_hash(entry.entry_id, entry.asked)), one.entry_id,
      one.seq, one.at, one.kind, one.once, one.detail, one.status, one.salt, one.digests) AS due
    FROM verbworker.runbook_event AS one
    JOIN verbworker.runbook_entry AS entry USING (entry_id)
    WHERE one.entry_id = '{entry}'
  ) AS event
  WHERE event.hash <> event.due;
  PERFORM verbworker.append_event(
    '{entry}', 'Erased', 'erasure:1', jsonb_build_object('by', 'op', 'rows', '{}'::jsonb, 'events', named));
END
$$;
"""
EVENT = "UPDATE verbworker.runbook_event SET {} WHERE entry_id = '{{entry}}' AND seq = "
FORGED = {
    "a decision": (
        EVENT.format("""detail = detail || '{"decision": "reject"}'""") + "2",
        "UPDATE verbworker.gate_decision SET decision = 'reject' WHERE entry_id = '{entry}'",
        "UPDATE verbworker.runbook_event SET digests = verbworker.digest_decision(made, salt)"
        " FROM verbworker.gate_decision AS made WHERE made.entry_id = '{entry}'"
        " AND runbook_event.entry_id = '{entry}' AND seq = 2",
    ),
    "who decided": (
        EVENT.format("""detail = detail || '{"by": "mallory"}', digests = NULL""") + "2",
        "UPDATE verbworker.gate_decision SET decided_by = 'mallory' WHERE entry_id = '{entry}'",
    ),
    "an outcome": (
        EVENT.format("""digests = '{"outcome": null}'""") + "4",
        "UPDATE verbworker.runbook_entry SET outcome = NULL WHERE entry_id = '{entry}'",
    ),
    "a status": (
        EVENT.format("status = 'failed'") + "4",
        "UPDATE verbworker.runbook_entry SET status = 'failed' WHERE entry_id = '{entry}'",
    ),
    "the text of an event": (EVENT.format("""detail = '{"text": "nothing to see"}'""") + "3",),
}


@pytest.fixture
async def record(dsn: str) -> AsyncIterator[SealedRecord]:
    async with Database(dsn, size=4) as database:
        yield await SealedRecord.make(database, dsn)


@pytest.mark.parametrize("name", list(FORGED))
async def test_a_change_that_is_called_an_erasure_is_found(record: SealedRecord, name: str) -> None:
    await record.attack(*FORGED[name], ERASE)
    before = await record.places()
    await record.seals.seal_moves(limit=100)

    assert before == await record.places() == {("erasure", record.decided.entry_id, 5)}
    assert await record.places(ring=None) == {("erasure", record.decided.entry_id, 5)}


@pytest.mark.parametrize("ring", [None, OTHER_RING], ids=["unsigned", "another secret"])
async def test_a_forged_erasure_with_a_seal_of_its_own_is_found(record: SealedRecord, ring: KeyRing | None) -> None:
    await record.attack(*FORGED["a decision"], ERASE)
    await record.seals.seal_moves(limit=100)
    await record.attack("UPDATE verbworker.runbook_seal_line SET erased = true WHERE number = 3")
    await record.reseal(ring)

    assert ("signature", None, 3) in await record.places()


async def test_a_line_that_is_changed_into_one_of_an_erasure_is_found(record: SealedRecord) -> None:
    await record.attack(*FORGED["a decision"], ERASE)
    await record.seals.seal_moves(limit=100)
    await record.attack("UPDATE verbworker.runbook_seal_line SET erased = true WHERE number = 3")

    assert await record.places() == {("lines", None, 3)}


async def test_an_erasure_needs_the_key_of_the_seals_and_is_sealed_with_it(record: SealedRecord) -> None:
    async with Database(as_owner(record.dsn), size=2) as owner:
        with pytest.raises(CannotRun, match="VERBWORKER_SEAL_KEYS"):
            await Erasure(owner, Seals(owner)).erase("default", record.decided.entry_id, by="op")
        assert await record.places() == set()
        await Erasure(owner, Seals(owner, RING)).erase("default", record.decided.entry_id, by="op")
    check = await record.verify()

    assert (check.findings, check.erased, check.seals.unsealed) == ((), 1, ())


async def test_after_an_erasure_another_change_cannot_be_called_one(record: SealedRecord) -> None:
    async with Database(as_owner(record.dsn), size=2) as owner:
        await Erasure(owner, Seals(owner, RING)).erase("default", record.decided.entry_id, by="op")
    await record.attack(*FORGED["a status"], ERASE.replace("erasure:1", "erasure:2"))

    assert await record.places() == {("erasure", record.decided.entry_id, 6)}
