"""Stalls: entries that make no progress though nothing of ours holds them up, and their diagnoses."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from verbworker.runbook.event import Stall, StallKind
from verbworker.stores.database import Connection, Database
from verbworker.stores.sql import query


@dataclass(frozen=True, slots=True)
class Standstill:
    """One stall as the database sees it; `what` is the verb in backoff or the overdue wait."""

    entry_id: UUID
    kind: StallKind
    place: str
    engine_id: str
    instance_key: int | None
    what: str | None
    since: datetime


@dataclass(frozen=True, slots=True)
class LastStep:
    """The last completed step of an entry, and the error it ended with."""

    verb: str
    error_code: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class StallSummary:
    """The number of stalls of one kind, and the diagnosis of the longest."""

    number: int
    longest: timedelta
    entry_id: UUID
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class EngineRow:
    """Something the embedded engine's tables contain about an instance."""

    words: str
    is_incident: bool


class Stalls:
    """The stalls of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, engine_id: str, *, after: timedelta, gates_after: timedelta, limit: int) -> list[Standstill]:
        """Return unrecorded stalls longer than `after`, or `gates_after` for a process with gates."""
        rows = await self._database.fetch(query("stalls", "find"), engine_id, after, gates_after, limit)
        return [Standstill(**{**row, "kind": StallKind(row["kind"])}) for row in rows]

    async def note_in(self, connection: Connection, still: Standstill, reason: str, remedy: str) -> int | None:
        """Record a stall; None when it moved or was recorded meanwhile. The caller's next event must report it."""
        args = (still.entry_id, still.kind.value, still.place, still.since, reason, remedy)
        seq: int | None = await connection.fetchval(query("stalls", "note"), *args)
        return seq

    async def resend_messages_in(self, connection: Connection, entry_id: UUID) -> None:
        """Have the messages that a case has read sent once more, as long as the engine would recognize them."""
        await connection.execute(query("stalls", "resend"), entry_id)

    async def clear(self, engine_id: str) -> None:
        """Delete records of stalls that moved on."""
        await self._database.execute(query("stalls", "clear"), engine_id)

    async def counts(self, engine_id: str) -> dict[StallKind, int]:
        """Return the number of recorded stalls of each kind."""
        rows = await self._database.fetch(query("stalls", "counts"), engine_id)
        found = {StallKind(row["kind"]): row["number"] for row in rows}
        return {kind: found.get(kind, 0) for kind in StallKind}

    async def worst(self, engine_id: str) -> Mapping[StallKind, StallSummary]:
        """Return the worst recorded stall of each kind."""
        rows = await self._database.fetch(query("stalls", "worst"), engine_id)
        return {
            StallKind(row["kind"]): StallSummary(
                row["number"], row["longest"], row["entry_id"], row["reason"], row["remedy"]
            )
            for row in rows
        }

    async def of_entry(self, entry_id: UUID) -> list[Stall]:
        """Return the recorded stalls of one entry."""
        rows = await self._database.fetch(query("stalls", "of_entry"), entry_id)
        return [Stall(StallKind(row["kind"]), row["since"], row["reason"], row["remedy"]) for row in rows]

    async def last_step(self, entry_id: UUID) -> LastStep | None:
        """Return the last completed step of an entry."""
        row = await self._database.fetchrow(query("stalls", "last_step"), entry_id)
        return None if row is None else LastStep(row["verb"], row["error_code"], row["at"])

    async def in_engine(self, instance_key: int) -> list[EngineRow]:
        """Return what the embedded engine has on an instance."""
        rows = await self._database.fetch(query("stalls", "in_engine"), instance_key)
        return [EngineRow(row["words"], row["is_incident"]) for row in rows]
