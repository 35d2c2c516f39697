"""Database checks for `verbworker doctor`, and the privileges that a worker's role needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from verbworker.stores.database import Database
from verbworker.stores.sql import query

Queue = Literal["gates", "held", "overtime", "dispatches", "decisions", "letters", "messages"]

_APPENDED = ("SELECT", "INSERT")
_KEPT = (*_APPENDED, "UPDATE")
_MOVED = (*_APPENDED, "DELETE")
_ALL = (*_KEPT, "DELETE")

NEEDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "verbworker": {
        "migration": ("SELECT",),
        "workflow_instance": _KEPT,
        "payload_head": _KEPT,
        "payload_version": _APPENDED,
        "job_frame": _KEPT,
        "job_frame_archive": ("SELECT",),
        "job_delivery": _ALL,
        "frame_event": _APPENDED,
        "frame_conflict": _APPENDED,
        "worker_boot": _KEPT,
        "runbook_entry": _KEPT,
        "runbook_event": _APPENDED,
        "runbook_seal": _APPENDED,
        "runbook_seal_line": _APPENDED,
        "parked_token": _KEPT,
        "gate_decision": _KEPT,
        "person": _KEPT,
        "dispatch": _KEPT,
        "inbox_message": _KEPT,
        "dead_letter": _KEPT,
        "envelope_queue": ("SELECT", "UPDATE", "DELETE"),
        "compensation_record": _KEPT,
        "deployment_request": _KEPT,
        "process_deployment": _KEPT,
        "process_terms": _APPENDED,
        "step_visit": _ALL,
        "retired_runbook_entry": ("SELECT",),
        "stall": _ALL,
        "standstill": ("SELECT",),
        "upkeep_turn": _KEPT,
        "plain_incident": _KEPT,
        "tenant_use": _ALL,
    },
    "verbworker_engine": {
        "identity": _APPENDED,
        "definition": _APPENDED,
        "message_start": _ALL,
        "instance": _ALL,
        "instance_number": ("USAGE",),
        "ended_instance": _ALL,
        "token_history": _ALL,
        "token": ("SELECT",),
        "ended_token": ("SELECT",),
        "job": _ALL,
        "timer": _ALL,
        "subscription": _MOVED,
        "message": _ALL,
        "incident": _MOVED,
    },
}
"""Privileges that the shipped statements need on each table, by schema; a test compares them with the statements."""

FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "verbworker": (
        "ensure_archive_month(timestamptz)",
        "archive_frames(interval, bigint)",
        "prune_frames(interval, bigint)",
        "displace_frame(text, bigint, bigint)",
        "find_addressees(text, text, text[], text[])",
        "has_case(uuid)",
        "count_retired(text, timestamptz, bigint)",
        "drop_retired(text, timestamptz, bigint)",
        "drop_payloads(timestamptz, bigint)",
        "drop_archived_frames(timestamptz, bigint)",
        "drop_entries(uuid[], bytea[], timestamptz)",
    ),
}
"""Functions that run as the owner of the tables, for archiving and retention: only for roles with a grant."""


@dataclass(frozen=True, slots=True)
class Server:
    """The server's version, and our role on it."""

    number: int
    version: str
    role: str


@dataclass(frozen=True, slots=True)
class OwnRole:
    """What our role is beyond what it was granted, and which of the roles of `sql/roles.sql` it is a member of."""

    is_superuser: bool
    is_owner: bool
    passes_policies: bool
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BlockedSession:
    """How many items wait in one queue, how many of them too long, the longest wait, and a word on that item."""

    number: int
    late: int
    longest: timedelta | None
    word: str | None


@dataclass(frozen=True, slots=True)
class WorkerCount:
    """How many workers of an engine run, the one seen last and how long ago, and how many cases are open there."""

    alive: int
    last_name: str | None
    last_seen: timedelta | None
    open_cases: int


@dataclass(frozen=True, slots=True)
class LeaseCount:
    """How many running workers take jobs under the engine's leases and how many do not, and one of each by name."""

    leasing: int
    plain: int
    leasing_name: str | None
    plain_name: str | None


class Checkup:
    """Read-only queries of the doctor."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def server(self) -> Server:
        """Return the server's version and our role."""
        row = await self._database.fetchrow(query("checkup", "server"))
        assert row is not None, "a query without a table has one row"
        return Server(**row)

    async def own_role(self) -> OwnRole:
        """Return what our role is."""
        row = await self._database.fetchrow(query("checkup", "own_role"))
        assert row is not None, "a query of the session's own role has one row"
        return OwnRole(row["is_superuser"], row["is_owner"], row["passes_policies"], tuple(row["roles"]))

    async def clock(self) -> datetime:
        """Return the database's clock."""
        row = await self._database.fetchrow(query("checkup", "clock"))
        assert row is not None, "a query without a table has one row"
        now: datetime = row["now"]
        return now

    async def engine_ahead(self) -> timedelta:
        """Return how far the embedded engine's clock is ahead of the database's."""
        row = await self._database.fetchrow(query("checkup", "engine_clock"))
        assert row is not None, "a query without a table has one row"
        return timedelta(seconds=row["ahead"])

    async def missing(self, *schemas: str) -> list[str]:
        """Return the privileges our role lacks in these schemas, worded as in a GRANT."""
        rows = await self._database.fetch(query("checkup", "closed_schemas"), list(schemas))
        if rows:
            return [f"USAGE ON SCHEMA {row['name']}" for row in rows]
        needed = [
            (f"{schema}.{table}", privilege)
            for schema in schemas
            for table, privileges in NEEDS[schema].items()
            for privilege in privileges
        ]
        relations, privileges = [pair[0] for pair in needed], [pair[1] for pair in needed]
        rows = await self._database.fetch(query("checkup", "missing_privileges"), relations, privileges)
        return [f"{row['privilege']} ON {_kind(row['privilege'])}{row['relation']}" for row in rows]

    async def missing_functions(self, *schemas: str) -> list[str]:
        """Return the functions of these schemas that our role needs but may not execute."""
        needed = [f"{schema}.{name}" for schema in schemas for name in FUNCTIONS.get(schema, ())]
        rows = await self._database.fetch(query("checkup", "missing_functions"), needed)
        return [row["name"] for row in rows]

    async def definitions_in_use(self, engine_id: str) -> set[int]:
        """Return the keys of the definitions that running instances use."""
        rows = await self._database.fetch(query("checkup", "pinned"), engine_id)
        return {row["definition_key"] for row in rows}

    async def running_instances(self, engine_id: str, *, limit: int, older_than: timedelta) -> list[int]:
        """Return some engine instances of cases that run, the oldest first."""
        rows = await self._database.fetch(query("checkup", "running"), engine_id, limit, older_than)
        return [row["instance_key"] for row in rows]

    async def waiting(self, queue: Queue, engine_id: str, *, longer_than: timedelta) -> BlockedSession:
        """Return what waits in one queue of one engine."""
        row = await self._database.fetchrow(query("checkup", queue), engine_id, longer_than)
        assert row is not None, "an aggregate has one row"
        return BlockedSession(**row)

    async def workers(self, engine_id: str, *, within: timedelta) -> WorkerCount:
        """Return how many workers of an engine were seen within that time."""
        row = await self._database.fetchrow(query("checkup", "workers"), engine_id, within)
        assert row is not None, "an aggregate has one row"
        return WorkerCount(**row)

    async def count_leases(self, engine_id: str, *, within: timedelta) -> LeaseCount:
        """Return how the workers of an engine that were seen within that time take jobs."""
        row = await self._database.fetchrow(query("checkup", "leases"), engine_id, within)
        assert row is not None, "an aggregate has one row"
        return LeaseCount(**row)


def _kind(privilege: str) -> str:
    return "SEQUENCE " if privilege == "USAGE" else ""
