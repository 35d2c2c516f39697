"""Erases what an ended entry holds about a person; its digests stay, so that its record can still be verified."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from verbworker.contract.message import engine_message_id
from verbworker.errors import NotFound, Refused
from verbworker.runbook.event import Kind
from verbworker.runbook.record_seal import SealLine
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.cases.seals import MovedEntry, Seals
from verbworker.stores.database import Connection, Database
from verbworker.stores.sql import query

# What stays of an event: names that models and contracts give, keys of the engine, numbers, and who acted. Everything
# else may be words from outside, so a new part of an event is erased unless it is listed here.
_KEPT = (
    *("by", "by_id", "class", "code", "decision", "definition_key", "element", "error_code", "gate", "incident_key"),
    *("instance_key", "job_key", "message_name", "name", "outcome", "process", "result", "runs", "type", "undoes"),
    *("token_id", "verb", "version", "wait"),
)
# Their `once` has the id of a message, which its sender chose.
_NAMED_BY_SENDERS = (Kind.MESSAGE_RECEIVED.value, Kind.CORRELATION_FAILED.value)
# In this order: what is found by the keys of an entry goes before its keys.
_BY_ENTRY = (
    *("payload_head", "payload_version", "job_frame", "job_frame_archive", "frame_event", "frame_conflict"),
    *("compensation_record", "dispatch", "parked_token", "gate_decision", "stall", "ended_instance"),
    *("workflow_instance", "runbook_entry"),
)


@dataclass(frozen=True, slots=True)
class Erased:
    """How many rows of each table were erased, or would be."""

    entry_id: UUID
    rows: Mapping[str, int]

    @property
    def total(self) -> int:
        """How many rows in all."""
        return sum(self.rows.values())


class _DryRun(Exception):
    """Rolls the transaction back: nothing is kept of a dry run."""


class Erasure:
    """Erasure in one database, in the role of its owner. A seal records each, so it needs the keys of the seals."""

    def __init__(self, database: Database, seals: Seals | None = None) -> None:
        self._database = database
        self._seals = Seals(database) if seals is None else seals
        self._runbook = Runbook(database)

    async def erase(self, tenant: str, entry_id: UUID, *, by: str, dry_run: bool = False) -> Erased:
        """Erase an ended entry, all of it or nothing; a second time there is nothing left to erase.

        Raises `NotFound` for an unknown entry, `Refused` while it runs or something of it may still be sent, and
        `CannotRun` without the key of the seals.
        """
        found = Erased(entry_id, {})
        try:
            async with self._database.transaction() as connection:
                await self._require_end(connection, tenant, entry_id)
                found = await self._erase(connection, entry_id, by)
                if dry_run:
                    raise _DryRun
        except _DryRun:
            pass
        return found

    async def _require_end(self, connection: Connection, tenant: str, entry_id: UUID) -> None:
        row = await connection.fetchrow(query("erasure", "hold"), entry_id, tenant)
        if row is None:
            raise NotFound(f"there is no entry {entry_id}")
        if not row["is_ended"]:
            raise Refused(f"entry {entry_id} has not ended; only an ended entry can be erased")
        if row["unsettled"]:
            left = f"{row['unsettled']} of its jobs, messages or decisions are not settled"
            raise Refused(f"entry {entry_id} has ended, but {left}; try again in a minute")

    async def _erase(self, connection: Connection, entry_id: UUID, by: str) -> Erased:
        messages = await connection.fetch(query("erasure", "messages"), entry_id)
        keys = await connection.fetch(query("erasure", "keys"), entry_id)
        senders = [row["tenant_id"] for row in messages], [row["message_id"] for row in messages]
        owned = [row["tenant_id"] for row in keys], [row["correlation_key"] for row in keys]
        sent = [engine_message_id(row["tenant_id"], row["message_id"], row["generation"]) for row in messages]
        rows = {
            "dead_letter": await _change(connection, "dead_letter", entry_id, *senders, *owned),
            "inbox_message": await _change(connection, "inbox_message", entry_id, *owned),
            "engine_message": await _change(connection, "engine_message", entry_id, sent),
        }
        for name in _BY_ENTRY:
            rows[name] = await _change(connection, name, entry_id)
        events = await connection.fetch(
            query("erasure", "runbook_event"), entry_id, list(_KEPT), list(_NAMED_BY_SENDERS)
        )
        rows["runbook_event"] = len(events)
        found = Erased(entry_id, {name: number for name, number in rows.items() if number})
        if found.total:
            named = {str(row["seq"]): [row["hash"], row["left_hash"]] for row in events}
            detail = {"by": by, "rows": dict(found.rows), "events": named}
            await self._append(connection, entry_id, detail)
            await self._seal(connection, entry_id)
        return found

    async def _seal(self, connection: Connection, entry_id: UUID) -> None:
        # Who owns the tables could append such an event for a change of another kind, but not sign for it.
        row = await connection.fetchrow(query("erasure", "chain"), entry_id)
        assert row is not None, "the entry is locked"
        line = SealLine(entry_id, row["last_seq"], row["last_hash"], erased=True)
        await self._seals.seal_in(connection, [MovedEntry(row["tenant_id"], line)])

    async def _append(self, connection: Connection, entry_id: UUID, detail: Mapping[str, object]) -> None:
        # Late rows, such as a dead letter, may be erased by another run: each leaves its own event.
        number = 1
        while (
            await self._runbook.append_in(connection, entry_id, Kind.ERASED, once=f"erasure:{number}", detail=detail)
            is None
        ):
            number += 1


async def _change(connection: Connection, name: str, *args: UUID | Sequence[str]) -> int:
    # The server answers with a command and its number of rows: UPDATE 3.
    return int((await connection.execute(query("erasure", name), *args)).rpartition(" ")[2])
