"""Retention: every table has one owner of its deletion; what is due goes, and nothing of an open case ever does."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from uuid import uuid4

import pytest

from tests.support.databases import plain, value
from tests.support.entries import StoredEntry
from tests.support.frames import FAR, make_delivery, make_instance, make_job, working
from tests.support.retention import LETTER, MESSAGE, Past, days, drop_all, retention
from verbworker.errors import CannotRun, StoreError
from verbworker.job.frame import FrameStep, decide
from verbworker.runbook.export import check_entry
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.retention import RetiredRows
from verbworker.stores.task_profiles import TaskProfileStore
from verbworker.work.upkeep.retention import RULES, Archiver

TABLES = """
SELECT schemaname || '.' || relname AS name
FROM pg_stat_user_tables
WHERE schemaname LIKE 'verbworker%' AND relid NOT IN (SELECT inhrelid FROM pg_inherits)
UNION ALL
SELECT relnamespace::regnamespace || '.' || relname FROM pg_class WHERE relkind = 'p'
"""
OTHER_OWNERS = {
    "verbworker.job_frame": "the reaper archives what the engine acknowledged (archive_after)",
    "verbworker.step_visit": "the reaper, when the instance has ended (archive_after)",
    "verbworker.job_delivery": "the worker that handles the job, or the sweep after it died (lease)",
    "verbworker.envelope_queue": "`verbworker consume`, when the message is in the inbox",
    "verbworker.stall": "the stall detector, when the entry moves again or has ended",
    "verbworker.runbook_seal": "kept: at most one row a second and tenant; each covers all before it",
    "verbworker.runbook_seal_line": "kept: a line for each entry that moved; without it a seal cannot be verified",
    "verbworker.upkeep_turn": "kept: one row for each service that workers take turns at",
    "verbworker.tenant_use": "the watch of quotas, an hour after the minute that it counts",
    "verbworker.person": "kept: one row for each person who logged in; what they did names the row",
    "verbworker.deployment_request": "kept: one row for each model that was ever deployed",
    "verbworker.process_deployment": "kept: it grows with deployments, and any instance may be of any version",
    "verbworker.process_terms": "kept: jobs name their terms by digest for as long as the engine has them",
    "verbworker.migration": "kept: what was applied to this database",
    "verbworker_engine.identity": "kept: one row",
    "verbworker_engine.definition": "kept: it grows with deployments, and any instance may be of any version",
    "verbworker_engine.message_start": "the deployment of a newer version",
    "verbworker_engine.instance": "the engine, when the instance ends",
    "verbworker_engine.ended_instance": "the engine's timers (engine_retention)",
    "verbworker_engine.token_history": "the engine's timers (engine_retention)",
    "verbworker_engine.job": "the engine, when the job ends",
    "verbworker_engine.timer": "the engine, when the wait is over",
    "verbworker_engine.subscription": "the engine, when the wait is over",
    "verbworker_engine.message": "the engine's timers, when the message expires (its time to live)",
    "verbworker_engine.incident": "the engine, when the incident is resolved",
}
"""Every table without a rule of retention, and what deletes from it."""


@pytest.fixture
async def past(dsn: str) -> AsyncIterator[Past]:
    async with Database(dsn, size=6) as database:
        yield Past(database)


class Exported:
    """An export that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def __call__(self, lines: Sequence[str]) -> None:
        self.lines += lines

    def ids(self) -> set[str]:
        return {json.loads(line)["entry"]["entry_id"] for line in self.lines}


async def test_every_table_has_one_owner_of_its_deletion(dsn: str) -> None:
    async with plain(dsn) as connection:
        there = {row["name"] for row in await connection.fetch(TABLES)}
    ruled = [table for rule in RULES for table in rule.tables]

    assert len(ruled) == len(set(ruled))
    assert set(ruled) & OTHER_OWNERS.keys() == set()
    assert set(ruled) | OTHER_OWNERS.keys() == there


async def frame_events(past: Past, living: StoredEntry) -> str:
    await past.archived(3, living, acked=days(20))
    await past.frame(4, None, state="incident")
    insert = (
        "INSERT INTO verbworker.frame_event (engine_id, job_key, kind, detail, at)"
        " VALUES ('engine-1', $1, 'x', $2, clock_timestamp() - $3::interval)"
    )
    rows = ((1, "due", 31), (2, "young", 29), (3, "of an open case", 400), (4, "of a hot frame", 400))
    for key, label, age in rows:
        await past.database.execute(insert, key, label, days(age))
    return "SELECT detail FROM verbworker.frame_event"


async def frame_conflicts(past: Past, living: StoredEntry) -> str:
    await past.archived(3, living, acked=days(20))
    await past.frame(4, None, state="incident")
    insert = (
        "INSERT INTO verbworker.frame_conflict (engine_id, job_key, frame, delivery, at)"
        " VALUES ('engine-1', $1, '{}', jsonb_build_object('label', $2::text), clock_timestamp() - $3::interval)"
    )
    rows = ((1, "due", 91), (2, "young", 89), (3, "of an open case", 400), (4, "of a hot frame", 400))
    for key, label, age in rows:
        await past.database.execute(insert, key, label, days(age))
    return "SELECT delivery ->> 'label' FROM verbworker.frame_conflict"


async def worker_boots(past: Past, living: StoredEntry) -> str:
    await past.frame(14, None, state="started")
    holder = await past.labels("SELECT owner FROM verbworker.job_frame WHERE job_key = 14")
    insert = (
        "INSERT INTO verbworker.worker_boot (owner, name, host, pid, started_at, seen_at)"
        " VALUES ($1, $2, 'host', 1, clock_timestamp() - interval '2 years', clock_timestamp() - $3::interval)"
    )
    rows = ((uuid4(), "due", 91), (uuid4(), "young", 89), (holder[0], "of a hot frame", 400))
    for owner, label, age in rows:
        await past.database.execute(insert, owner, label, days(age))
    return "SELECT name FROM verbworker.worker_boot"


async def messages(past: Past, living: StoredEntry) -> str:
    ended = await past.case(ended=days(1))
    rows = (
        ("due", "consumed", ended.instance_uid, 31),
        ("due too", "discarded", None, 31),
        ("due of a case that is gone", "consumed", uuid4(), 31),
        ("young", "consumed", ended.instance_uid, 29),
        ("discarded lately", "discarded", None, 29),
        ("of an open case", "consumed", living.instance_uid, 400),
        ("dead", "dead", None, 400),
        ("waiting", "received", None, 400),
        ("sent", "published", ended.instance_uid, 400),
    )
    for label, state, uid, age in rows:
        await past.database.execute(MESSAGE, label, state, uid, days(age))
    return "SELECT message_id FROM verbworker.inbox_message"


async def letters(past: Past, living: StoredEntry) -> str:
    rows = (("due", None, 91), ("young", None, 89), ("of an open case", living.entry_id, 400), ("open", None, None))
    for label, entry_id, age in rows:
        await past.database.execute(LETTER, label, entry_id, None if age is None else days(age))
    return "SELECT message_id FROM verbworker.dead_letter"


async def payloads(past: Past, living: StoredEntry) -> str:
    due, young, busy, running = [await past.case(ended=days(age)) for age in (8, 6, 400, 400)]
    await past.frame(1, busy, acked=None)
    await past.frame(2, running, state="started")
    lately = "UPDATE verbworker.job_frame SET lease_until = clock_timestamp() - interval '1 hour' WHERE job_key = 2"
    await past.database.execute(lately)
    named = {due: "due", young: "young", living: "of an open case", busy: "unheard verdict", running: "run lately"}
    name = "UPDATE verbworker.workflow_instance SET business_key = $2 WHERE instance_uid = $1"
    for stored, label in named.items():
        await past.database.execute(name, stored.instance_uid, label)
    return (
        "SELECT DISTINCT business_key FROM verbworker.workflow_instance AS instance"
        " WHERE EXISTS (SELECT 1 FROM verbworker.payload_head AS head WHERE head.instance_uid = instance.instance_uid)"
        " OR EXISTS (SELECT 1 FROM verbworker.payload_version AS old WHERE old.instance_uid = instance.instance_uid)"
    )


async def archive(past: Past, living: StoredEntry) -> str:
    ended = await past.case(ended=days(1))
    rows = ((1, ended, 160), (2, None, 160), (3, ended, 80), (4, living, 400), (5, ended, 400))
    for key, stored, age in rows:
        await past.archived(key, stored, acked=days(age))
    return (
        "SELECT (ARRAY['due', 'due without a case', 'young', 'of an open case', 'due beside an open case'])[job_key]"
        " FROM verbworker.job_frame_archive"
    )


@pytest.mark.parametrize(
    "seed",
    [frame_events, frame_conflicts, worker_boots, messages, letters, payloads, archive],
    ids=lambda f: f.__name__,
)
async def test_what_is_due_goes_and_nothing_else(
    past: Past, seed: Callable[[Past, StoredEntry], Awaitable[str]]
) -> None:
    living = await past.case(ended=None)
    statement = await seed(past, living)
    before = await past.labels(statement)

    await drop_all(retention(past.database))
    after = await past.labels(statement)

    assert [label for label in before if label.startswith("due")] != []
    assert after == [label for label in before if not label.startswith("due")]


async def test_a_row_that_is_kept_for_ever_stays(past: Past) -> None:
    living = await past.case(ended=None)
    statements = [await seed(past, living) for seed in (frame_events, worker_boots, messages, letters)]
    before = [await past.labels(statement) for statement in statements]
    forever = dict.fromkeys(("keep_frame_events", "keep_worker_boots", "keep_messages", "keep_dead_letters"))

    await drop_all(retention(past.database, **forever))

    assert [await past.labels(statement) for statement in statements] == before


async def test_what_a_dry_look_counts_is_what_goes(past: Past) -> None:
    living = await past.case(ended=None)
    for seed in (letters, messages, payloads):
        await seed(past, living)
    await past.archived(9, None, acked=days(160))
    exported = Exported()
    await past.case(ended=days(400))
    kept = retention(past.database, exported, keep_entries=days(365))
    counted = {one.rule.kind: one.due.rows for one in await kept.read_states(most=1000)}

    await drop_all(kept)

    assert counted == kept.dropped
    assert {kind for kind, rows in counted.items() if rows} == {
        *("archived_frame", "dead_letter", "inbox_message", "payload", "runbook_entry")
    }
    assert [one.due.rows for one in await kept.read_states(most=1000)] == [0] * len(RULES)


async def test_frames_that_never_came_to_an_end_go_with_the_payload(past: Past) -> None:
    ended, living = await past.case(ended=days(8)), await past.case(ended=None)
    for key, stored in ((1, ended), (2, living)):
        await past.frame(key, stored, state="incident")
        await past.frame(key + 2, stored, state="started")

    await drop_all(retention(past.database))

    assert await past.labels("SELECT job_key FROM verbworker.job_frame") == [2, 4]


async def test_a_month_goes_whole_and_one_with_an_open_case_keeps_its_frames(past: Past, dsn: str) -> None:
    living = await past.case(ended=None)
    await past.archived(1, None, acked=days(200))
    await past.archived(2, living, acked=days(300))
    await past.archived(3, None, acked=days(300))
    months = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'verbworker.job_frame_archive'::regclass"
    before = await value(dsn, months)

    await drop_all(retention(past.database))

    assert (before, await value(dsn, months)) == (2, 1)
    assert await past.labels("SELECT job_key FROM verbworker.job_frame_archive") == [2]
    await past.end(living, days(1))
    await drop_all(retention(past.database))
    assert await value(dsn, months) == 0


async def test_a_month_that_somebody_reads_is_left_for_the_next_round(past: Past, dsn: str) -> None:
    await past.archived(1, None, acked=days(200))
    kept = retention(past.database)
    async with plain(dsn) as reader, reader.transaction():
        await reader.fetch("SELECT 1 FROM verbworker.job_frame_archive")
        assert await kept.drop_batch() == 0
        assert kept.failures.keys() == {"archived_frame"}

    await drop_all(kept)
    assert await past.labels("SELECT job_key FROM verbworker.job_frame_archive") == []


ENTRY_ROWS = """
SELECT (SELECT count(*) FROM verbworker.runbook_entry WHERE entry_id = $1)
  + (SELECT count(*) FROM verbworker.runbook_event WHERE entry_id = $1)
  + (SELECT count(*) FROM verbworker.parked_token WHERE entry_id = $1)
  + (SELECT count(*) FROM verbworker.gate_decision WHERE entry_id = $1)
  + (SELECT count(*) FROM verbworker.compensation_record WHERE entry_id = $1)
  + (SELECT count(*) FROM verbworker.dispatch WHERE entry_id = $1)
  + (SELECT count(*) FROM verbworker.workflow_instance WHERE entry_id = $1)
  + (SELECT count(*) FROM verbworker.payload_head WHERE instance_uid = $2)
  + (SELECT count(*) FROM verbworker.payload_version WHERE instance_uid = $2)
  + (SELECT count(*) FROM verbworker.job_frame WHERE instance_uid = $2)
"""
DECISION = """
INSERT INTO verbworker.gate_decision (token_id, tenant_id, entry_id, instance_uid, gate, decision, reason, decided_by)
SELECT token_id, tenant_id, entry_id, instance_uid, 'review', 'approve', '', 'ann'
FROM verbworker.parked_token WHERE entry_id = $1
"""
RECORD = """
INSERT INTO verbworker.compensation_record (
  tenant_id, entry_id, instance_uid, step_seq, verb, undo, element_id, element_instance_key, job_key
) VALUES ('default', $1, $2, 1, 'kyc.check', 'kyc.uncheck', 'task', 1, 1)
"""


async def full_case(past: Past, *, ended: timedelta | None, key: int = 1) -> StoredEntry:
    """A case with a row in every table that tells of one."""
    stored = await past.case(ended=ended)
    await past.database.execute(DECISION, stored.entry_id)
    await past.database.execute(RECORD, stored.entry_id, stored.instance_uid)
    await past.frame(key, stored, state="incident")
    return stored


async def rows_of(stored: StoredEntry) -> int:
    return int(await stored.value(ENTRY_ROWS, stored.entry_id, stored.instance_uid))


async def test_an_entry_goes_whole_after_its_export(past: Past) -> None:
    old, young = await full_case(past, ended=days(366)), await full_case(past, ended=days(364), key=2)
    living, direct = await full_case(past, ended=None, key=3), await past.case(ended=days(400))
    kept_before = [await rows_of(stored) for stored in (young, living)]
    exported = Exported()

    await drop_all(retention(past.database, exported, keep_entries=days(365), keep_payloads=None))

    assert [await rows_of(stored) for stored in (old, direct)] == [0, 0]
    assert [await rows_of(stored) for stored in (young, living)] == kept_before
    assert exported.ids() == {str(old.entry_id), str(direct.entry_id)}
    assert [check_entry(line).broken_at for line in exported.lines] == [None, None]
    told = json.loads(next(line for line in exported.lines if str(old.entry_id) in line))
    parts = ("instances", "payloads", "waits", "decisions", "compensations", "dispatches")
    assert {part: len(told[part]) for part in parts} == dict.fromkeys(parts, 1)
    assert (await Runbook(past.database).verify("default")).broken == {}


async def test_without_a_destination_no_entry_goes(past: Past) -> None:
    stored = await full_case(past, ended=days(400))
    before = await rows_of(stored)

    await drop_all(retention(past.database, None, keep_entries=days(365), keep_payloads=None))

    assert await rows_of(stored) == before


async def test_an_export_that_fails_keeps_the_entries(past: Past) -> None:
    async def refuse(_lines: Sequence[str]) -> None:
        raise CannotRun("the disk is full")

    stored = await full_case(past, ended=days(400))
    before = await rows_of(stored)
    kept = retention(past.database, refuse, keep_entries=days(365), keep_payloads=None)
    await kept.drop_batch()

    assert kept.failures == {"runbook_entry": "the disk is full"}
    assert await rows_of(stored) == before


async def test_an_entry_whose_chain_is_broken_stays_as_evidence(past: Past, dsn: str) -> None:
    stored_entries = [await past.case(ended=days(400)) for _ in range(2)]
    async with plain(dsn) as forger:
        await forger.execute("ALTER TABLE verbworker.runbook_event DISABLE TRIGGER USER")
        await forger.execute(
            "UPDATE verbworker.runbook_event SET detail = '{}' WHERE entry_id = $1 AND seq = 2",
            stored_entries[0].entry_id,
        )
        await forger.execute("ALTER TABLE verbworker.runbook_event ENABLE TRIGGER USER")
    exported = Exported()

    await drop_all(retention(past.database, exported, keep_entries=days(365)))

    assert exported.ids() == {str(stored_entries[1].entry_id)}
    assert (await Runbook(past.database).verify("default")).broken == {stored_entries[0].entry_id: 2}


async def test_an_entry_of_which_something_was_told_since_its_export_stays(past: Past) -> None:
    stored, rows = await past.case(ended=days(400)), RetiredRows(past.database)
    async with past.database.transaction() as connection:
        held = await rows.hold_entries(connection, days(365), limit=10)
    late = "SELECT verbworker.append_event($1, 'StepCompleted', 'late', '{}')"
    await past.database.fetch(late, stored.entry_id)
    async with past.database.transaction() as connection:
        dropped = await rows.drop_entries(connection, held, days(365))

    assert (len(held), dropped) == (1, [])
    assert await rows_of(stored) > 0


async def test_an_open_or_fresh_entry_cannot_be_dropped_by_any_argument(past: Past) -> None:
    stored_entries = [await past.case(ended=None), await past.case(ended=days(0.9))]
    drop = (
        "SELECT count(*) FROM (SELECT array_agg(entry_id), array_agg(last_hash) FROM verbworker.runbook_entry)"
        " AS every (ids, heads), verbworker.drop_entries(ids, heads, 'infinity')"
    )

    assert await stored_entries[0].value(drop) == 0


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM verbworker.runbook_event",
        "DELETE FROM verbworker.runbook_event WHERE seq > 1",
        "UPDATE verbworker.runbook_event SET kind = 'x'",
        "TRUNCATE verbworker.runbook_event",
        "DELETE FROM verbworker.runbook_entry WHERE ended_at IS NULL",
    ],
)
async def test_an_event_goes_in_no_other_way(past: Past, statement: str) -> None:
    await past.case(ended=None)
    await past.case(ended=days(400))

    with pytest.raises(StoreError, match=r"are appended and never changed|is open and cannot be dropped"):
        await past.database.execute(statement)


async def test_only_what_a_view_lists_can_be_dropped(past: Past) -> None:
    for kind in ("runbook_event", "job_frame", "runbook_entry", "payload_head", "x; DROP TABLE verbworker.job_frame"):
        with pytest.raises(StoreError):
            await RetiredRows(past.database).drop(kind, days(1), limit=1)


async def test_a_case_that_comes_back_after_its_frame_was_archived_is_replayed(past: Past) -> None:
    living, ended = await past.case(ended=None), await past.case(ended=days(30))
    await past.archived(1, living, acked=days(400))
    await past.archived(2, ended, acked=days(30))
    await drop_all(retention(past.database))

    async with working(past.database) as frames:
        for key, stored in ((1, living), (2, ended)):
            instance = make_instance(instance_uid=stored.instance_uid)
            job = make_job(key, at=FAR, process_instance_key=1, element_instance_key=key)
            assert await frames.push(make_delivery(job, instance)) is None
            frame = await frames.observe(key)
            assert frame is not None
            assert decide(frame, job, stored.instance_uid, frames.owner) is FrameStep.REPLAY


async def test_a_job_of_a_case_whose_payload_went_has_no_known_input(past: Past) -> None:
    ended = await past.case(ended=days(8))
    delivery = make_delivery(make_job(), make_instance(instance_uid=ended.instance_uid))
    await drop_all(retention(past.database))

    async with working(past.database) as frames:
        claim = await frames.push(delivery)

    assert claim is not None
    assert (claim.input_known, claim.input_is_head) == (False, False)


async def test_the_visits_of_an_instance_nobody_has_go_after_a_day(past: Past) -> None:
    await past.case(ended=None, key=1)
    insert = "INSERT INTO verbworker.step_visit VALUES ('engine-1', $1, 'task', 1, 1, clock_timestamp() - $2::interval)"
    for instance_key, age in ((1, days(400)), (2, days(1.1)), (3, days(0.9))):
        await past.database.execute(insert, instance_key, age)

    await TaskProfileStore(past.database, engine_id="engine-1").forget_visits(ended_before=days(0), limit=10)

    assert await past.labels("SELECT process_instance_key FROM verbworker.step_visit") == [1, 3]


async def test_the_name_of_a_worker_that_runs_stays(past: Past) -> None:
    owner = uuid4()
    insert = "INSERT INTO verbworker.worker_boot VALUES ($1, 'w', 'h', 1, now(), clock_timestamp() - interval '1 year')"
    await past.database.execute(insert, owner)
    frames = Frames(past.database, engine_id="engine-1", owner=owner)

    await Archiver(frames).tidy()
    await drop_all(retention(past.database))

    assert await past.labels("SELECT owner FROM verbworker.worker_boot") == [owner]


async def test_two_retentions_share_the_work(past: Past) -> None:
    for _ in range(30):
        await past.case(ended=days(400))
    living = await past.case(ended=None)
    before, exported = await rows_of(living), Exported()
    both = [retention(past.database, exported, keep_entries=days(365)) for _ in range(2)]

    await asyncio.gather(*(drop_all(kept) for kept in both))

    assert sum(kept.dropped["runbook_entry"] for kept in both) == 30
    assert len(exported.ids()) == len(exported.lines) == 30
    assert await rows_of(living) == before
