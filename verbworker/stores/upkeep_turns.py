"""Turns: upkeep that one worker of many does per period, and that any other takes over."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from verbworker.stores.database import Database
from verbworker.stores.sql import query


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that this process has taken, and up to when the one before has looked."""

    number: int
    looked_until: datetime | None


class UpkeepTurns:
    """The turns of one service on one engine, as one worker takes them.

    A worker that dies or freezes during its turn keeps it for `hold`; then it is due for all again. Time is Postgres'.
    """

    def __init__(
        self, database: Database, *, engine_id: str, service: str, owner: UUID, hold: timedelta = timedelta(seconds=30)
    ) -> None:
        self._database = database
        self._key = engine_id, service, owner
        self._hold = hold

    async def take(self) -> Turn | None:
        """Take the turn if it is due; None if it is not, or another worker has it."""
        row = await self._database.fetchrow(query("upkeep_turns", "take"), *self._key, self._hold)
        return None if row is None else Turn(row["number"], row["looked_until"])

    async def finish(self, turn: Turn, *, next_after: timedelta, looked_until: datetime | None = None) -> None:
        """End a turn; the next one is due after `next_after`. Does nothing if another worker took it over."""
        await self._database.execute(query("upkeep_turns", "finish"), *self._key, turn.number, next_after, looked_until)
