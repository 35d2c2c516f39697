"""Writes the seals of the record: one per tenant and turn, over the entries that moved since the one before."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from uuid import UUID

from verbworker.errors import CannotRun
from verbworker.payload.signature import KeyRing
from verbworker.runbook.record_seal import RecordSeal, SealLine, make_seal
from verbworker.stores.database import Connection, Database, Row
from verbworker.stores.rows import value_of
from verbworker.stores.sql import query

_FIRST = UUID(int=0)


@dataclass(frozen=True, slots=True)
class MovedEntry:
    """An entry of a tenant, and where its chain is now."""

    tenant_id: str
    line: SealLine


@dataclass(frozen=True, slots=True)
class SealedBatch:
    """How many entries were sealed, whether more are waiting, and whether the database was restored from elsewhere."""

    entries: int
    is_more: bool = False
    is_restored: bool = False


@dataclass(frozen=True, slots=True)
class SealedPage:
    """How many entries of a page were sealed, and where the next page begins; None after the last."""

    entries: int
    after: UUID | None


class Seals:
    """The seals of one database, signed with the active key of a ring if there is one.

    Every seal is checked before the next is chained to it: what was changed without the key is never signed over.
    Raises `CannotRun` then, as when the seals are signed and no key is set.
    """

    def __init__(self, database: Database, ring: KeyRing | None = None) -> None:
        self._database = database
        self._ring = ring
        self._ours: dict[str, RecordSeal] = {}

    async def seal_moves(self, *, limit: int) -> SealedBatch | None:
        """Seal the entries with events since the last seal; None while another process is sealing."""
        async with self._database.transaction() as connection:
            if not await connection.fetchval(query("seals", "try_lock")):
                return None
            horizon = await connection.fetchrow(query("seals", "horizon"))
            assert horizon is not None, "a query without a table has one row"
            is_restored = horizon["sealed"] > horizon["reaches"]
            rows = await connection.fetch(query("seals", "moved"), 0 if is_restored else horizon["sealed"], limit)
            is_more = len(rows) == limit
            reaches = None if is_more else horizon["reaches"]
            made = await self._add_all(connection, map(_moved_of, rows), horizon=reaches)
        self._ours.update(made)
        return SealedBatch(len(rows), is_more, is_restored)

    async def seal_page(self, after: UUID | None, *, limit: int) -> SealedPage | None:
        """Seal those entries of a page, by their ids, that are not sealed as they are; None as for `seal_moves`."""
        async with self._database.transaction() as connection:
            if not await connection.fetchval(query("seals", "try_lock")):
                return None
            rows = await connection.fetch(query("seals", "page"), after or _FIRST, limit)
            found = sorted((_moved_of(row) for row in rows if not row["is_sealed"]), key=attrgetter("tenant_id"))
            made = await self._add_all(connection, found)
        self._ours.update(made)
        return SealedPage(len(found), rows[-1]["entry_id"] if len(rows) == limit else None)

    async def sign_last(self) -> int:
        """Sign the chain of each tenant whose last seal is not signed with the active key, by one more seal."""
        if self._ring is None:
            return 0
        async with self._database.transaction() as connection:
            await connection.execute(query("seals", "lock"))
            rows = await connection.fetch(query("seals", "tenants"))
            tails = [await self._read_last(connection, row["tenant_id"]) for row in rows]
            due = [tail for tail in tails if tail is not None and tail.key_id != self._ring.active]
            made = {tail.tenant_id: await self._add(connection, tail.tenant_id, []) for tail in due}
        self._ours.update(made)
        return len(made)

    async def seal_in(self, connection: Connection, entries: Iterable[MovedEntry]) -> None:
        """Record in the caller's transaction that entries are dropped or erased. No seal is written until it ends."""
        await connection.execute(query("seals", "lock"))
        await self._add_all(connection, sorted(entries, key=attrgetter("tenant_id")))

    async def sealed_in(self, connection: Connection, entry_ids: Collection[UUID]) -> Mapping[UUID, list[SealLine]]:
        """Return how some entries were sealed, the first seal first."""
        found: dict[UUID, list[SealLine]] = {entry_id: [] for entry_id in entry_ids}
        for row in await connection.fetch(query("seals", "sealed"), list(entry_ids)):
            found[row["entry_id"]].append(value_of(SealLine, row))
        return found

    async def require_write(self) -> None:
        """Raise `StoreReadOnly` if the database takes no writes, also when there is nothing to seal."""
        await self._database.execute(query("seals", "require_write"))

    async def now(self) -> datetime:
        """Return the database's time."""
        row = await self._database.fetchrow(query("seals", "now"))
        assert row is not None, "a query without a table has one row"
        found: datetime = row["now"]
        return found

    async def last(self) -> list[RecordSeal]:
        """Return the last seal of each tenant."""
        async with self._database.transaction() as connection:
            rows = await connection.fetch(query("seals", "tenants"))
            tails = [await self._read_last(connection, row["tenant_id"]) for row in rows]
        return [tail for tail in tails if tail is not None]

    async def find_waiting(self) -> datetime | None:
        """Return since when something waits to be sealed, looking only at what moved since the last seal."""
        row = await self._database.fetchrow(query("seals", "waiting"))
        found: datetime | None = None if row is None else row["since"]
        return found

    async def _add_all(
        self, connection: Connection, entries: Iterable[MovedEntry], *, horizon: int | None = None
    ) -> dict[str, RecordSeal]:
        """Add one seal for each tenant; the entries come ordered by tenant."""
        made = {}
        for tenant, of_tenant in groupby(entries, attrgetter("tenant_id")):
            lines = [entry.line for entry in of_tenant]
            made[tenant] = await self._add(connection, tenant, lines, horizon=horizon)
        return made

    async def _add(
        self, connection: Connection, tenant: str, lines: Sequence[SealLine], *, horizon: int | None = None
    ) -> RecordSeal:
        last = await self._read_last(connection, tenant)
        now = await connection.fetchval(query("seals", "now"))
        made = make_seal(tenant, last, now, lines, self._ring)
        values = made.lines, made.lines_hash, made.previous, made.hash, made.key_id, made.signature, horizon
        columns = (
            [line.entry_id for line in lines],
            [line.seq for line in lines],
            [line.hash for line in lines],
            [line.dropped for line in lines],
            [line.erased for line in lines],
        )
        await connection.execute(query("seals", "add"), tenant, made.number, made.at, *values, *columns)
        return made

    async def _read_last(self, connection: Connection, tenant: str) -> RecordSeal | None:
        """Return the last seal of a tenant; raise `CannotRun` if it is not one to go on from."""
        ours = self._ours.get(tenant)
        rows = await connection.fetch(query("seals", "last"), tenant, 0 if ours is None else ours.number)
        seals = [seal_of(row) for row in rows]
        last = seals[0] if seals else None
        if ours is not None and ours not in seals:
            raise CannotRun(
                f"the record of tenant {tenant!a}: seal {ours.number}, which this process wrote, is gone or changed;"
                " verify it: verbworker runbook verify (after a restore of the database, restart the workers)"
            )
        if last is None:
            return None
        where = f"the record of tenant {tenant!a}: seal {last.number}"
        if not last.is_right() or (self._ring is not None and last.is_signed(self._ring) is False):
            raise CannotRun(f"{where} is not what was written; verify it: verbworker runbook verify")
        if self._ring is None and last.key_id is not None:
            raise CannotRun(f"{where} is signed with key {last.key_id!r}, and no key is set; set VERBWORKER_SEAL_KEYS")
        return last


def seal_of(row: Row) -> RecordSeal:
    """Return a row as a seal."""
    return value_of(RecordSeal, row)


def _moved_of(row: Row) -> MovedEntry:
    return MovedEntry(row["tenant_id"], SealLine(row["entry_id"], row["seq"], row["hash"]))
