"""After `verbworker erase` no table holds a word of the person, and the record of the case can still be verified."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.support.command import verbworker
from tests.support.databases import execute, plain
from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE
from tests.support.hands import transaction_by_hand
from tests.support.logins import as_owner
from tests.support.retention import Past, days
from verbworker.errors import NotFound, Refused
from verbworker.runbook.event import Kind, describe
from verbworker.runbook.export import check_entry
from verbworker.stores.cases.erasure import Erasure
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.stores.sql import query

PERSON = "Augusta-King-4711"
BOB = UUID(int=4711)
PLAIN = json.dumps({"name": PERSON}).encode()
COLUMNS = """
SELECT format('%I.%I', namespace.nspname, class.relname) AS name
FROM pg_class AS class
JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
WHERE namespace.nspname LIKE 'verbworker%' AND class.relkind IN ('r', 'p') AND NOT class.relispartition
"""
# Every place where a case may hold a word about a person. $1: entry, $2: instance, $3: the person, $4: as bytes.
WORDS = """
UPDATE verbworker.runbook_entry SET
  request_key = $3, sentence = $3, invocation = $3, args = $4, outcome = $4, provenance = to_jsonb($3::text),
  traceparent = $3 WHERE entry_id = $1;
UPDATE verbworker.workflow_instance SET business_key = $3, correlation = jsonb_build_object('client', $3::text)
  WHERE instance_uid = $2;
UPDATE verbworker.payload_head SET content = $4, hash = sha256($4), version = version + 1, seal = $3,
  flags = to_jsonb($3::text) WHERE instance_uid = $2;
UPDATE verbworker.payload_version SET flags = to_jsonb($3::text) WHERE instance_uid = $2;
UPDATE verbworker.dispatch SET variables = $4, last_error = $3 WHERE entry_id = $1;
UPDATE verbworker.parked_token SET reason = $3, detail = to_jsonb($3::text), correlation_key = $3, incident_text = $3,
  assign_trouble = $3 WHERE entry_id = $1;
INSERT INTO verbworker.gate_decision
  (token_id, tenant_id, entry_id, instance_uid, gate, decision, reason, decided_by, acked_at, answer, last_error)
  SELECT token_id, tenant_id, entry_id, instance_uid, 'review', 'approve', $3, 'bob', now(), 'completed', $3
  FROM verbworker.parked_token WHERE entry_id = $1;
INSERT INTO verbworker.compensation_record
  (tenant_id, entry_id, instance_uid, step_seq, verb, undo, element_id, element_instance_key, job_key, variables)
  VALUES ('default', $1, $2, 1, 'kyc.check', 'kyc.uncheck', 'task', 1, 1, to_jsonb($3::text));
UPDATE verbworker.job_frame SET output = $4, output_hash = sha256($4), flags = to_jsonb($3::text),
  correlation = to_jsonb($3::text), fail_text = $3 WHERE instance_uid = $2 AND state <> 'completed';
UPDATE verbworker.job_frame_archive SET output = $4, output_hash = sha256($4), flags = to_jsonb($3::text),
  correlation = to_jsonb($3::text), fail_text = $3 WHERE instance_uid = $2;
INSERT INTO verbworker.frame_event (engine_id, job_key, kind, detail)
  VALUES ('{engine}', 1, 'x', $3), ('{engine}', 2, 'x', $3);
INSERT INTO verbworker.frame_conflict (engine_id, job_key, frame, delivery)
  VALUES ('{engine}', 1, to_jsonb($3::text), to_jsonb($3::text));
INSERT INTO verbworker.inbox_message (tenant_id, message_id, message_name, correlation_key, body_hash, payload,
  entry_id, correlation_id, causation_id, traceparent, sent_by, state, instance_uid, engine_id, ttl, last_error,
  expires_at, consumed_at)
  VALUES ('default', 'm-1', 'papers', $3, '', $4, $1, $3, $3, $3, 'portal', 'consumed', $2, '{engine}', '1 hour', $3,
  now(), now());
INSERT INTO verbworker.inbox_message (tenant_id, message_id, message_name, correlation_key, body_hash, payload, sent_by,
  state, engine_id, ttl, expires_at)
  VALUES ('default', 'm-2', 'papers', $3, '', $4, 'portal', 'dead', '{engine}', '1 hour', now());
INSERT INTO verbworker.dead_letter (tenant_id, message_id, message_name, correlation_key, code, reason, body, sent_by)
  VALUES ('default', 'm-2', 'papers', $3, 'ended', $3, $4, 'portal'),
  ('default', 'm-1', 'papers', 'another', 'expired', $3, $4, 'portal');
INSERT INTO verbworker_engine.identity (engine_id) VALUES ('{engine}');
INSERT INTO verbworker_engine.ended_instance
  (instance_key, definition_key, tenant_id, status, variables, created_at, ended_at)
  SELECT instance_key, 1, 'default', 'completed', $4, now(), now()
  FROM verbworker.workflow_instance WHERE instance_uid = $2;
INSERT INTO verbworker_engine.message (tenant_id, message_name, correlation_key, message_id, variables, expires_at)
  VALUES ('default', 'papers', 'k', 'default/m-1/0', $4, now());
""".replace("{engine}", ENGINE)


@pytest.fixture
def dsn(dsn: str) -> str:
    """The database as its owner has it, who alone may erase."""
    return as_owner(dsn)


@pytest.fixture
async def past(dsn: str) -> AsyncIterator[Past]:
    async with Database(dsn, size=4) as database:
        yield Past(database)


async def fill(past: Past, stored: StoredEntry) -> None:
    """Write the person into every place of a case."""
    literals = {"$1": f"'{stored.entry_id}'", "$2": f"'{stored.instance_uid}'", "$3": f"'{PERSON}'"}
    text = WORDS
    for name, value in {**literals, "$4": rf"'\x{PLAIN.hex()}'::bytea"}.items():
        text = text.replace(name, value)
    for statement in text.split(";\n"):
        if statement.strip():
            async with transaction_by_hand(past.database) as connection:
                if "UPDATE verbworker.runbook_entry" in statement:  # how an entry ended is final
                    await connection.execute("SET LOCAL session_replication_role = replica")
                await connection.execute(statement)


async def tell(stored: StoredEntry, kind: Kind, once: str, **detail: Any) -> None:
    await stored.runbook.append(stored.entry_id, kind, once=once, detail=detail)


@pytest.fixture
async def ended(past: Past) -> StoredEntry:
    """A case that has ended, with the person in every place that can hold one."""
    stored = await past.case(ended=None)
    await past.frame(1, stored, state="incident", acked=days(1))
    await past.frame(3, stored, acked=days(1))
    await past.archived(2, stored, acked=days(1))
    await tell(stored, Kind.MESSAGE_RECEIVED, f"message:{PERSON}", message_name="papers", message_id=PERSON)
    decided = {"by": "bob", "by_id": str(BOB), "gate": "review", "decision": "approve"}
    await tell(stored, Kind.GATE_DECIDED, "decided:1", **decided, reason=PERSON)
    await tell(stored, Kind.CANCEL_REQUESTED, "cancel", by="ann", reason=f"{PERSON} asked for it")
    await past.end(stored, days(1))
    await fill(past, stored)
    return stored


async def places(dsn: str) -> list[str]:
    """Every table in which the person is found, as text or as bytes."""
    found = []
    async with plain(dsn) as connection:
        for row in await connection.fetch(COLUMNS):
            words = f"SELECT count(*) FROM {row['name']} AS line WHERE line::text LIKE ANY ($1)"
            if await connection.fetchval(words, [f"%{PERSON}%", f"%{PERSON.encode().hex()}%"]):
                found.append(row["name"])
    return sorted(found)


async def export(past: Past, entry_id: UUID) -> str:
    rows = await past.database.fetch(query("retention", "export_entries"), [entry_id])
    return str(rows[0]["line"])


async def test_no_table_holds_a_word_of_the_person_and_the_chain_holds(
    past: Past, ended: StoredEntry, dsn: str
) -> None:
    before = await places(dsn)
    hashes = [event.hash for event in await ended.events()]
    found = await Erasure(past.database).erase("default", ended.entry_id, by="op")
    check = await Runbook(past.database).verify("default")
    events = await ended.events()

    assert len(before) >= 15
    assert await places(dsn) == []
    assert check.broken == {}
    assert check_entry(await export(past, ended.entry_id)).broken_at is None
    assert [event.hash for event in events[:-1]] == hashes
    assert (events[-1].kind, events[-1].detail["by"]) == (Kind.ERASED, "op")
    assert events[-1].detail["rows"] == dict(found.rows)
    assert [describe(event) for event in events if event.kind in (Kind.GATE_DECIDED, Kind.CANCEL_REQUESTED)] == [
        "bob decided approve at review",
        "ann requested cancellation",
    ]


async def test_who_acted_stays_by_name_and_by_id(past: Past, ended: StoredEntry) -> None:
    for words in (
        "runbook_entry SET asked_by = 'bob', asked_by_id = $2",
        "parked_token SET claimed_by = 'bob', claimed_by_id = $2, claimed_at = now()",
        "gate_decision SET decided_by = 'bob', decided_by_id = $2",
    ):
        async with transaction_by_hand(past.database) as connection:
            await connection.execute("SET LOCAL session_replication_role = replica")  # a decision is final
            await connection.execute(f"UPDATE verbworker.{words} WHERE entry_id = $1", ended.entry_id, BOB)
    await Erasure(past.database).erase("default", ended.entry_id, by="op")
    rows = await past.database.fetch(
        "SELECT asked_by, asked_by_id, claimed_by, claimed_by_id, decided_by, decided_by_id"
        " FROM verbworker.runbook_entry JOIN verbworker.parked_token USING (entry_id)"
        " JOIN verbworker.gate_decision USING (token_id) WHERE runbook_entry.entry_id = $1",
        ended.entry_id,
    )
    (decided,) = [event for event in await ended.events() if event.kind is Kind.GATE_DECIDED]

    assert [tuple(row.values()) for row in rows] == [("bob", BOB) * 3]
    assert (decided.detail["by"], decided.detail["by_id"]) == ("bob", str(BOB))


async def test_a_dry_run_counts_the_same_and_changes_nothing(past: Past, ended: StoredEntry, dsn: str) -> None:
    before = await places(dsn), len(await ended.events())
    counted = await Erasure(past.database).erase("default", ended.entry_id, by="op", dry_run=True)

    assert (await places(dsn), len(await ended.events())) == before
    assert counted.rows == (await Erasure(past.database).erase("default", ended.entry_id, by="op")).rows


async def test_a_second_time_nothing_is_left_and_nothing_is_told(past: Past, ended: StoredEntry) -> None:
    erasure = Erasure(past.database)
    await erasure.erase("default", ended.entry_id, by="op")
    told = len(await ended.events())
    again = await erasure.erase("default", ended.entry_id, by="op")

    assert (again.total, len(await ended.events())) == (0, told)


async def test_what_comes_later_is_erased_by_another_run(past: Past, ended: StoredEntry, dsn: str) -> None:
    erasure = Erasure(past.database)
    await erasure.erase("default", ended.entry_id, by="op")
    await tell(ended, Kind.CORRELATION_FAILED, "dead:7", message_name="papers", reason=PERSON)
    again = await erasure.erase("default", ended.entry_id, by="op")

    assert (dict(again.rows), await places(dsn)) == ({"runbook_event": 1}, [])
    assert (await Runbook(past.database).verify("default")).broken == {}
    assert check_entry(await export(past, ended.entry_id)).broken_at is None


async def test_a_running_entry_is_refused_and_so_is_one_of_another_tenant(past: Past, dsn: str, tmp_path: Path) -> None:
    stored = await past.case(ended=None)
    erasure = Erasure(past.database)
    with pytest.raises(Refused, match="has not ended; only an ended entry can be erased"):
        await erasure.erase("default", stored.entry_id, by="op")
    with pytest.raises(NotFound):
        await erasure.erase("globex", stored.entry_id, by="op")


async def test_an_ended_entry_whose_result_the_engine_has_not_taken_waits(past: Past) -> None:
    stored = await past.case(ended=days(1))
    await past.frame(9, stored)

    with pytest.raises(Refused, match="1 of its jobs, messages or decisions are not settled; try again in a minute"):
        await Erasure(past.database).erase("default", stored.entry_id, by="op")


async def test_keys_that_an_open_case_has_too_keep_its_messages(past: Past, ended: StoredEntry, dsn: str) -> None:
    other = await past.case(ended=None)
    await past.database.execute(
        "UPDATE verbworker.workflow_instance SET correlation = jsonb_build_object('client', $2::text)"
        " WHERE instance_uid = $1",
        other.instance_uid,
        PERSON,
    )
    await Erasure(past.database).erase("default", ended.entry_id, by="op")
    left = await past.labels("SELECT message_id FROM verbworker.dead_letter WHERE state = 'open'")

    assert left == ["m-2"]


async def test_what_is_left_of_an_erased_event_cannot_be_changed_unseen(
    past: Past, ended: StoredEntry, dsn: str
) -> None:
    await Erasure(past.database).erase("default", ended.entry_id, by="op")
    line = json.loads(await export(past, ended.entry_id))
    decided = next(event for event in line["events"] if event["kind"] == "GateDecided")
    decided["detail"] = decided["detail"].replace("bob", "eve")
    # An attacker with the owner's role and more.
    await execute(dsn, "ALTER TABLE verbworker.runbook_event DISABLE TRIGGER events_are_final")
    await past.database.execute(
        "UPDATE verbworker.runbook_event SET detail = detail || '{\"by\": \"eve\"}' WHERE kind = 'GateDecided'"
    )

    assert check_entry(json.dumps(line)).broken_at == decided["seq"]
    assert (await Runbook(past.database).verify("default")).broken == {ended.entry_id: decided["seq"]}


@pytest.mark.parametrize(
    "change",
    [
        'detail = detail || \'{"by": "eve"}\'',
        'detail = \'{"by": "eve"}\'',
        "hash = sha256('x')",
        "status = 'failed'",
        "kind = 'Erased'",
        "at = now()",
        "once = 'other'",
    ],
)
async def test_an_event_of_an_ended_entry_can_lose_words_and_nothing_else(
    past: Past, ended: StoredEntry, dsn: str, change: str
) -> None:
    async with plain(dsn) as connection:
        with pytest.raises(asyncpg.PostgresError, match="appended and never changed"):
            await connection.execute(f"UPDATE verbworker.runbook_event SET {change} WHERE kind = 'GateDecided'")


async def test_an_event_of_an_open_entry_loses_nothing(past: Past, dsn: str) -> None:
    await past.case(ended=None)
    async with plain(dsn) as connection:
        with pytest.raises(asyncpg.PostgresError, match="appended and never changed"):
            await connection.execute("UPDATE verbworker.runbook_event SET detail = '{}'")
        with pytest.raises(asyncpg.PostgresError, match="appended and never changed"):
            await connection.execute("TRUNCATE verbworker.runbook_event")


async def test_a_frame_of_an_open_case_keeps_its_result(past: Past, dsn: str) -> None:
    stored = await past.case(ended=None)
    await past.frame(5, stored, acked=days(1))
    async with plain(dsn) as connection:
        for change in ("output = NULL", "output = NULL, output_hash = NULL"):
            with pytest.raises(asyncpg.PostgresError):
                await connection.execute(f"UPDATE verbworker.job_frame SET {change} WHERE job_key = 5")


def erase(dsn: str, place: Path, entry_id: UUID, *options: str) -> Any:
    return verbworker("erase", "--entry", str(entry_id), *options, dsn=dsn, directory=place)


async def test_the_command_counts_erases_and_refuses_in_one_sentence(
    past: Past, ended: StoredEntry, dsn: str, tmp_path: Path
) -> None:
    running = await past.case(ended=None)
    dry = erase(dsn, tmp_path, ended.entry_id, "--dry-run", "--json")
    said = erase(dsn, tmp_path, ended.entry_id)
    again = erase(dsn, tmp_path, ended.entry_id)
    refused = erase(dsn, tmp_path, running.entry_id)

    assert json.loads(dry.out)["rows"]["gate_decision"] == 1
    assert (said.code, "row(s) erased" in said.out) == (0, True)
    assert (again.code, "nothing is left to erase" in again.out) == (0, True)
    assert (refused.code, "has not ended" in refused.sentence()) == (1, True)
