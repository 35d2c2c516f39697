"""Databases that were never migrated, for tests of the migrations themselves."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

from tests.support.apart import run_apart
from tests.support.logins import as_owner


@contextmanager
def empty_database(server: str) -> Iterator[str]:
    """The DSN of a database with nothing in it, dropped afterwards."""
    name = f"vw_empty_{uuid4().hex[:12]}"
    run_apart(execute(server, f'CREATE DATABASE "{name}"'))
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        run_apart(execute(server, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'))


@asynccontextmanager
async def plain(dsn: str) -> AsyncIterator[Any]:
    """A bare connection: what a person with psql has, as the owner where the address is of one of our logins."""
    connection = await asyncpg.connect(as_owner(dsn), timeout=10)
    try:
        yield connection
    finally:
        await connection.close()


async def execute(dsn: str, statement: str, *args: object) -> None:
    """Run one statement and close."""
    async with plain(dsn) as connection:
        await connection.execute(statement, *args)


async def value(dsn: str, query: str, *args: object) -> Any:
    """The one value a query gives."""
    async with plain(dsn) as connection:
        return await connection.fetchval(query, *args)


async def blocked(dsn: str, count: int = 1) -> None:
    """Return when `count` other sessions of this database wait for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with plain(dsn) as connection, asyncio.timeout(20):
        while True:
            if await connection.fetchval(waiting) >= count:
                return
            await asyncio.sleep(0.005)


@asynccontextmanager
async def unreachable_database(dsn: str) -> AsyncIterator[None]:
    """Cut this one database off as a server that is away does: its sessions end, and it takes no new ones."""
    database = urlsplit(dsn).path.removeprefix("/")
    server = urlunsplit(urlsplit(dsn)._replace(path="/postgres"))
    await execute(server, f'ALTER DATABASE "{database}" ALLOW_CONNECTIONS false')
    try:
        ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1"
        await execute(server, ended, database)
        yield
    finally:
        await execute(server, f'ALTER DATABASE "{database}" ALLOW_CONNECTIONS true')
