"""The runbook: entries, their chained events, and what they wait for."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any
from uuid import UUID

from verbworker.contract.quota import UNLIMITED, Quota
from verbworker.payload.canonical import parse
from verbworker.payload.envelope import HARD_LIMIT
from verbworker.runbook.event import Entry, EntryMode, Event, Kind, OpenToken, ParkedToken, Status, Wait
from verbworker.runbook.record_check import RecordCheck
from verbworker.stores.cases.page_key import PageKey
from verbworker.stores.cases.record_verifier import RecordVerifier
from verbworker.stores.database import Connection, Database, Row
from verbworker.stores.rows import value_of
from verbworker.stores.sql import query
from verbworker.stores.tenants.tenant_use import refuse_excess


@dataclass(frozen=True, slots=True)
class Request:
    """An entry to create: the request as its caller worded it, and as we do."""

    entry_id: UUID
    tenant_id: str
    request_key: str | None
    request_hash: bytes
    verb: str
    verb_version: str
    mode: EntryMode
    sentence: str
    invocation: str
    args: bytes
    asked_by: str
    process_id: str | None = None
    provenance: Mapping[str, Any] | None = None
    traceparent: str | None = None
    asked_by_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class ClosedToken:
    """A token that was just closed."""

    token_id: UUID
    entry_id: UUID
    kind: Wait
    reason: str
    gate: str | None
    message_name: str | None
    correlation_key: str | None
    input_hash: bytes | None = None


@dataclass(frozen=True, slots=True)
class DirectRun:
    """The lease to run a direct verb, valid until another process takes it with a higher epoch."""

    entry_id: UUID
    owner: UUID
    epoch: int
    now: datetime


@dataclass(frozen=True, slots=True)
class ChangedEntry:
    """An entry with new events: how many it has, and when the last was added."""

    entry_id: UUID
    sentence: str
    last_seq: int
    at: datetime


@dataclass(frozen=True, slots=True)
class SilentEntry:
    """An entry that should have moved long ago: since when it has not, and why."""

    entry: Entry
    since: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class ReleasedJob:
    """A held job that a person released and that the engine has not handed out since."""

    verb: str
    job_key: int
    at: datetime

    @property
    def words(self) -> str:
        """What is waited for, and what to do if that does not happen by itself."""
        return (
            f"{self.verb} was released at {self.at:%Y-%m-%d %H:%M:%S} and runs when the engine hands job {self.job_key}"
            " out again; if its incident is still open there, resolve it in the engine"
        )


_REQUEST = attrgetter(
    *("entry_id", "tenant_id", "request_key", "request_hash", "verb", "verb_version", "mode.value", "sentence"),
    *("invocation", "args", "asked_by"),
)


class Runbook:
    """The runbook of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open_in(self, connection: Connection, request: Request, quota: Quota = UNLIMITED) -> bool:
        """Create an entry; False when the tenant has used the request key before.

        Raises `QuotaExceeded`, and creates nothing, when the tenant has used up a quota.
        """
        given = (
            *_REQUEST(request),
            json.dumps(dict(request.provenance or {})),
            request.traceparent,
            request.process_id,
            request.asked_by_id,
        )
        if not quota.limits_starts:
            return await connection.fetchval(query("runbook", "open"), *given) is not None
        row = await connection.fetchrow(
            query("runbook", "open_within"), *given, quota.starts_per_minute, quota.open_cases
        )
        refuse_excess(row, request.tenant_id, quota)
        return row is not None and row["entry_id"] is not None

    async def earlier(self, tenant_id: str, request_key: str) -> tuple[UUID, bytes] | None:
        """Return the entry that a request key created, and the hash of that request."""
        row = await self._database.fetchrow(query("runbook", "by_request"), tenant_id, request_key)
        return None if row is None else (row["entry_id"], row["request_hash"])

    async def append(self, entry_id: UUID, kind: Kind, *, once: str, detail: Mapping[str, Any]) -> int | None:
        """Append an event once; None when it exists, or the entry is unknown or has ended otherwise."""
        async with self._database.acquire() as connection:
            return await self.append_in(connection, entry_id, kind, once=once, detail=detail)

    async def append_in(
        self, connection: Connection, entry_id: UUID, kind: Kind, *, once: str, detail: Mapping[str, Any]
    ) -> int | None:
        """Append inside the caller's transaction. Write tokens first: the status follows from them."""
        seq: int | None = await connection.fetchval(
            query("runbook", "append"), entry_id, kind.value, once, json.dumps(dict(detail), default=str)
        )
        return seq

    async def park_in(self, connection: Connection, token: ParkedToken) -> tuple[UUID, bool]:
        """Record what an entry waits for; return the token's ID and whether it is new. A closed token stays closed."""
        row = await connection.fetchrow(
            query("runbook", "park"),
            *token.place,
            token.kind.value,
            token.reason,
            token.gate,
            token.message_name,
            token.correlation_key,
            token.job_key,
            json.dumps(dict(token.detail)),
            token.due.after,
            token.due.at,
            list(token.due.beside),
            token.input_hash,
        )
        assert row is not None
        return row["token_id"], row["is_new"]

    async def unpark_in(
        self, connection: Connection, engine_id: str, element_instance_key: int, *, closed_as: str
    ) -> list[ClosedToken]:
        """Close the token of one element instance; return nothing when none was open."""
        rows = await connection.fetch(query("runbook", "unpark"), engine_id, element_instance_key, closed_as)
        return [_closed_of(row) for row in rows]

    async def reopen_in(self, connection: Connection, token: ParkedToken) -> bool:
        """Reopen a wait whose end the engine forgot; False when it is open."""
        what = token.engine_id, token.entry_id, token.element_instance_key, token.kind.value
        return await connection.fetchrow(query("runbook", "reopen"), *what) is not None

    async def displace_in(self, connection: Connection, token: ParkedToken) -> None:
        """Close the same wait under its other keys: the engine lost them and waits under this token's key now."""
        what = token.engine_id, token.entry_id, token.element_instance_key, token.kind.value
        await connection.execute(query("runbook", "displace"), *what, token.element_id, token.input_hash)

    async def unpark_elements_in(
        self,
        connection: Connection,
        engine_id: str,
        instance_key: int,
        element_ids: Collection[str],
        *,
        closed_as: str,
    ) -> list[ClosedToken]:
        """Close every token at some elements of an instance, also incidents: the engine has left them for good."""
        rows = await connection.fetch(
            query("runbook", "unpark_elements"), engine_id, instance_key, list(element_ids), closed_as
        )
        return [_closed_of(row) for row in rows]

    async def end_in(
        self,
        connection: Connection,
        entry_id: UUID,
        *,
        outcome: bytes | None,
        detail: Mapping[str, Any],
        kind: Kind = Kind.RESULT,
    ) -> bool:
        """End an entry with the result for its caller; False when it has already ended."""
        await connection.execute(query("runbook", "hold_instance"), entry_id)
        await connection.execute(query("runbook", "hold_tokens"), entry_id)
        if await connection.fetchval(query("runbook", "end"), entry_id, outcome) is None:
            return False
        return await self.append_in(connection, entry_id, kind, once="end", detail=detail) is not None

    async def is_recorded_in(self, connection: Connection, entry_id: UUID, once: str) -> bool:
        """Return whether an event was already appended."""
        return bool(await connection.fetchval(query("runbook", "told"), entry_id, once))

    async def hold_up_in(
        self, connection: Connection, token: ParkedToken, once: str, detail: Mapping[str, Any]
    ) -> bool:
        """Hold a job without a frame for a person; False when it is already held."""
        opened = await connection.fetchval(
            query("runbook", "hold_up"),
            *token.place,
            token.reason,
            token.job_key,
        )
        if opened is None:
            return False
        waits = {**detail, "wait": Wait.INCIDENT.value, "reason": token.reason}
        entry_id = token.entry_id
        await self.append_in(connection, entry_id, Kind.INCIDENT_RAISED, once=f"incident:{once}", detail=detail)
        await self.append_in(connection, entry_id, Kind.PARKED, once=f"held:{once}", detail=waits)
        return True

    async def let_go_in(self, connection: Connection, token: ParkedToken, once: str, detail: Mapping[str, Any]) -> bool:
        """Release a job without a frame; False when it is not held."""
        gone = query("runbook", "let_go")
        if await connection.fetchval(gone, token.engine_id, token.element_instance_key, token.job_key) is None:
            return False
        waits = {**detail, "wait": Wait.INCIDENT.value}
        entry_id = token.entry_id
        await self.append_in(connection, entry_id, Kind.INCIDENT_RESOLVED, once=f"resolved:{once}", detail=detail)
        await self.append_in(connection, entry_id, Kind.RESUMED, once=f"released:{once}", detail=waits)
        return True

    async def request_cancel_in(self, connection: Connection, entry_id: UUID, by: str, reason: str) -> bool:
        """Record a request to cancel an entry; False when it has ended."""
        if await connection.fetchval(query("runbook", "request_cancel"), entry_id) is None:
            return False
        detail = {"by": by, "reason": reason}
        await self.append_in(connection, entry_id, Kind.CANCEL_REQUESTED, once="cancel", detail=detail)
        return True

    async def is_cancelling_in(self, connection: Connection, entry_id: UUID) -> bool:
        """Return whether cancellation of an entry was requested."""
        return bool(await connection.fetchval(query("runbook", "is_cancelling"), entry_id))

    async def find_cancelling(self, engine_id: str, *, longer_than: timedelta, limit: int) -> list[UUID]:
        """Return entries to be cancelled that the engine still has."""
        rows = await self._database.fetch(query("runbook", "cancelling"), engine_id, longer_than, limit)
        return [row["entry_id"] for row in rows]

    async def verbs_in(self, connection: Connection, entry_id: UUID, kind: Kind) -> list[str]:
        """Return the verbs completed for an entry, or that undid something, in order."""
        return [row["verb"] for row in await connection.fetch(query("runbook", "done"), entry_id, kind.value)]

    async def under_way_in(self, connection: Connection, entry_id: UUID) -> list[dict[str, str]]:
        """Return the steps of an entry of which it is not known whether they took effect, in order."""
        rows = await connection.fetch(query("runbook", "under_way"), entry_id)
        return [{**row, "outcome": "unknown"} for row in rows]

    async def first_in(self, connection: Connection, entry_id: UUID, kind: Kind) -> Mapping[str, Any] | None:
        """Return the details of the first event of a kind."""
        detail = await connection.fetchval(query("runbook", "first"), entry_id, kind.value)
        return None if detail is None else json.loads(detail)

    async def take(self, entry_id: UUID, owner: UUID, lease: timedelta) -> DirectRun | None:
        """Return a lease to run a direct verb; None while another process has it or when the entry has ended."""
        row = await self._database.fetchrow(query("runbook", "take"), entry_id, owner, lease)
        return None if row is None else DirectRun(entry_id, owner, row["epoch"], row["now"])

    async def holds_in(self, connection: Connection, taken: DirectRun) -> bool:
        """Return whether the lease is still ours; if so, it stays ours until this transaction ends."""
        held = await connection.fetchval(query("runbook", "hold_taken"), taken.entry_id, taken.owner, taken.epoch)
        return held is not None

    async def entry(self, entry_id: UUID, *, tenant_id: str | None = None) -> Entry | None:
        """Return one entry; with a tenant, only if it is that tenant's."""
        row = await self._database.fetchrow(query("runbook", "entry"), entry_id, tenant_id)
        return None if row is None else entry_of(row)

    async def traceparent(self, entry_id: UUID) -> str | None:
        """Return the trace that an entry was requested in."""
        row = await self._database.fetchrow(query("runbook", "traceparent"), entry_id)
        found: str | None = None if row is None else row["traceparent"]
        return found

    async def count_parked(self, tenant_id: str, *, most: int) -> int:
        """Return how many of a tenant's entries wait for something, counting at most `most`."""
        row = await self._database.fetchrow(query("runbook", "count_parked"), tenant_id, most)
        assert row is not None
        counted: int = row["parked"]
        return counted

    async def stuck(
        self, tenant_id: str, *, longer_than: timedelta, after: PageKey | None = None, limit: int = 100
    ) -> list[SilentEntry]:
        """Return entries without progress for long, longest first, or the next ones after a key."""
        place = (None, None) if after is None else (after.at, after.row_id)
        rows = await self._database.fetch(query("runbook", "stuck"), tenant_id, longer_than, limit, *place)
        return [SilentEntry(entry_of(row), row["since"], row["reason"]) for row in rows]

    async def events(self, entry_id: UUID, *, after: int = 0, limit: int = 10_000) -> list[Event]:
        """Return the events of an entry, in order."""
        rows = await self._database.fetch(query("runbook", "events"), entry_id, after, limit)
        return [_event(row) for row in rows]

    async def find_moves(self, tenant_id: str, *, since: datetime | None) -> list[ChangedEntry]:
        """Return a tenant's entries with events since a moment, or ever, latest last."""
        rows = await self._database.fetch(query("runbook", "moved"), tenant_id, since)
        return [ChangedEntry(row["entry_id"], row["sentence"], row["last_seq"], row["updated_at"]) for row in rows]

    async def waits(self, entry_id: UUID) -> list[OpenToken]:
        """Return what an entry waits for now."""
        rows = await self._database.fetch(query("runbook", "open_tokens"), entry_id)
        return [value_of(OpenToken, row, kind=Wait(row["kind"]), since=row["opened_at"]) for row in rows]

    async def waiting_releases(self, entry_id: UUID) -> list[ReleasedJob]:
        """Return the held jobs of an entry that were released and that the engine has not handed out since."""
        rows = await self._database.fetch(query("runbook", "released"), entry_id)
        return [ReleasedJob(**row) for row in rows]

    async def verify(self, tenant_id: str, entry_id: UUID | None = None) -> RecordCheck:
        """Verify the record of a tenant, or of one entry, without keys."""
        return await RecordVerifier(self._database).verify(tenant_id, entry_id)


def _closed_of(row: Row) -> ClosedToken:
    return value_of(ClosedToken, row, kind=Wait(row["kind"]))


def _event(row: Row) -> Event:
    kind, status = Kind(row["kind"]), Status(row["status"])
    return value_of(Event, row, kind=kind, status=status, detail=json.loads(row["detail"]))


def entry_of(row: Row) -> Entry:
    """Return a row as an entry."""
    outcome = row["outcome"]
    return value_of(
        Entry,
        row,
        mode=EntryMode(row["mode"]),
        status=Status(row["status"]),
        args=parse(row["args"], limit=HARD_LIMIT),
        outcome=None if outcome is None else parse(outcome, limit=HARD_LIMIT),
        provenance=json.loads(row["provenance"]),
    )
