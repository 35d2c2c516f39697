"""What the owner of the database can do to the record, on a real Postgres: each is found, with its place named."""

from collections.abc import AsyncIterator

import pytest

from tests.support.record import REHASH, RING, SealedRecord
from verbworker.payload.signature import KeyRing
from verbworker.runbook.checkpoint import Checkpoint
from verbworker.stores.cases.seals import Seals
from verbworker.stores.database import Database

pytestmark = pytest.mark.attack("record")

OTHER_RING = KeyRing("2026", {"2026": b"a secret that the attacker made up for it"})
# The events of the decided case: 1 started, 2 decided, 3 resumed, 4 the end.
ENTRY = "UPDATE verbworker.runbook_entry SET {} WHERE entry_id = '{{entry}}'"
DECISION = "UPDATE verbworker.gate_decision SET {} WHERE entry_id = '{{entry}}'"
EVENT = "UPDATE verbworker.runbook_event SET {} WHERE entry_id = '{{entry}}' AND seq = "
LOSE = "DELETE FROM verbworker.runbook_event WHERE entry_id = '{entry}' AND seq "
POINT = """
UPDATE verbworker.runbook_entry AS entry
SET last_seq = event.seq, last_hash = event.hash, status = event.status, ended_at = NULL, outcome = NULL
FROM verbworker.runbook_event AS event
WHERE entry.entry_id = '{entry}' AND event.entry_id = entry.entry_id AND event.seq = 3
"""
FORGED = {
    "sentence": (ENTRY.format("sentence = 'Close the case'"), "sentence", None),
    "invocation": (ENTRY.format("invocation = '(kyc.close-case)'"), "invocation", None),
    "args": (ENTRY.format("""args = '{"client":"Mallory"}'"""), "args", None),
    "asked_by": (ENTRY.format("asked_by = 'mallory'"), "asked_by", None),
    "asked_by_id": (ENTRY.format("asked_by_id = gen_random_uuid()"), "asked_by", None),
    "verb": (ENTRY.format("verb = 'kyc.close-case'"), "verb", None),
    "version of the verb": (ENTRY.format("verb_version = '9'"), "verb", None),
    "moment": (ENTRY.format("created_at = created_at - interval '1 year'"), "verb", None),
    "request key": (ENTRY.format("request_key = 'order-2'"), "request_key", None),
    "request hash": (ENTRY.format("request_hash = 'x'"), "request_key", None),
    "provenance": (ENTRY.format("""provenance = '{"ip":"10.0.0.1"}'"""), "origin", None),
    "outcome": (ENTRY.format("""outcome = '{"approved":false}'"""), "outcome", 4),
    "no outcome": (ENTRY.format("outcome = NULL"), "outcome", 4),
    "status": (ENTRY.format("status = 'failed'"), "status", 4),
    "end": (ENTRY.format("ended_at = ended_at - interval '1 year'"), "ended_at", 4),
    "version of the process": (ENTRY.format("process_version = 9"), "process_version", 1),
    "decision": (DECISION.format("decision = 'reject'"), "decision.decision", 2),
    "decided_by": (DECISION.format("decided_by = 'mallory'"), "decision.decided_by", 2),
    "decided_by_id": (DECISION.format("decided_by_id = gen_random_uuid()"), "decision.decided_by", 2),
    "reason": (DECISION.format("reason = 'the boss said so'"), "decision.reason", 2),
    "moment of the decision": (
        DECISION.format("decided_at = now() - interval '1 d'"),
        "decision.gate or decided_at",
        2,
    ),
    "gate": (DECISION.format("gate = 'Update_other'"), "decision.gate or decided_at", 2),
    "whose decision": (DECISION.format("instance_uid = gen_random_uuid()"), "decision.gate or decided_at", 2),
    "no decision": ("DELETE FROM verbworker.gate_decision WHERE entry_id = '{entry}'", "decision.missing", 2),
    "detail of an event": (EVENT.format("""detail = detail || '{"reason": "x"}'""") + "3", "event", 3),
    "digests of an event": (EVENT.format("digests = NULL") + "2", "event", 2),
    "salt of an event": (EVENT.format("salt = gen_random_uuid()") + "3", "event", 3),
    "an event in the middle": (LOSE + "= 3", "event", 4),
    "an event at the end": (LOSE + "= 4", "event", 4),
}
"""A statement, and the place and the event that a verification names. Some find more beside it."""


@pytest.fixture
async def record(dsn: str) -> AsyncIterator[SealedRecord]:
    async with Database(dsn, size=4) as database:
        yield await SealedRecord.make(database, dsn)


async def test_a_record_as_it_was_written_has_no_finding(record: SealedRecord) -> None:
    check = await record.verify()

    assert check.findings == ()
    assert (check.entries, check.events, check.older) == (2, 5, 0)
    assert (check.seals.seals, check.seals.signed, check.seals.verified, check.seals.unsealed) == (2, 2, 2, ())


@pytest.mark.parametrize("name", list(FORGED))
async def test_a_forged_row_is_found_with_its_place(record: SealedRecord, name: str) -> None:
    statement, place, seq = FORGED[name]
    await record.attack(statement)

    assert (place, record.decided.entry_id, seq) in await record.places(ring=None)
    assert (place, record.decided.entry_id, seq) in await record.places(ring=None, entry_id=record.decided.entry_id)
    assert await record.places(ring=None, entry_id=record.opened.entry_id) == set()


async def test_a_decision_that_was_never_recorded_is_found(record: SealedRecord) -> None:
    await record.opened.park(record.opened.token(element=7))
    await record.attack(
        "INSERT INTO verbworker.gate_decision"
        " (token_id, tenant_id, entry_id, instance_uid, gate, decision, reason, decided_by)"
        " SELECT token_id, tenant_id, entry_id, instance_uid, 'review', 'approve', '', 'mallory'"
        " FROM verbworker.parked_token WHERE element_instance_key = 7"
    )

    assert await record.places() == {("decision.without event", record.opened.entry_id, None)}


async def test_events_in_another_order_are_found(record: SealedRecord) -> None:
    await record.attack(
        "UPDATE verbworker.runbook_event SET seq = -seq WHERE entry_id = '{entry}' AND seq IN (2, 3)",
        "UPDATE verbworker.runbook_event SET seq = 5 + seq WHERE entry_id = '{entry}' AND seq < 0",
    )

    assert ("event", record.decided.entry_id, 2) in await record.places()


async def test_a_removed_end_of_which_the_entry_knows_nothing_is_found(record: SealedRecord) -> None:
    await record.attack(LOSE + "= 4", POINT)

    assert await record.places() == {("truncated", record.decided.entry_id, 4)}


async def test_a_deleted_entry_is_found_with_its_events(record: SealedRecord) -> None:
    tables = ("gate_decision", "parked_token", "dispatch", "workflow_instance", "runbook_event", "runbook_entry")
    await record.attack(*(f"DELETE FROM verbworker.{table} WHERE entry_id = '{{entry}}'" for table in tables))

    assert await record.places() == {("deleted", record.decided.entry_id, 4)}


async def test_an_entry_of_another_tenant_is_missed_where_it_was(record: SealedRecord) -> None:
    await record.attack(ENTRY.format("tenant_id = 'other'"))

    assert await record.places() == {("deleted", record.decided.entry_id, 4)}


@pytest.mark.parametrize(
    "forged",
    [ENTRY.format("sentence = 'x'"), DECISION.format("decision = 'reject'"), EVENT.format("kind = 'TimerFired'") + "3"],
)
async def test_a_chain_that_was_written_anew_is_found(record: SealedRecord, forged: str) -> None:
    event = EVENT.format("""detail = detail || '{"decision": "reject"}'""") + "2"
    await record.attack(forged, event if forged.startswith("UPDATE verbworker.gate") else "SELECT 1", REHASH)
    places = await record.places(ring=None)

    # Without the seals nothing is wrong with it.
    assert {place for place, _, _ in places} == {"changed"}
    assert {entry for _, entry, _ in places} == {record.decided.entry_id}


async def test_an_entry_made_to_look_older_than_digests_is_found(record: SealedRecord) -> None:
    await record.attack(
        ENTRY.format("sentence = 'x', salt = NULL, asked = NULL"),
        "UPDATE verbworker.runbook_event SET salt = NULL, digests = NULL WHERE entry_id = '{entry}'",
        REHASH.replace("held.asked := verbworker.digest_asked(held);", ""),
    )

    assert await record.places(ring=None) == {("changed", record.decided.entry_id, 4)}


@pytest.mark.parametrize("ring", [None, OTHER_RING], ids=["unsigned", "another secret"])
async def test_seals_written_anew_without_the_key_are_found(record: SealedRecord, ring: KeyRing | None) -> None:
    await record.attack(ENTRY.format("sentence = 'x'"), REHASH)
    await record.reseal(ring)

    assert ("signature", None, 2) in await record.places()


async def test_seals_written_anew_with_the_old_signatures_are_found(record: SealedRecord) -> None:
    await record.attack(ENTRY.format("sentence = 'x'"), REHASH)
    await record.reseal(None, keep_signatures=True)

    assert {("signature", None, 1), ("signature", None, 2)} <= await record.places()


@pytest.mark.parametrize("ring", [None, RING], ids=["without keys", "with keys"])
@pytest.mark.parametrize("forger", [None, OTHER_RING, RING], ids=["unsigned", "another secret", "the stolen key"])
async def test_a_checkpoint_finds_seals_written_anew(
    record: SealedRecord, forger: KeyRing | None, ring: KeyRing | None
) -> None:
    mark = (await record.checkpoint()).mark("default")
    await record.attack(ENTRY.format("sentence = 'x'"), REHASH)
    await record.reseal(forger)

    assert ("checkpoint", None, 2) in await record.places(ring=ring, against=mark)


SEALS = {
    "a seal deleted": (("DELETE FROM verbworker.runbook_seal WHERE number = 1",), ("missing", None, 1)),
    "a seal moved": (
        ("UPDATE verbworker.runbook_seal SET at = at - interval '1 day' WHERE number = 1",),
        ("content", None, 1),
    ),
    "a line changed": (("UPDATE verbworker.runbook_seal_line SET seq = 1 WHERE number = 1",), ("lines", None, 1)),
    "a line deleted": (("DELETE FROM verbworker.runbook_seal_line WHERE number = 2",), ("lines", None, 2)),
    "a line added": (
        ("INSERT INTO verbworker.runbook_seal_line VALUES ('default', 1, gen_random_uuid(), 1, 'x', true)",),
        ("lines", None, 1),
    ),
    "an entry said to be dropped": (
        (
            "UPDATE verbworker.runbook_seal_line SET dropped = true WHERE number = 2",
            "DELETE FROM verbworker.runbook_event WHERE entry_id = '{entry}'",
            "DELETE FROM verbworker.runbook_entry WHERE entry_id = '{entry}'",
        ),
        ("lines", None, 2),
    ),
    "the last seal deleted and its lines left": (
        ("DELETE FROM verbworker.runbook_seal WHERE number = 2",),
        ("missing", None, 2),
    ),
    "the signature of the last seal removed": (
        ("UPDATE verbworker.runbook_seal SET key_id = NULL, signature = NULL WHERE number = 2",),
        ("signature", None, 2),
    ),
    "the last seal signed with a key that is not known": (
        ("UPDATE verbworker.runbook_seal SET key_id = 'other' WHERE number = 2",),
        ("signature", None, 2),
    ),
}


@pytest.mark.parametrize("name", list(SEALS))
async def test_a_forged_seal_is_found_with_its_number(record: SealedRecord, name: str) -> None:
    statements, place = SEALS[name]
    await record.attack(*statements)

    assert place in await record.places()


ROLLED_BACK = (
    "DELETE FROM verbworker.runbook_seal WHERE number = 2",
    "DELETE FROM verbworker.runbook_seal_line WHERE number = 2",
    LOSE + "> 3",
    POINT,
)


async def test_the_last_seals_removed_are_found_against_a_checkpoint(record: SealedRecord) -> None:
    checkpoint = await record.checkpoint()
    await record.attack(*ROLLED_BACK)
    alone = await record.verify()

    # The state of a while ago is a whole record: only something kept elsewhere shows what came after it.
    assert alone.findings == ()
    assert alone.seals.unsealed == (record.opened.entry_id,)
    assert await record.places(against=checkpoint.mark("default"), ring=None) == {("checkpoint", None, 2)}


async def test_every_seal_removed_is_found_against_a_checkpoint_though_workers_seal_again(record: SealedRecord) -> None:
    checkpoint = await record.checkpoint()
    await record.attack(
        ENTRY.format("sentence = 'x'"),
        REHASH,
        "DELETE FROM verbworker.runbook_seal",
        "DELETE FROM verbworker.runbook_seal_line",
    )
    restarted = Seals(record.database, RING)
    await restarted.seal_moves(limit=100)

    assert ("checkpoint", None, 2) in await record.places(against=checkpoint.mark("default"))


async def test_a_changed_checkpoint_is_found(record: SealedRecord) -> None:
    made = await record.checkpoint()
    forged = Checkpoint(made.at, made.tenants[:0], made.key_id, made.signature)

    assert (made.is_signed(RING), forged.is_signed(RING), made.is_signed(OTHER_RING)) == (True, False, False)
