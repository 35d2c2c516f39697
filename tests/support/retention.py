"""Rows of every age for tests of retention: each has a label, and a case that is open or has ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE
from tests.support.hands import transaction_by_hand
from verbworker.app.settings import Settings
from verbworker.runbook.event import Kind
from verbworker.stores.database import Database
from verbworker.work.upkeep.retention import Export, Retention

FRAME = """
INSERT INTO verbworker.job_frame (
  engine_id, job_key, process_instance_key, element_instance_key, verb, tenant_id, instance_uid, process_id,
  process_version, element_id, mode, on_unknown, max_runs, idempotency_window, idempotency_key, owner, lease_until,
  activated_ms, retries_left, input_hash, state, outcome, output, output_hash, acked_at
) VALUES (
  $1, $2, 1, $2, 'kyc.check', 'default', $3, 'kyc', 1, 'task', 'external', 'rerun', 5, '1 day', 'k', $4,
  clock_timestamp() - interval '1 year', 0, 3, '', $5::text::verbworker.frame_state,
  CASE $5 WHEN 'completed' THEN 'complete'::verbworker.frame_outcome END, CASE $5 WHEN 'completed' THEN 'x'::bytea END,
  CASE $5 WHEN 'completed' THEN sha256('x') END, clock_timestamp() - $6::interval
)
"""
ARCHIVE = """
INSERT INTO verbworker.job_frame_archive
SELECT clock_timestamp(), frame.* FROM verbworker.job_frame AS frame WHERE frame.job_key = $1
"""
MESSAGE = """
INSERT INTO verbworker.inbox_message (
  tenant_id, message_id, message_name, correlation_key, body_hash, sent_by, state, instance_uid, engine_id, ttl,
  expires_at, consumed_at, discarded_at
) VALUES (
  'default', $1, 'papers', 'c-1', '', 'portal', $2::text, $3, 'engine-1', '1 hour',
  clock_timestamp() - interval '1 year',
  CASE WHEN $2 = 'consumed' THEN clock_timestamp() - $4::interval END,
  CASE WHEN $2 = 'discarded' THEN clock_timestamp() - $4::interval END
)
"""
# The end of a case moved into the past, as if it had been written then: with its event, and the chain from there.
AGE = (
    "SET LOCAL session_replication_role = replica",
    "UPDATE verbworker.runbook_event SET at = clock_timestamp() - $2::interval"
    " WHERE entry_id = $1 AND kind = 'ExecutionResult'",
    "UPDATE verbworker.runbook_event AS event SET hash = verbworker.event_hash(previous.hash, event.entry_id,"
    " event.seq, event.at, event.kind, event.once, event.detail, event.status, event.salt, event.digests)"
    " FROM verbworker.runbook_event AS previous WHERE event.entry_id = $1 AND $2::interval IS NOT NULL"
    " AND event.kind = 'ExecutionResult' AND previous.entry_id = event.entry_id AND previous.seq = event.seq - 1",
    "UPDATE verbworker.runbook_entry AS entry SET ended_at = event.at, last_hash = event.hash"
    " FROM verbworker.runbook_event AS event WHERE entry.entry_id = $1 AND $2::interval IS NOT NULL"
    " AND event.entry_id = entry.entry_id AND event.seq = entry.last_seq",
    "UPDATE verbworker.workflow_instance SET ended_at = clock_timestamp() - $2::interval WHERE entry_id = $1",
)
LETTER = """
INSERT INTO verbworker.dead_letter (
  tenant_id, message_id, message_name, correlation_key, entry_id, code, reason, sent_by, state, created_at, resolved_at
) VALUES (
  'default', $1, 'papers', 'c-1', $2, 'no_case', 'x', 'portal',
  CASE WHEN $3::interval IS NULL THEN 'open' ELSE 'discarded' END,
  clock_timestamp() - interval '2 years', clock_timestamp() - $3::interval
)
"""


def days(number: float) -> timedelta:
    """So many days."""
    return timedelta(days=number)


@dataclass(frozen=True, slots=True)
class Past:
    """A database whose rows may be older than it is."""

    database: Database

    async def case(self, *, ended: timedelta | None, key: int = 0, **changes: Any) -> StoredEntry:
        """A case that was carried out; it ended so long ago, or is open."""
        stored = await StoredEntry.open(self.database, **changes)
        await stored.start(key or uuid4().int % 10**12)
        await stored.park(stored.token(element=uuid4().int % 10**12))
        await self._append(stored, Kind.PARKED, {"reason": "Waiting \\ \u00fcber 'it'\n", "n": 1e3})
        if ended is not None:
            await self.end(stored, ended)
        return stored

    async def end(self, stored: StoredEntry, ago: timedelta) -> None:
        """Have a case end, so long ago."""
        await self._append(stored, Kind.RESULT, {"result": "ok"})
        async with transaction_by_hand(self.database) as connection:
            for statement in AGE:
                await connection.execute(statement, *((stored.entry_id, ago) if "$2" in statement else ()))

    async def _append(self, stored: StoredEntry, kind: Kind, detail: Mapping[str, object]) -> None:
        async with self.database.transaction() as connection:
            await stored.runbook.append_in(connection, stored.entry_id, kind, once=kind.value, detail=detail)

    async def frame(
        self, key: int, stored: StoredEntry | None, *, state: str = "completed", acked: timedelta | None = None
    ) -> None:
        """A frame in the hot table."""
        uid = None if stored is None else stored.instance_uid
        await self.database.execute(FRAME, ENGINE, key, uid, uuid4(), state, acked)

    async def archived(self, key: int, stored: StoredEntry | None, *, acked: timedelta) -> None:
        """A frame in the archive."""
        await self.frame(key, stored, acked=acked)
        month = "SELECT verbworker.ensure_archive_month(clock_timestamp() - $1::interval)"
        await self.database.fetch(month, acked)
        await self.database.execute(ARCHIVE, key)
        await self.database.execute("DELETE FROM verbworker.job_frame WHERE job_key = $1", key)

    async def labels(self, statement: str) -> list[Any]:
        """The first column of every row, in order."""
        return sorted([row[0] for row in await self.database.fetch(statement)])


def retention(database: Database, export: Export | None = None, **changes: timedelta | None) -> Retention:
    """Retention with the shipped settings, but for some."""
    return Retention(database, Settings().keep() | changes, export=export)


async def drop_all(kept: Retention) -> None:
    """Drop until nothing is due."""
    while await kept.drop_batch():
        pass
    assert kept.failures == {}
