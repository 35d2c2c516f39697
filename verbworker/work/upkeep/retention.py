"""Retention: archives finished frames, and drops what no case needs any more, by one rule per table."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from verbworker import metrics
from verbworker.background.poll_loop import PollLoop
from verbworker.errors import CannotRun, StoreConflict, StoreError, StoreUnavailable
from verbworker.runbook.export import check_entry, fits_seals
from verbworker.runbook.record_seal import SealLine
from verbworker.stores.cases.seals import MovedEntry, Seals
from verbworker.stores.database import Database
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.retention import ExportedEntry, RetiredCount, RetiredRows, TableSize
from verbworker.stores.task_profiles import TaskProfileStore

_log = logging.getLogger(__name__)

# Nothing here is urgent: rows have been due for days when they are dropped.
_EVERY = 300.0
# Soon enough for a worker that is replaced several times an hour.
_FIRST_AFTER = 60.0
# After a full batch, so that a large backlog uses one connection for at most about half of the time.
_PAUSE = 0.05
# A gauge that shows "many" is enough; counting further would read rows for nothing.
COUNTED = 10_000
SHORTEST = timedelta(days=1)
"""No entry is dropped sooner after its end: late deliveries of its jobs are recognised by it."""
# A batch of frames that the archiver moves.
_ARCHIVED = 2000


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """What to drop: the kind of row, its tables, the setting for how long it is kept, and a batch size."""

    kind: str
    tables: tuple[str, ...]
    setting: str
    words: str
    batch: int = 1000
    # Rows that are dropped together wait for the youngest of them.
    slack: timedelta = timedelta(0)


ENTRIES = RetentionRule(
    "runbook_entry",
    (
        "verbworker.runbook_entry",
        "verbworker.runbook_event",
        "verbworker.parked_token",
        "verbworker.gate_decision",
        "verbworker.compensation_record",
        "verbworker.workflow_instance",
        "verbworker.dispatch",
    ),
    "keep_entries",
    "ended entries with everything about them, after their export",
    200,
)
RULES: tuple[RetentionRule, ...] = (
    RetentionRule(
        "archived_frame",
        ("verbworker.job_frame_archive",),
        "keep_archive",
        "archived frames by whole months; those of open cases stay",
        slack=timedelta(days=31),
    ),
    RetentionRule(
        "frame_event", ("verbworker.frame_event",), "keep_frame_events", "what happened to jobs of ended cases"
    ),
    RetentionRule(
        "frame_conflict", ("verbworker.frame_conflict",), "keep_frame_conflicts", "deliveries under a foreign key"
    ),
    RetentionRule(
        "worker_boot", ("verbworker.worker_boot",), "keep_worker_boots", "names of workers that are no longer seen"
    ),
    RetentionRule(
        "payload",
        ("verbworker.payload_head", "verbworker.payload_version"),
        "keep_payloads",
        "payloads of ended cases, and their frames that never finished",
        200,
    ),
    RetentionRule(
        "inbox_message",
        ("verbworker.inbox_message",),
        "keep_messages",
        "messages that ended cases have read, and discarded ones",
    ),
    RetentionRule(
        "plain_incident",
        ("verbworker.plain_incident",),
        "keep_plain_incidents",
        "incidents of plain processes that are over, with who resolved them",
    ),
    RetentionRule(
        "console_session", ("verbworker.console_session",), "keep_sessions", "sessions of the console that are over"
    ),
    RetentionRule("dead_letter", ("verbworker.dead_letter",), "keep_dead_letters", "dead letters that were resolved"),
    ENTRIES,
)
"""What retention drops. Entries come last: the rows that belong to them are dropped first where allowed."""

Export = Callable[[Sequence[str]], Awaitable[None]]
"""Writes lines so that they survive a crash, or raises `CannotRun`."""


@dataclass(frozen=True, slots=True)
class RuleState:
    """The state of one rule: for how long rows are kept (None: forever), and what is due."""

    rule: RetentionRule
    kept: timedelta | None
    due: RetiredCount
    size: TableSize

    def behind(self, now: datetime) -> timedelta:
        """Return for how long the oldest row has been due."""
        if self.kept is None or self.due.oldest is None:
            return timedelta(0)
        return max(now - self.due.oldest - self.kept - self.rule.slack, timedelta(0))


class Retention:
    """Applies the rules. Any number of workers may do so concurrently; a failing rule does not stop the others."""

    def __init__(
        self,
        database: Database,
        keep: Mapping[str, timedelta | None],
        *,
        export: Export | None = None,
        seals: Seals | None = None,
    ) -> None:
        self._database = database
        self._rows = RetiredRows(database)
        self._seals = seals or Seals(database)
        self._keep = keep
        self._export = export
        self._broken: set[UUID] = set()
        self.dropped = dict.fromkeys((rule.kind for rule in RULES), 0)
        self.failures: dict[str, str] = {}
        self.service = PollLoop(
            "retention",
            self._drop_and_pause,
            every=_EVERY,
            chore=self.count,
            chore_every=_EVERY,
            first_after=_FIRST_AFTER,
        )

    async def _drop_and_pause(self) -> int:
        dropped = await self.drop_batch()
        if dropped:
            await asyncio.sleep(_PAUSE)
        return dropped

    async def drop_batch(self) -> int:
        """Drop one batch by each rule and return how many rows were dropped; `failures` holds the rules that failed."""
        return sum([await self._drop(rule) for rule in RULES])

    async def _drop(self, rule: RetentionRule) -> int:
        kept = self._keep[rule.setting]
        if kept is None:
            return 0
        try:
            if rule is ENTRIES:
                dropped = await self._drop_entries(rule, kept)
            else:
                dropped = await self._rows.drop(rule.kind, kept, limit=rule.batch)
        except StoreUnavailable:
            raise
        except StoreConflict as error:
            # Do not wait for a lock that another session holds; the next round tries again.
            self.failures[rule.kind] = str(error)
            return 0
        except (StoreError, CannotRun) as error:
            self.failures[rule.kind] = str(error)
            _log.warning("nothing dropped", extra={"table": rule.kind, "reason": str(error)})
            return 0
        self.failures.pop(rule.kind, None)
        self.dropped[rule.kind] += dropped
        metrics.RETENTION_DROPPED.labels(rule.kind).inc(dropped)
        return dropped

    async def _drop_entries(self, rule: RetentionRule, kept: timedelta) -> int:
        """Drop a batch of entries, and commit when their export is on disk; without a destination drop none.

        A seal in the same commit says which were dropped: any other that is missing was deleted. If the process dies
        before the commit, an entry is in two files, and the later one counts.
        """
        if self._export is None:
            return 0
        async with self._database.transaction() as connection:
            held = await self._rows.hold_entries(connection, kept, limit=rule.batch, but=self._broken)
            sealed = await self._seals.sealed_in(connection, [entry.entry_id for entry in held])
            whole = [entry for entry in held if _is_whole(entry, sealed[entry.entry_id])]
            for entry in held:
                if entry not in whole:
                    # Evidence: it stays where `runbook verify` finds it.
                    self._broken.add(entry.entry_id)
                    _log.error("entry kept because its record was changed", extra={"entry_id": str(entry.entry_id)})
            gone = await self._rows.drop_entries(connection, whole, kept)
            if gone:
                await self._seals.seal_in(connection, map(_dropped_of, gone))
                await self._export([entry.line for entry in gone])
            return len(gone)

    async def count(self) -> None:
        """Set the gauges: how many rows are due by each rule."""
        for rule in RULES:
            kept = self._keep[rule.setting]
            due = 0 if kept is None else (await self._rows.due(rule.kind, kept, most=COUNTED)).rows
            metrics.RETENTION_DUE.labels(rule.kind).set(due)

    async def explain_entries(self, *, most: int) -> str:
        """Return why ended entries are kept, in a sentence; empty if none is."""
        kept = self._keep[ENTRIES.setting]
        found = await self._rows.kept_entries(kept, most=most)
        if not found.ended:
            return ""
        setting = f"VERBWORKER_{ENTRIES.setting.upper()}"
        if kept is None:
            return f"{found.ended} ended: all are kept, {setting} is not set or forever"
        reasons = {
            f"ended less than {max(kept, SHORTEST).total_seconds() / 86_400:g}d ago ({setting})": found.young,
            "may still be needed by their instance or a job": found.needed,
            "have a broken chain and stay as evidence": len(self._broken),
        }
        left = found.ended - sum(reasons.values())
        if self._export is None:
            reasons["wait for an export directory (VERBWORKER_EXPORT_DIR)"] = left
        parts = [f"{number} {words}" for words, number in reasons.items() if number]
        return f"{found.ended} ended: {', '.join(parts)}" if parts else ""

    async def read_states(self, *, most: int) -> list[RuleState]:
        """Return the state of each rule; counting stops at `most` rows."""
        sizes = await self._rows.sizes([table for rule in RULES for table in rule.tables])
        found = []
        for rule in RULES:
            kept = self._keep[rule.setting]
            due = RetiredCount(0, None) if kept is None else await self._rows.due(rule.kind, kept, most=most)
            found.append(RuleState(rule, kept, due, sizes[rule.tables[0]]))
        return found


def _is_whole(entry: ExportedEntry, sealed: Sequence[SealLine]) -> bool:
    return check_entry(entry.line).is_whole and fits_seals(entry.line, sealed)


def _dropped_of(entry: ExportedEntry) -> MovedEntry:
    return MovedEntry(entry.tenant_id, SealLine(entry.entry_id, entry.seq, entry.head, dropped=True))


class Archiver:
    """Keeps the hot table small. Any number of workers may archive concurrently."""

    def __init__(
        self,
        frames: Frames,
        task_profiles: TaskProfileStore | None = None,
        *,
        after: timedelta = timedelta(minutes=10),
        every: timedelta = timedelta(seconds=30),
    ) -> None:
        self._frames = frames
        self._task_profiles = task_profiles
        self._after = after
        seconds = every.total_seconds()
        self.service = PollLoop(
            "reaper", self.archive, every=seconds, chore=self.tidy, chore_every=seconds, first_after=seconds
        )

    async def archive(self) -> int:
        """Archive one batch of frames and return how many moved."""
        return await self._frames.archive(older_than=self._after, limit=_ARCHIVED)

    async def tidy(self) -> None:
        """Record that this process runs, drop visits of steps that ended, and refresh the gauges."""
        await self._frames.note_alive()
        if self._task_profiles is not None:
            await self._task_profiles.forget_visits(ended_before=self._after, limit=_ARCHIVED)
        waiting = await self._frames.count_waiting()
        metrics.HELD.set(waiting.held)
        metrics.UNACKNOWLEDGED.set(waiting.unacknowledged)
        metrics.UNACKNOWLEDGED_AGE.set(waiting.oldest_unacknowledged)
