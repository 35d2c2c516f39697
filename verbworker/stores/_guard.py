"""The connection a transactional verb gets: every statement but those that would end or bend its transaction."""

import re
from collections.abc import Sequence
from typing import Any

from verbworker.errors import PermanentContract
from verbworker.stores._database import Connection

_CONTROL = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/|;)*"
    r"(BEGIN|START|COMMIT|END|ROLLBACK|ABORT|PREPARE\s+TRANSACTION|SET|RESET|DISCARD|LISTEN|UNLISTEN)\b",
    re.IGNORECASE | re.DOTALL,
)


class GuardedConnection:
    """A connection inside the runtime's transaction: the runtime alone commits it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def fetch(self, query: str, *args: object) -> list[Any]:
        """The rows of one statement."""
        return await self._connection.fetch(_checked(query), *args)

    async def fetchrow(self, query: str, *args: object) -> Any:
        """The first row of one statement, or None."""
        return await self._connection.fetchrow(_checked(query), *args)

    async def fetchval(self, query: str, *args: object) -> Any:
        """The first value of the first row, or None."""
        return await self._connection.fetchval(_checked(query), *args)

    async def execute(self, query: str, *args: object) -> str:
        """Run one statement and return Postgres' tag for it."""
        return await self._connection.execute(_checked(query), *args)

    async def executemany(self, query: str, args: Sequence[Sequence[object]]) -> None:
        """Run one statement once per row of arguments."""
        await self._connection.executemany(_checked(query), args)


def _checked(query: str) -> str:
    for statement in query.split(";"):
        if found := _CONTROL.match(statement):
            raise PermanentContract(
                f"a verb may not run {found[1].upper()}: its transaction belongs to the runtime",
                code="TransactionControl",
            )
    return query
