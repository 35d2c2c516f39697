"""Checks whether the server takes writes, and whether its commits survive a crash."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from verbworker.errors import CannotRun
from verbworker.stores.database import Database, Row
from verbworker.stores.sql import query

_DURABLE = ("on", "remote_write", "remote_apply")


async def refused_writes(database: Database) -> str | None:
    """Return why the database takes no writes, or None when it does."""
    return _refused_writes(await _promises(database))


async def require_writable(database: Database) -> None:
    """Raise `CannotRun` unless the database takes writes."""
    _refuse_unwritable(await _promises(database))


@asynccontextmanager
async def open_writable(dsn: str, *, size: int, tenant: str) -> AsyncIterator[Database]:
    """Open a pool on a database that takes writes; raise `CannotRun` if it does not."""
    async with Database(dsn, size=size, tenant=tenant) as database:
        await require_writable(database)
        yield database


async def require_durable(database: Database) -> None:
    """Raise `CannotRun` unless this is a primary whose commits are on disk before they are confirmed."""
    row = await _promises(database)
    _refuse_unwritable(row)
    if row["fsync"] != "on":
        raise CannotRun("the database runs with fsync off, so a crash may lose what it confirmed; turn fsync on")
    if row["synchronous_commit"] not in _DURABLE:
        raise CannotRun(
            f"the database commits with synchronous_commit {row['synchronous_commit']}, so a crash may lose what it"
            " confirmed; turn synchronous_commit on"
        )


async def _promises(database: Database) -> Row:
    row = await database.fetchrow(query("durability", "promises"))
    if row is None:
        raise CannotRun("the database does not say how it commits")
    return row


def _refused_writes(row: Row) -> str | None:
    if row["is_standby"]:
        return "a standby takes no writes"
    return "the database is read-only" if row["is_read_only"] else None


def _refuse_unwritable(row: Row) -> None:
    if row["is_standby"]:
        raise CannotRun("the database is a standby and takes no writes; set VERBWORKER_DSN to the primary")
    if row["is_read_only"]:
        raise CannotRun(
            "the database is read-only and takes no writes; set VERBWORKER_DSN to the primary, or turn"
            " default_transaction_read_only off for the server, the database and the role"
        )
