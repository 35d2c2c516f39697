"""Instances that a person has suspended in the engine: one wait each, until they are resumed."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from verbworker.runbook.event import Kind, ParkedToken, Wait
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Connection, Database, Row
from verbworker.stores.sql import query

_REASON = "Suspended in the engine"


@dataclass(frozen=True, slots=True)
class Suspended:
    """A suspended instance, and the job whose command the engine refused; a native user task has no job."""

    token_id: UUID
    entry_id: UUID
    job_key: int | None
    opened_at: datetime


class Suspensions:
    """The suspended instances of one engine."""

    def __init__(self, database: Database, *, engine_id: str) -> None:
        self._database = database
        self._engine_id = engine_id
        self._runbook = Runbook(database)

    async def park(self, job_key: int, instance_key: int | None = None) -> bool:
        """Park the entry of a job; False if it is parked for that already, has ended, or the job has no entry."""
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(query("suspensions", "instance_of"), self._engine_id, job_key, instance_key)
            return row is not None and await self._park_in(connection, row, job_key)

    async def park_gate(self, token_id: UUID) -> bool:
        """Park the entry of a gate whose decision the engine refused; False likewise."""
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(query("suspensions", "instance_of_gate"), token_id)
            return row is not None and await self._park_in(connection, row, row["job_key"])

    async def _park_in(self, connection: Connection, row: Row, job_key: int | None) -> bool:
        token = ParkedToken(
            tenant_id=row["tenant_id"],
            entry_id=row["entry_id"],
            instance_uid=row["instance_uid"],
            engine_id=row["engine_id"],
            instance_key=row["instance_key"],
            # The process itself is suspended, not one of its elements.
            element_instance_key=row["instance_key"],
            element_id=row["process_id"],
            kind=Wait.SUSPENDED,
            reason=_REASON,
            job_key=job_key,
        )
        made = await connection.fetchrow(query("suspensions", "park"), *token.place, token.reason, job_key)
        if made is None:
            return False
        detail = {"wait": token.kind.value, "reason": token.reason, "token_id": str(made["token_id"])}
        once = _once("suspended", made["token_id"], made["opened_at"])
        await self._runbook.append_in(connection, token.entry_id, Kind.PARKED, once=once, detail=detail)
        return True

    async def due(self, limit: int, *, unasked_for: timedelta = timedelta(0)) -> list[Suspended]:
        """Return suspended instances that no worker asked about for so long, the longest first; each has a job."""
        rows = await self._database.fetch(query("suspensions", "ask"), self._engine_id, limit, unasked_for)
        return [Suspended(**row) for row in rows]

    async def resume_gate(self, token_id: UUID) -> None:
        """Record that the instance of a gate goes on, if it was suspended."""
        for row in await self._database.fetch(query("suspensions", "of_gate"), token_id):
            await self.resume(Suspended(**row))

    async def resume(self, suspended: Suspended) -> bool:
        """Record that an instance goes on; False if that is known."""
        async with self._database.transaction() as connection:
            if await connection.fetchrow(query("suspensions", "resume"), suspended.token_id) is None:
                return False
            detail = {"wait": Wait.SUSPENDED.value, "token_id": str(suspended.token_id)}
            once = _once("unsuspended", suspended.token_id, suspended.opened_at)
            await self._runbook.append_in(connection, suspended.entry_id, Kind.RESUMED, once=once, detail=detail)
        return True


def _once(word: str, token_id: UUID, opened_at: datetime) -> str:
    # An instance may be suspended again: each time has an opening of its own.
    return f"{word}:{token_id}:{opened_at.timestamp()}"
