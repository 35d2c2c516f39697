"""What the harness reads of the product while it runs, by SQL alone, and keeps asking while Postgres is away."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import asyncpg

_AWAY = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
_ENTRIES = "SELECT entry_id, request_key, status, last_seq FROM verbworker.runbook_entry"
_TOKENS = "SELECT entry_id, kind FROM verbworker.parked_token WHERE closed_at IS NULL"
_EFFECTS = "SELECT count(*) FROM parcel_effect"
_OF_PROCESS = """
SELECT DISTINCT frame.entry_id
FROM verbworker.job_frame AS frame
JOIN verbworker.worker_boot AS boot ON boot.owner = frame.owner
WHERE frame.state = 'started' AND boot.pid = $1
"""
_UNDER_WAY = """
SELECT entry.entry_id
FROM verbworker.runbook_entry AS entry
WHERE entry.status = 'executing'
  AND NOT EXISTS (
    SELECT FROM verbworker.parked_token AS token WHERE token.entry_id = entry.entry_id AND token.closed_at IS NULL)
"""


@dataclass(slots=True)
class Seen:
    """How everything stands, as of the last look."""

    status: dict[str, str] = field(default_factory=dict)  # by request key
    entry_id: dict[str, str] = field(default_factory=dict)  # by request key
    gates: set[str] = field(default_factory=set)  # entries at an open gate
    incidents: set[str] = field(default_factory=set)  # entries with an open incident
    progress: int = 0
    progress_at: float = 0.0


class World:
    """A look at the database twice a second, and questions in between."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Any = None  # asyncpg ships no types
        self._turn = asyncio.Lock()
        self.seen = Seen(progress_at=time.monotonic())

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(0.5)

    async def look(self) -> None:
        """Read once how everything stands."""
        rows = await self.query(_ENTRIES)
        tokens = await self.query(_TOKENS)
        effects = (await self.query(_EFFECTS))[0][0]
        seen = self.seen
        seen.status = {row["request_key"]: row["status"] for row in rows}
        seen.entry_id = {row["request_key"]: str(row["entry_id"]) for row in rows}
        seen.gates = {str(row["entry_id"]) for row in tokens if row["kind"] == "human_gate"}
        seen.incidents = {str(row["entry_id"]) for row in tokens if row["kind"] == "incident"}
        progress = sum(row["last_seq"] for row in rows) + effects
        if progress != seen.progress:
            seen.progress, seen.progress_at = progress, time.monotonic()

    async def query(self, sql: str, *values: object) -> list[Any]:
        """Rows, however long the database is away."""
        while True:
            rows = await self.query_once(sql, *values)
            if rows is not None:
                return rows
            await asyncio.sleep(0.2)

    async def query_once(self, sql: str, *values: object) -> list[Any] | None:
        """Rows, or None when the database does not answer just now."""
        async with self._turn:
            try:
                async with asyncio.timeout(10):
                    if self._connection is None or self._connection.is_closed():
                        self._connection = await asyncpg.connect(self._dsn, timeout=5)
                    return list(await self._connection.fetch(sql, *values))
            except asyncpg.SyntaxOrAccessError:
                raise
            except _AWAY:
                await self._drop()
                return None

    async def affected(self, pid: int | None) -> list[str]:
        """The entries that a process works on, or all that are under way; none when nobody can tell."""
        rows = await (self.query_once(_UNDER_WAY) if pid is None else self.query_once(_OF_PROCESS, pid))
        return [str(row["entry_id"]) for row in rows or () if row["entry_id"] is not None]

    async def close(self) -> None:
        """End the session."""
        async with self._turn:
            await self._drop()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
