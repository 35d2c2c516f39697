"""Verifies the record: chains of events, what they cover, and the seals over them, as of one moment."""

from collections import defaultdict
from collections.abc import AsyncIterator
from uuid import UUID

from verbworker.payload.signature import KeyRing
from verbworker.runbook.checkpoint import SealMark
from verbworker.runbook.record_check import (
    RecordCheck,
    RecordFinding,
    SealCheck,
    note_chain,
    note_decision,
    note_erasure,
    note_field,
    note_seal,
)
from verbworker.runbook.record_seal import RecordSeal, SealLine
from verbworker.runbook.seal_chain import SealChain
from verbworker.stores.cases.seals import seal_of
from verbworker.stores.database import Connection, Database, Row
from verbworker.stores.sql import query

_SEALS = 500  # read at a time, with their lines


class RecordVerifier:
    """Verifies what one database holds. Without keys, seals are verified but for their signatures."""

    def __init__(self, database: Database, ring: KeyRing | None = None) -> None:
        self._database = database
        self._ring = ring

    async def verify(
        self, tenant_id: str, entry_id: UUID | None = None, *, against: SealMark | None = None
    ) -> RecordCheck:
        """Verify a tenant's record, or one entry and all seals; with a mark of a checkpoint, that its seal is there."""
        async with self._database.transaction(is_snapshot=True) as connection:
            seen = await connection.fetchrow(query("record_verifier", "count_events"), tenant_id, entry_id)
            assert seen is not None, "an aggregate has one row"
            findings = await _verify_entries(connection, tenant_id, entry_id)
            chain = SealChain(self._ring, against)
            async for seal, lines in _read_seals(connection, tenant_id):
                chain.add(seal, lines)
            stray = await connection.fetchval(query("record_verifier", "stray_lines"), tenant_id, chain.number)
            sealed = await self._seal_check(connection, tenant_id, entry_id, chain)
        found = (*findings, *chain.finish(stray))
        mark = None if against is None else against.number
        return RecordCheck(seen["entries"], seen["events"], found, seen["older"], sealed, mark, seen["erased"])

    async def _seal_check(
        self, connection: Connection, tenant_id: str, entry_id: UUID | None, chain: SealChain
    ) -> SealCheck:
        unsealed = await connection.fetch(query("record_verifier", "unsealed"), tenant_id, entry_id)
        dropped = await connection.fetchval(query("record_verifier", "dropped"), tenant_id, entry_id)
        return SealCheck(
            seals=chain.seals,
            signed=chain.signed,
            verified=chain.verified,
            has_keys=self._ring is not None,
            dropped=dropped,
            unsealed=tuple(row["entry_id"] for row in unsealed),
            unsealed_number=unsealed[0]["number"] if unsealed else 0,
            unsealed_since=unsealed[0]["updated_at"] if unsealed else None,
        )


async def _verify_entries(connection: Connection, tenant_id: str, entry_id: UUID | None) -> list[RecordFinding]:
    of = tenant_id, entry_id
    broken = await connection.fetch(query("record_verifier", "broken"), *of)
    forged = await connection.fetch(query("record_verifier", "forged"), *of)
    decisions = await connection.fetch(query("record_verifier", "forged_decisions"), *of)
    erasures = await connection.fetch(query("record_verifier", "forged_erasures"), *of)
    unlike = await connection.fetch(query("record_verifier", "unlike_seals"), *of)
    return [
        *(note_chain(row["entry_id"], row["seq"]) for row in broken),
        *(note_field(row["entry_id"], row["place"], row["seq"] or None) for row in forged),
        *(note_decision(row["entry_id"], row["gate"], row["place"], row["seq"] or None) for row in decisions),
        *(note_erasure(row["entry_id"], row["seq"]) for row in erasures),
        *(note_seal(row["entry_id"], row["place"], row["seq"], row["number"]) for row in unlike),
    ]


async def _read_seals(connection: Connection, tenant_id: str) -> AsyncIterator[tuple[RecordSeal, list[SealLine]]]:
    after = 0
    while True:
        rows = await connection.fetch(query("record_verifier", "seals"), tenant_id, after, _SEALS)
        if not rows:
            return
        lines: dict[int, list[SealLine]] = defaultdict(list)
        for row in await connection.fetch(query("record_verifier", "seal_lines"), tenant_id, after, rows[-1]["number"]):
            lines[row["number"]].append(_line_of(row))
        for row in rows:
            yield seal_of(row), lines[row["number"]]
        after = rows[-1]["number"]


def _line_of(row: Row) -> SealLine:
    return SealLine(row["entry_id"], row["seq"], row["hash"], row["dropped"], row["erased"])
