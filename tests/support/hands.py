"""Statements of the tests themselves, on pools of the product: they run as the owner, the product's as its own role.

A test puts rows where no role may put them, and looks at those that a tenant may not see. What the product runs is in
`sql/queries`; any other statement that is given to a `Database` of this process is a test's. From a module of the
product it is an error: it would get the owner's rights in the tests, and fail where it is used.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from tests.support.databases import plain
from tests.support.logins import as_owner
from verbworker.stores import sql
from verbworker.stores.database import Database, translate_errors

# They put the tables of an application there for its author's tests.
_OF_TESTS = ("verbworker.testing.",)


@cache
def _shipped() -> frozenset[str]:
    return frozenset(text for store in sql.stores() for text in sql.queries(store).values())


@asynccontextmanager
async def transaction_by_hand(database: Database) -> AsyncIterator[Any]:
    """Open a transaction of the owner in the database of a pool, for what no role may do."""
    async with plain(as_owner(database._dsn)) as connection, connection.transaction():
        with translate_errors():
            yield connection


def install() -> None:
    """Have every `Database` of this process run what is not shipped as the owner. May be called again."""
    for name in ("fetch", "fetchrow", "execute"):
        theirs = getattr(Database, name)
        if not hasattr(theirs, "is_hand"):
            setattr(Database, name, _by_hand(name, theirs))


def _by_hand(name: str, theirs: Any) -> Any:
    async def run_as_owner(dsn: str, statement: str, args: tuple[object, ...]) -> Any:
        async with plain(dsn) as connection:
            with translate_errors():
                return await getattr(connection, name)(statement, *args)

    def run(self: Any, statement: str, *args: object) -> Any:
        owner = as_owner(self._dsn)
        if owner == self._dsn or statement in _shipped():
            return theirs(self, statement, *args)
        # No coroutine yet: the frame before this one is the caller's.
        module = sys._getframe(1).f_globals.get("__name__", "")
        if module.startswith("verbworker.") and not module.startswith(_OF_TESTS):
            raise AssertionError(f"{module} runs a statement that sql/queries does not have: {statement[:80]}")
        return run_as_owner(owner, statement, args)

    run.is_hand = True  # type: ignore[attr-defined]
    return run
