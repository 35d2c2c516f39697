"""Connections that are kept between statements: which, for whom, and until when."""

import asyncio

import pytest

from tests.support.databases import plain
from verbworker.errors import StoreError
from verbworker.stores.access import spare_connections
from verbworker.stores.database import Database

WHO = "SELECT pg_backend_pid() AS pid"
OPEN = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


async def pid_of(database: Database) -> int:
    (row,) = await database.fetch(WHO)
    return int(row["pid"])


def spare_of(database: Database) -> int:
    return len(database._connections._spare)


async def test_a_pool_for_our_own_statements_keeps_its_connection_and_any_other_gives_it_back(dsn: str) -> None:
    async with Database(dsn, size=2, own=True) as own, Database(dsn, size=2) as other:
        pids = {await pid_of(own) for _ in range(5)}
        await other.fetch(WHO)

        assert len(pids) == 1
        assert (spare_of(own), spare_of(other)) == (1, 0)


async def test_a_connection_whose_statement_failed_is_not_kept(dsn: str) -> None:
    async with Database(dsn, size=2, own=True) as database:
        with pytest.raises(StoreError):
            await database.fetch("SELECT 1 / 0")

        assert spare_of(database) == 0
        assert await pid_of(database)


async def test_a_connection_whose_statement_was_cut_off_is_not_kept(dsn: str) -> None:
    async with Database(dsn, size=1, own=True) as database:
        slow = asyncio.create_task(database.fetch("SELECT pg_sleep(30)"))
        await asyncio.sleep(0.3)
        slow.cancel()
        await asyncio.wait([slow])

        assert spare_of(database) == 0
        async with asyncio.timeout(10):
            assert (await database.fetch("SELECT 7 AS n"))[0]["n"] == 7


async def test_a_task_that_waits_gets_a_connection_before_one_is_kept(dsn: str) -> None:
    order = list[int]()

    async with Database(dsn, size=1, own=True) as database:

        async def ask(number: int) -> None:
            for _ in range(20):
                await database.fetch(WHO)
            order.append(number)

        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            for number in range(6):
                tasks.create_task(ask(number))

        assert sorted(order) == list(range(6))
        assert spare_of(database) == 1


async def test_a_connection_that_the_server_closed_is_replaced(dsn: str) -> None:
    async with Database(dsn, size=2, own=True) as database:
        before = await pid_of(database)
        async with plain(dsn) as connection:
            await connection.fetchval("SELECT pg_terminate_backend($1, 5000)", before)
        await asyncio.sleep(0.1)

        assert await pid_of(database) != before


async def test_one_that_was_idle_for_long_is_not_used_again(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Database(dsn, size=2, own=True) as database:
        before = await pid_of(database)
        monkeypatch.setattr(spare_connections, "_STALE_S", 0.0)

        assert await pid_of(database) != before


async def test_an_open_pool_serves_each_tenant_on_kept_connections(dsn: str) -> None:
    asked = "SELECT current_setting('verbworker.tenant') AS tenant"
    async with Database(dsn, size=1, own=True) as database:
        seen = [(await one.fetch(asked))[0]["tenant"] for one in (database.of("a"), database, database.of("b"))]

        assert seen == ["a", "*", "b"]


async def test_closing_leaves_no_connection(dsn: str) -> None:
    async with Database(dsn, size=4, own=True) as database:
        await asyncio.gather(*(database.fetch("SELECT pg_sleep(0.1)") for _ in range(4)))
        assert spare_of(database) == 4

    async with plain(dsn) as connection:
        async with asyncio.timeout(10):
            while await connection.fetchval(OPEN):  # noqa: ASYNC110  # a server calls nobody
                await asyncio.sleep(0.05)
        assert await connection.fetchval(OPEN) == 0
