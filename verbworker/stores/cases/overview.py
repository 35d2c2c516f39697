"""The overview: lists and figures over many entries, each from one cheap query."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import md5
from uuid import UUID

from verbworker.runbook.event import Entry, Stall, StallKind, Status
from verbworker.runbook.progress import Progress, progress_of
from verbworker.stores.cases.page_key import PageKey
from verbworker.stores.cases.runbook import entry_of
from verbworker.stores.database import Database, Row
from verbworker.stores.sql import query

NEWEST = 2_000
"""How many entries are considered where reading all of them would take too long."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Criteria for entries; None matches all."""

    status: Status | None = None
    verb: str | None = None
    text: str | None = None
    entry_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class EntryRow:
    """An entry in a list."""

    entry: Entry
    progress: Progress
    stalls: tuple[Stall, ...] = ()
    outcome_name: str | None = None

    @property
    def key(self) -> PageKey:
        """Return the start of the next page."""
        return PageKey(self.entry.created_at, self.entry.entry_id)


@dataclass(frozen=True, slots=True)
class EntryMessage:
    """A message on an entry's page, without its payload."""

    message_name: str
    message_id: str
    correlation_key: str
    state: str
    sent_by: str
    received_at: datetime


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that waits for an operator: a held frame, a job without one, or an element that cannot go on.

    A frame that belongs to no entry has no `incident_id`; an element without a job has no `job_key`. What belongs to a
    plain process has no entry.
    """

    incident_id: UUID | None
    engine_id: str
    job_key: int | None
    entry_id: UUID | None
    element_id: str
    reason: str
    since: datetime
    sentence: str | None
    verb: str | None
    state: str | None
    runs: int | None
    retries_left: int | None
    fail_class: str | None
    fail_code: str | None
    fail_text: str | None
    instance_key: int | None = None
    incident_key: int | None = None
    incident_type: str | None = None
    incident_text: str | None = None
    process_id: str | None = None
    is_plain: bool = False

    @property
    def key(self) -> PageKey:
        """Return the start of the next page."""
        if self.incident_id is not None:
            return PageKey(self.since, self.incident_id)
        # As the query makes it: a frame that belongs to no entry has no id, and its job has one frame.
        digest = md5(f"{self.engine_id}/{self.job_key}".encode(), usedforsecurity=False)
        return PageKey(self.since, UUID(digest.hexdigest()))


@dataclass(frozen=True, slots=True)
class WaitingCount:
    """How many entries wait for one kind of thing, and since when."""

    kind: str
    waits: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Duration:
    """How long the steps of one verb took, in seconds."""

    verb: str
    frames: int
    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class LoadCounts:
    """How much work there is, and how long it takes."""

    arrivals: Mapping[datetime, int]
    frames: Mapping[str, int]
    waits: tuple[WaitingCount, ...]
    durations: tuple[Duration, ...]


class Overview:
    """Read-only queries over many entries of a tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, tenant_id: str, wanted: Filter, *, before: PageKey | None = None, limit: int = 50
    ) -> list[EntryRow]:
        """Return the newest matching entries, or the next ones after a key."""
        rows = await self._database.fetch(
            query("overview", "page"),
            tenant_id,
            None if wanted.status is None else wanted.status.value,
            wanted.verb,
            None if wanted.text is None else f"%{_literal(wanted.text)}%",
            wanted.entry_id,
            None if before is None else before.at,
            None if before is None else before.row_id,
            limit,
        )
        return [_listed_of(row) for row in rows]

    async def counts(self, tenant_id: str) -> dict[Status, int]:
        """Return the number of entries per status; ended ones are counted among the newest only."""
        rows = await self._database.fetch(query("overview", "counts"), tenant_id, NEWEST)
        found = {Status(row["status"]): row["entries"] for row in rows}
        return {status: found.get(status, 0) for status in Status}

    async def verbs(self, tenant_id: str) -> list[str]:
        """Return the verbs requested recently."""
        return [row["verb"] for row in await self._database.fetch(query("overview", "verbs"), tenant_id, NEWEST)]

    async def messages(self, entry_id: UUID, *, limit: int = 200) -> list[EntryMessage]:
        """Return the messages of an entry, oldest first."""
        rows = await self._database.fetch(query("overview", "messages"), entry_id, limit)
        return [EntryMessage(**row) for row in rows]

    async def troubles(
        self, tenant_id: str, *, without_entry: bool, after: PageKey | None = None, limit: int = 100
    ) -> list[Trouble]:
        """Return what waits for an operator, longest first, or the next ones after a key.

        With `without_entry` also what belongs to no entry.
        """
        place = (None, None) if after is None else (after.at, after.row_id)
        wanted = tenant_id, without_entry, None, limit, None, *place
        return [Trouble(**row) for row in await self._database.fetch(query("overview", "troubles"), *wanted)]

    async def find_troubles(
        self, tenant_id: str, *, where: UUID | None, key: int | None, without_entry: bool, limit: int = 10
    ) -> list[Trouble]:
        """Return those that an incident's or an entry's id names, or the key of a job or an incident."""
        wanted = tenant_id, without_entry, key, limit, where, None, None
        return [Trouble(**row) for row in await self._database.fetch(query("overview", "troubles"), *wanted)]

    async def count_events(self, entry_ids: Collection[UUID]) -> dict[UUID, int]:
        """Return the number of events of each of these entries."""
        rows = await self._database.fetch(query("overview", "watched"), list(entry_ids))
        return {row["entry_id"]: row["last_seq"] for row in rows}

    async def fingerprints(self) -> dict[str, str]:
        """Return values that change whenever gates or dead letters change."""
        row = await self._database.fetchrow(query("overview", "fingerprints"))
        assert row is not None
        return {"gates": row["gates"], "letters": row["letters"]}

    async def load(self, tenant_id: str, *, without_entry: bool) -> LoadCounts:
        """Return the figures of the last hour."""
        arrivals = await self._database.fetch(query("overview", "arrivals"), tenant_id)
        frames = await self._database.fetch(query("overview", "frames"), tenant_id, without_entry)
        waits = await self._database.fetch(query("overview", "oldest_waits"), tenant_id)
        durations = await self._database.fetch(query("overview", "durations"), tenant_id, without_entry)
        return LoadCounts(
            arrivals={row["minute"]: row["entries"] for row in arrivals},
            frames={row["state"]: row["frames"] for row in frames},
            waits=tuple(WaitingCount(**row) for row in waits),
            durations=tuple(Duration(**row) for row in durations),
        )


def _listed_of(row: Row) -> EntryRow:
    entry, stalls = entry_of(row), tuple(map(_stall, json.loads(row["stalls"])))
    kinds, repeats = [stall.kind for stall in stalls], row["repeats"]
    progress = progress_of(entry.status, row["done"], row["steps"], row["waits"], kinds, repeats=repeats)
    return EntryRow(entry, progress, stalls, row["outcome_name"])


def _stall(fields: Mapping[str, str]) -> Stall:
    return Stall(StallKind(fields["kind"]), datetime.fromisoformat(fields["since"]), fields["reason"], fields["remedy"])


def _literal(text: str) -> str:
    """Escape text so that a LIKE pattern matches it literally."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
