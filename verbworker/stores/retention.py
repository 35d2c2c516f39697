"""Retired rows that no case needs any more: counted, exported and dropped in small batches."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from verbworker.stores.database import Connection, Database
from verbworker.stores.sql import query

_ARCHIVE = "archived_frame"
_PAYLOAD = "payload"


@dataclass(frozen=True, slots=True)
class RetiredCount:
    """How many rows are due to be dropped, and when the oldest retired."""

    rows: int
    oldest: datetime | None


@dataclass(frozen=True, slots=True)
class ExportedEntry:
    """An entry as a line of JSON, and where its chain of events ended when it was read."""

    entry_id: UUID
    tenant_id: str
    seq: int
    head: bytes
    line: str


@dataclass(frozen=True, slots=True)
class KeptEntries:
    """How many entries have ended; how many of them too lately to be dropped, and how many may still be needed."""

    ended: int
    young: int
    needed: int


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table's estimated row count, and its size on disk with its indexes."""

    rows: int
    bytes: int


class RetiredRows:
    """The rows of the `retired_*` views. Processes may drop concurrently: each skips rows that another has locked."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self, kind: str, kept: timedelta, *, most: int) -> RetiredCount:
        """Count the rows of one kind that retired longer ago than `kept`; counting stops at `most`."""
        if kind == _ARCHIVE:
            row = await self._database.fetchrow(query("retention", "count_archive"), kept, most)
        else:
            row = await self._database.fetchrow(query("retention", "count"), kind, kept, most)
        assert row is not None, "an aggregate has one row"
        return RetiredCount(row["due"], row["oldest"])

    async def drop(self, kind: str, kept: timedelta, *, limit: int) -> int:
        """Drop at most `limit` rows of one kind that retired longer ago than `kept`; return how many."""
        if kind == _ARCHIVE:
            row = await self._database.fetchrow(query("retention", "drop_archive"), kept, limit)
        elif kind == _PAYLOAD:
            row = await self._database.fetchrow(query("retention", "drop_payloads"), kept, limit)
        else:
            row = await self._database.fetchrow(query("retention", "drop"), kind, kept, limit)
        return 0 if row is None else row["dropped"]

    async def hold_entries(
        self, connection: Connection, kept: timedelta, *, limit: int, but: Collection[UUID] = ()
    ) -> list[ExportedEntry]:
        """Lock due entries until the caller's transaction ends, and read everything known about them."""
        held = await connection.fetch(query("retention", "hold_entries"), kept, limit, list(but))
        # A second statement, so that it sees everything written before the lock was acquired.
        rows = await connection.fetch(query("retention", "export_entries"), [row["entry_id"] for row in held])
        return [
            ExportedEntry(row["entry_id"], row["tenant_id"], row["last_seq"], row["last_hash"], row["line"])
            for row in rows
        ]

    async def drop_entries(
        self, connection: Connection, entries: Sequence[ExportedEntry], kept: timedelta
    ) -> list[ExportedEntry]:
        """Drop entries whose chain still ends where it was read; return those that are gone once the caller commits."""
        ids, heads = [entry.entry_id for entry in entries], [entry.head for entry in entries]
        rows = await connection.fetch(query("retention", "drop_entries"), ids, heads, kept)
        gone = {row["entry_id"] for row in rows}
        return [entry for entry in entries if entry.entry_id in gone]

    async def kept_entries(self, kept: timedelta | None, *, most: int) -> KeptEntries:
        """Return why ended entries are not due; counting stops at `most`."""
        row = await self._database.fetchrow(query("retention", "kept_entries"), kept, most)
        assert row is not None, "an aggregate has one row"
        return KeptEntries(**row)

    async def sizes(self, tables: Sequence[str]) -> dict[str, TableSize]:
        """Return the sizes of tables, as the server estimates them."""
        rows = await self._database.fetch(query("retention", "sizes"), list(tables))
        return {row["name"]: TableSize(row["rows"], row["bytes"]) for row in rows}
