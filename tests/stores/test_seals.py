"""Seals of the record: who writes them, what goes between, and that an honest run leaves nothing to find."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest

from tests.support.databases import execute
from tests.support.entries import StoredEntry
from tests.support.eventually import eventually
from tests.support.record import RING, decide
from tests.support.retention import Past, days
from verbworker.app.settings import Settings
from verbworker.errors import CannotRun
from verbworker.payload.signature import KeyRing
from verbworker.runbook.event import Kind
from verbworker.runbook.export import check_entry
from verbworker.stores.cases.erasure import Erasure
from verbworker.stores.cases.record_verifier import RecordVerifier
from verbworker.stores.cases.seals import SealedBatch, Seals
from verbworker.stores.database import Database
from verbworker.stores.sql import query
from verbworker.stores.upkeep_turns import UpkeepTurns
from verbworker.work.upkeep.retention import Retention
from verbworker.work.upkeep.sealer import ANY_ENGINE, SERVICE, Sealer

NEW_RING = KeyRing("2027", {"2026": RING.secrets["2026"], "2027": b"the next secret of the workers, as long"})
NEXT_RING = KeyRing("2027", {"2027": b"the next secret of the workers, as long"})
OTHER_RING = KeyRing("2026", {"2026": b"a secret that the attacker made up for it"})
OLDER = (
    "SET session_replication_role = replica",
    "UPDATE verbworker.runbook_entry SET salt = NULL, asked = NULL, last_hash = '\\x'",
    "UPDATE verbworker.runbook_event SET salt = NULL, digests = NULL, tx = NULL, hash = verbworker.event_hash("
    "'\\x', entry_id, seq, at, kind, once, detail, status)",
    "UPDATE verbworker.runbook_entry AS entry SET last_hash = event.hash FROM verbworker.runbook_event AS event"
    " WHERE event.entry_id = entry.entry_id",
)
"""Makes entries with one event what they were before digests."""


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=6) as database:
        yield database


async def move(stored: StoredEntry, number: int = 1) -> None:
    for _ in range(number):
        await stored.runbook.append(stored.entry_id, Kind.TIMER_FIRED, once=str(uuid4()), detail={"name": "t"})


async def end(
    stored: StoredEntry, kind: Kind = Kind.RESULT, *, result: str = "ok", outcome: bytes | None = b"{}"
) -> None:
    async with stored.database.transaction() as connection:
        detail = {"result": result}
        assert await stored.runbook.end_in(connection, stored.entry_id, outcome=outcome, detail=detail, kind=kind)


async def seal(seals: Seals, *, limit: int = 100) -> SealedBatch:
    batch = await seals.seal_moves(limit=limit)
    assert batch is not None
    return batch


async def findings(database: Database, ring: KeyRing | None = RING) -> list[str]:
    check = await RecordVerifier(database, ring).verify("default")
    return [one.sentence for one in check.findings]


async def test_every_way_an_entry_ends_leaves_nothing_to_find(database: Database) -> None:
    for kind, result, outcome in (
        (Kind.RESULT, "ok", b'{"a":1}'),
        (Kind.RESULT, "ok", None),
        (Kind.RESULT, "err", None),
        (Kind.CANCELLED, "", None),
    ):
        stored = await StoredEntry.open(database, request_key=str(uuid4()), provenance={"n": 1.50, "x": 'a "\u20ac"\n'})
        await stored.start(uuid4().int % 10**12)
        await decide(stored, by="bob \u00e9", reason="two\nlines")
        await end(stored, kind, result=result, outcome=outcome)
        await move(stored)
    await StoredEntry.open(database)
    before = await findings(database)
    while (await seal(Seals(database, RING), limit=2)).is_more:
        pass
    await Seals(database, RING).seal_page(None, limit=100)
    check = await RecordVerifier(database, RING).verify("default")

    assert (before, check.findings) == ([], ())
    assert (check.entries, check.seals.unsealed_number, check.older) == (5, 0, 0)


async def test_a_seal_covers_what_moved_since_the_last_one_and_nothing_twice(database: Database) -> None:
    seals = Seals(database, RING)
    first, second = await StoredEntry.open(database), await StoredEntry.open(database)
    await move(first)
    await move(second, 2)
    made = [(await seal(seals)).entries for _ in range(2)]
    await move(first)
    made.append((await seal(seals)).entries)

    assert made == [2, 0, 1]
    assert [row["seq"] for row in await database.fetch("SELECT seq FROM verbworker.runbook_seal_line")] in (
        [1, 2, 2],
        [2, 1, 2],
    )


async def test_what_a_long_transaction_commits_later_is_sealed_then(database: Database, dsn: str) -> None:
    seals, late, other = Seals(database, RING), await StoredEntry.open(database), await StoredEntry.open(database)
    async with Database(dsn, size=1) as slow, slow.transaction() as connection:
        await late.runbook.append_in(connection, late.entry_id, Kind.TIMER_FIRED, once="late", detail={})
        await move(other)
        assert (await seal(seals)).entries == 1
    assert (await seal(seals)).entries == 1

    check = await RecordVerifier(database, RING).verify("default")
    assert (check.findings, check.seals.unsealed) == ((), ())


async def test_a_restored_database_goes_on_though_its_transactions_begin_anew(database: Database, dsn: str) -> None:
    old, seals = await StoredEntry.open(database), Seals(database, RING)
    await move(old)
    await seal(seals)
    for statement in ("runbook_event SET tx = 1000000000", "runbook_seal SET horizon = 1000000001"):
        await execute(dsn, f"SET session_replication_role = replica; UPDATE verbworker.{statement}")
    new, made = await StoredEntry.open(database), []
    for _ in range(3):
        await move(new)
        made.append(await seal(seals))

    assert [(batch.entries, batch.is_restored) for batch in made] == [(1, True), (1, False), (1, False)]
    assert (await RecordVerifier(database, RING).verify("default")).seals.unsealed_number == 0


async def test_what_is_not_sealed_yet_is_named(database: Database) -> None:
    stored = await StoredEntry.open(database)
    await move(stored)

    check = await RecordVerifier(database, RING).verify("default")
    assert (check.findings, check.seals.unsealed, check.seals.unsealed_number) == ((), (stored.entry_id,), 1)
    assert check.seals.unsealed_since == (await stored.entry()).updated_at


async def test_entries_from_before_digests_are_sealed_and_not_covered(database: Database, dsn: str) -> None:
    stored = await StoredEntry.open(database)
    await move(stored)
    for statement in OLDER[1:]:
        await execute(dsn, f"{OLDER[0]}; {statement}")
    seals = Seals(database, RING)
    moved, page = await seal(seals), await seals.seal_page(None, limit=100)
    assert page is not None
    whole = await RecordVerifier(database, RING).verify("default")
    await execute(dsn, "UPDATE verbworker.runbook_entry SET sentence = 'x', status = 'parked'")

    assert (moved.entries, page.entries) == (0, 1)
    assert (whole.older, whole.findings, whole.seals.unsealed) == (1, (), ())
    # What its events say is compared, and its sentence is not covered.
    assert await findings(database) == [
        f"entry {stored.entry_id}: status is not what was written, as event 1 records it"
    ]


# ---- workers, keys ---------------------------------------------------------------------------------------------------


def sealer(database: Database, ring: KeyRing | None = RING) -> Sealer:
    turns = UpkeepTurns(database, engine_id=ANY_ENGINE, service=SERVICE, owner=uuid4())
    return Sealer(Seals(database, ring), turns, every=timedelta(milliseconds=1))


async def test_two_workers_seal_beside_those_who_write(database: Database) -> None:
    stored = [await StoredEntry.open(database) for _ in range(8)]
    sealers = [sealer(database), sealer(database)]
    is_over = asyncio.Event()

    async def keep_sealing(one: Sealer) -> None:
        while not is_over.is_set():
            await one.work()

    async with asyncio.TaskGroup() as tasks:
        for one in sealers:
            tasks.create_task(keep_sealing(one))
        async with asyncio.TaskGroup() as writers:
            for entry in stored:
                writers.create_task(move(entry, 25))

        async def is_sealed() -> bool:
            return (await RecordVerifier(database, RING).verify("default")).seals.unsealed_number == 0

        await eventually(is_sealed)
        is_over.set()
    check = await RecordVerifier(database, RING).verify("default")

    assert (check.findings, check.events) == ((), 200)
    assert check.seals.seals == check.seals.verified > 2


async def test_a_rotated_key_goes_on_and_the_old_one_can_go(database: Database) -> None:
    stored = await StoredEntry.open(database)
    for ring in (None, RING, NEW_RING, NEXT_RING):
        await move(stored)
        seals = Seals(database, ring)
        await seals.sign_last()
        await seals.seal_moves(limit=100)
    check = await RecordVerifier(database, NEXT_RING).verify("default")

    # Unsigned, then a first seal with each new key to sign what was before: 1, 2 + 3, 4 + 5, 6.
    assert (check.findings, check.seals.seals, check.seals.signed, check.seals.verified) == ((), 6, 5, 3)
    assert await findings(database, OTHER_RING) != []


async def test_a_signed_record_is_not_sealed_without_the_key(database: Database) -> None:
    stored = await StoredEntry.open(database)
    await move(stored)
    await Seals(database, RING).seal_moves(limit=100)
    await move(stored)

    with pytest.raises(CannotRun, match="is signed with key '2026', and no key is set; set VERBWORKER_SEAL_KEYS"):
        await Seals(database).seal_moves(limit=100)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE verbworker.runbook_seal SET at = now()",
        "UPDATE verbworker.runbook_seal SET signature = 'x'",
        "DELETE FROM verbworker.runbook_seal",
    ],
)
async def test_nothing_is_sealed_after_a_seal_that_was_changed(database: Database, dsn: str, statement: str) -> None:
    stored, seals = await StoredEntry.open(database), Seals(database, RING)
    await move(stored)
    await seals.seal_moves(limit=100)
    await execute(dsn, f"SET session_replication_role = replica; {statement}")
    await move(stored)

    with pytest.raises(CannotRun, match="verify it: verbworker runbook verify"):
        await seals.seal_moves(limit=100)


async def test_a_refusal_is_said_once_and_ends_no_service(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    await move(await StoredEntry.open(database))
    await Seals(database, RING).seal_moves(limit=100)
    await move(await StoredEntry.open(database))
    refused = sealer(database, None)
    for _ in range(3):
        await refused.work()
        await asyncio.sleep(0.002)

    assert [record.message for record in caplog.records if record.name.endswith("sealer")] == [
        "the record is not sealed"
    ]


@pytest.mark.parametrize("statement", ["UPDATE {} SET number = 9", "DELETE FROM {}", "TRUNCATE {}"])
@pytest.mark.parametrize("table", ["verbworker.runbook_seal", "verbworker.runbook_seal_line"])
async def test_seals_are_appended_and_never_changed(database: Database, table: str, statement: str) -> None:
    with pytest.raises(Exception, match="seals are appended and never changed"):
        await database.execute(statement.format(table))


# ---- retention and erasure -------------------------------------------------------------------------------------------


class Exported:
    """An export that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def __call__(self, lines: Sequence[str]) -> None:
        self.lines += lines


def keeping(database: Database, export: Exported, ring: KeyRing | None = RING) -> Retention:
    kept = Settings().keep() | {"keep_entries": days(100)}
    return Retention(database, kept, export=export, seals=Seals(database, ring))


async def test_what_retention_drops_is_in_a_seal_and_verifies(database: Database) -> None:
    past, exported, seals = Past(database), Exported(), Seals(database, RING)
    gone, young = await past.case(ended=days(400)), await past.case(ended=days(2))
    await seals.seal_moves(limit=100)
    await keeping(database, exported).drop_batch()
    await move(young)
    await seals.seal_moves(limit=100)
    check = await RecordVerifier(database, RING).verify("default")

    assert (len(exported.lines), check.entries, check.seals.dropped, check.findings) == (1, 1, 1, ())
    assert (await RecordVerifier(database, RING).verify("default", gone.entry_id)).seals.dropped == 1
    assert check_entry(exported.lines[0]).is_whole


async def test_a_dropped_entry_that_is_there_again_is_found(database: Database, dsn: str) -> None:
    gone = await Past(database).case(ended=days(400))
    await execute(dsn, "CREATE TABLE copy AS SELECT * FROM verbworker.runbook_entry")
    await keeping(database, Exported()).drop_batch()
    await execute(dsn, "SET session_replication_role = replica; INSERT INTO verbworker.runbook_entry TABLE copy")

    words = "retention dropped this entry, and it is there again"
    assert f"entry {gone.entry_id}, seal 1: {words}" in await findings(database)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE verbworker.runbook_entry SET sentence = 'x' WHERE entry_id = '{entry}'",
        "UPDATE verbworker.runbook_seal_line SET hash = 'x' WHERE entry_id = '{entry}'",
    ],
)
async def test_retention_keeps_an_entry_that_was_changed_as_evidence(
    database: Database, dsn: str, statement: str
) -> None:
    changed, exported = await Past(database).case(ended=days(400)), Exported()
    await Seals(database, RING).seal_moves(limit=100)
    changes = statement.replace("{entry}", str(changed.entry_id))
    await execute(dsn, f"SET session_replication_role = replica; {changes}")
    await keeping(database, exported).drop_batch()

    assert exported.lines == []
    assert await database.fetch("SELECT 1 FROM verbworker.runbook_entry") != []


async def test_retention_drops_nothing_without_the_key_of_the_seals(database: Database) -> None:
    await Past(database).case(ended=days(400))
    await Seals(database, RING).seal_moves(limit=100)
    exported = Exported()
    kept = keeping(database, exported, None)
    await kept.drop_batch()

    assert exported.lines == []
    assert "set VERBWORKER_SEAL_KEYS" in kept.failures["runbook_entry"]
    assert await findings(database) == []


async def test_an_erased_entry_verifies_before_and_after_its_seal_and_its_export(database: Database) -> None:
    stored, seals = await StoredEntry.open(database, request_key="ada@example.org"), Seals(database, RING)
    await stored.start()
    await decide(stored, reason="Ada is ill")
    await end(stored, outcome=b'{"name":"Ada"}')
    await database.execute("UPDATE verbworker.dispatch SET done_at = now()")
    await seals.seal_moves(limit=100)
    await Erasure(database, Seals(database, RING)).erase("default", stored.entry_id, by="op")
    before = await RecordVerifier(database, RING).verify("default")
    await seals.seal_moves(limit=100)
    after = await RecordVerifier(database, RING).verify("default")
    (row,) = await database.fetch(query("retention", "export_entries"), [stored.entry_id])

    # The erasure wrote a seal itself.
    assert (before.findings, before.seals.unsealed, after.findings, after.seals.unsealed) == ((), (), (), ())
    assert (before.erased, after.seals.seals) == (1, before.seals.seals)
    assert check_entry(row["line"]).is_whole


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ("runbook_entry SET sentence = 'x'", "sentence"),
        ("runbook_entry SET asked_by = 'x'", "asked_by"),
        ("runbook_entry SET request_key = 'x'", "request_key"),
        ("""runbook_entry SET outcome = '{"a":1}'""", "outcome"),
        ("gate_decision SET reason = 'x'", "decision.reason"),
        ("""gate_decision SET inputs = '{"note": "x"}'""", "decision.inputs"),
        ("gate_decision SET decision = 'reject'", "decision.decision"),
    ],
)
async def test_what_an_erasure_left_cannot_be_changed_unseen(
    database: Database, dsn: str, change: str, place: str
) -> None:
    stored = await StoredEntry.open(database, request_key="ada@example.org")
    await stored.start()
    await decide(stored)
    await end(stored)
    await Erasure(database, Seals(database, RING)).erase("default", stored.entry_id, by="op")
    await execute(dsn, f"SET session_replication_role = replica; UPDATE verbworker.{change}")
    check = await RecordVerifier(database).verify("default")
    (row,) = await database.fetch(query("retention", "export_entries"), [stored.entry_id])

    assert [one.place for one in check.findings] == [place]
    assert [found for found, _ in check_entry(row["line"]).changed] == [place]


async def test_inputs_of_a_decision_are_recorded_final_and_erased(database: Database, dsn: str) -> None:
    stored = await StoredEntry.open(database)
    await stored.start()
    await decide(stored, note="Ada is ill")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await execute(dsn, """UPDATE verbworker.gate_decision SET inputs = '{"note": "x"}'""")
    await execute(dsn, "SET session_replication_role = replica; UPDATE verbworker.gate_decision SET inputs = '{}'")
    check = await RecordVerifier(database).verify("default")
    (row,) = await database.fetch(query("retention", "export_entries"), [stored.entry_id])
    forged = [one.place for one in check.findings], [place for place, _ in check_entry(row["line"]).changed]
    whole = """UPDATE verbworker.gate_decision SET inputs = '{"note": "Ada is ill"}'"""
    await execute(dsn, f"SET session_replication_role = replica; {whole}")
    before = await RecordVerifier(database).verify("default")
    await end(stored)
    await database.execute("UPDATE verbworker.dispatch SET done_at = now()")
    await Erasure(database).erase("default", stored.entry_id, by="op")
    (line,) = await database.fetch(query("retention", "export_entries"), [stored.entry_id])
    after = await RecordVerifier(database).verify("default")

    assert forged == (["decision.inputs"], ["decision.inputs"])
    assert (before.findings, after.findings) == ((), ())
    assert "Ada" not in line["line"]


async def test_an_erasure_leaves_no_digest_that_a_word_could_be_tried_on(database: Database) -> None:
    stored = await StoredEntry.open(database, request_key="ada@example.org", sentence="Ada")
    await stored.start()
    await decide(stored, reason="Ada")
    await end(stored)
    await Erasure(database, Seals(database, RING)).erase("default", stored.entry_id, by="op")
    (entry,) = await database.fetch("SELECT salt, request_hash, request_key, asked FROM verbworker.runbook_entry")
    salts = await database.fetch(
        "SELECT kind FROM verbworker.runbook_event WHERE salt IS NOT NULL AND digests IS NOT NULL"
    )
    (guess,) = await database.fetch("SELECT verbworker.digest_texts(NULL, 'Ada') AS digest")

    assert (entry["salt"], entry["request_hash"], salts) == (None, b"", [])
    assert entry["request_key"] == f"erased:{stored.entry_id}"
    assert guess["digest"] not in entry["asked"]
