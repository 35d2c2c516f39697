"""Histories: everything the database knows about one job, for people to read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from verbworker.job.frame import FrameState
from verbworker.stores.database import Database, Row
from verbworker.stores.rows import value_of
from verbworker.stores.sql import query


@dataclass(frozen=True, slots=True)
class FrameReport:
    """A frame without its payload, as of `now`."""

    job_key: int
    process_id: str
    process_version: int
    element_id: str
    process_instance_key: int
    element_instance_key: int
    verb: str
    tenant_id: str
    instance_uid: UUID | None
    entry_id: UUID | None
    mode: str
    on_unknown: str
    max_runs: int
    idempotency_key: str
    generation: int
    state: FrameState
    epoch: int
    owner: UUID
    lease_until: datetime
    deliveries: int
    runs: int
    infra_runs: int
    retries_left: int
    next_retry_at: datetime | None
    outcome: str | None
    output_bytes: int | None
    output_seal: str | None
    flags: Mapping[str, object]
    error_code: str | None
    fail_class: str | None
    fail_code: str | None
    fail_text: str | None
    reported_at: datetime | None
    acked_at: datetime | None
    ack_result: str | None
    pushed_at: datetime
    popped_at: datetime | None
    now: datetime
    archived: bool


@dataclass(frozen=True, slots=True)
class FrameEvent:
    """One thing that happened; `facts` are its details by name, `detail` its text when it has no facts."""

    at: datetime
    kind: str
    epoch: int | None = None
    owner: UUID | None = None
    detail: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class History:
    """A frame, what happened to it, and the names of the processes that owned it."""

    frame: FrameReport
    events: tuple[FrameEvent, ...] = ()
    conflicts: tuple[datetime, ...] = ()
    boots: Mapping[UUID, str] = field(default_factory=dict)


class Histories:
    """The histories of one engine's jobs."""

    def __init__(self, database: Database, *, engine_id: str) -> None:
        self._database = database
        self._engine_id = engine_id

    async def read(self, job_key: int) -> History | None:
        """Return everything known about a job, or None when it never had a frame."""
        row = await self._database.fetchrow(query("histories", "frame"), self._engine_id, job_key)
        if row is None:
            return None
        frame = value_of(FrameReport, row, state=FrameState(row["state"]), flags=json.loads(row["flags"] or "{}"))
        rows = await self._database.fetch(query("histories", "events"), self._engine_id, job_key)
        events = tuple(_event(each) for each in rows)
        conflicts = await self._database.fetch(query("histories", "conflicts"), self._engine_id, job_key)
        boots = await self._boots(_owners(frame, events))
        return History(frame, events, tuple(each["at"] for each in conflicts), boots)

    async def _boots(self, owners: set[UUID]) -> dict[UUID, str]:
        rows = await self._database.fetch(query("histories", "boots"), list(owners))
        return {row["owner"]: f"{row['name']} (host {row['host']}, pid {row['pid']})" for row in rows}

    async def list(self, state: FrameState, *, limit: int) -> "list[dict[str, object]]":
        """Return the frames in one state, longest waiting first."""
        rows = await self._database.fetch(query("histories", "list"), self._engine_id, state.value, limit)
        return [dict(row) for row in rows]


def _event(row: Row) -> FrameEvent:
    detail: str = row["detail"]
    facts = json.loads(detail) if detail.startswith("{") else {}
    return FrameEvent(row["at"], row["kind"], row["epoch"], row["owner"], "" if facts else detail, facts)


def _owners(frame: FrameReport, events: tuple[FrameEvent, ...]) -> set[UUID]:
    before = (event.facts.get("from") for event in events)
    named = {UUID(owner) for owner in before if isinstance(owner, str)}
    return named | {frame.owner} | {event.owner for event in events if event.owner is not None}
