"""Tokens as rows, for people: those that live, and the history of those that ended."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from verbworker.stores.database import Database
from verbworker.stores.sql import query


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as a row: where it is, its status and its mode, the forks it is inside of, and its version."""

    id: int
    instance_id: int
    node_id: str
    status: str
    mode: str
    parallel_group_id: int | None
    parallel_groups: list[int]
    version: int
    created_at: datetime | None
    updated_at: datetime | None


class TokenRows:
    """The tokens of the embedded engine, as its views show them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_live(self, instance_key: int) -> list[TokenRow]:
        """Return the tokens of an instance that live, oldest first."""
        return [TokenRow(*row) for row in await self._database.fetch(query("token_rows", "live"), instance_key)]

    async def list_history(self, instance_key: int) -> list[TokenRow]:
        """Return the tokens of an instance that have ended and are still kept, oldest first."""
        return [TokenRow(*row) for row in await self._database.fetch(query("token_rows", "ended"), instance_key)]

    async def purge(self, *, older_than: timedelta, limit: int) -> int:
        """Delete batches of tokens that ended `older_than` ago in running instances; return how many batches.

        The other tokens that ended are deleted with their instance.
        """
        return len(await self._database.fetch(query("token_rows", "purge"), older_than, limit))
