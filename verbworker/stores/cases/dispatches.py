"""Dispatches: requests to start a process, kept until the engine has certainly accepted them."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from verbworker.model.start_variables import StartVariables
from verbworker.stores.database import Connection, Database
from verbworker.stores.sql import query
from verbworker.stores.tenants.turns import Turns


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A claimed request: what to start, and the number of attempts so far."""

    instance_uid: UUID
    entry_id: UUID
    process_id: str
    variables: dict[str, Any]
    attempts: int
    tenant_id: str = ""


class Dispatches:
    """The requests for one engine."""

    def __init__(self, database: Database, *, engine_id: str, owner: UUID) -> None:
        self._database = database
        self._engine_id = engine_id
        self._owner = owner
        self._turns = Turns()

    async def add_in(self, connection: Connection, beginning: StartVariables, process_id: str) -> None:
        """Store a request, in the transaction that creates its entry."""
        variables = json.dumps(dict(beginning.variables)).encode()
        await connection.execute(
            query("dispatches", "add"),
            beginning.instance_uid,
            beginning.entry_id,
            self._engine_id,
            process_id,
            variables,
            beginning.tenant_id,
        )

    async def claim(self, limit: int, *, claim_for: timedelta) -> list[Dispatch]:
        """Claim due requests, of several tenants in turn. The claim of a dead process expires after the timeout."""
        turns, given = self._turns, (self._engine_id, self._owner, limit, claim_for)
        if turns.is_next:
            rows = await self._database.fetch(query("dispatches", "claim_in_turn"), *given, turns.served)
        else:
            rows = await self._database.fetch(query("dispatches", "claim"), *given)
        turns.note(rows, limit)
        return [
            Dispatch(
                *(row["instance_uid"], row["entry_id"], row["process_id"], json.loads(row["variables"])),
                *(row["attempts"], row["tenant_id"]),
            )
            for row in rows
        ]

    async def postpone(self, instance_uid: UUID, *, by: timedelta, reason: str, surely_unstarted: bool) -> None:
        """Retry later, and record why."""
        await self._database.execute(
            query("dispatches", "postpone"), instance_uid, self._owner, by, reason[:1000], int(surely_unstarted)
        )

    async def is_doubtful(self, instance_uid: UUID) -> bool:
        """Return whether the engine may have a second instance of this request."""
        row = await self._database.fetchrow(query("dispatches", "doubt"), instance_uid)
        return row is not None and bool(row["doubtful"])

    async def withdraw_in(self, connection: Connection, instance_uid: UUID) -> bool:
        """Withdraw a request; False when the engine already has it."""
        return await connection.fetchval(query("dispatches", "withdraw"), instance_uid) is not None

    async def trouble(self, entry_id: UUID) -> str | None:
        """Return the engine's last error for an entry that has not started; None when there is no error."""
        row = await self._database.fetchrow(query("dispatches", "trouble"), entry_id)
        return None if row is None else row["last_error"]

    async def backlog(self) -> tuple[int, float]:
        """Return how many requests the engine has not accepted, and for how many seconds the oldest has waited."""
        row = await self._database.fetchrow(query("dispatches", "backlog"), self._engine_id)
        assert row is not None
        return row["waiting"], row["oldest"] or 0.0
