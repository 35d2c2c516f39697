"""The connection: which errors it turns into which, and what it never says."""

import asyncio
from uuid import uuid4

import pytest

from tests.support.databases import blocked, execute, plain
from verbworker.errors import StoreConflict, StoreError, StoreUnavailable
from verbworker.stores._database import Database, connected, shown

SECRET = "s3cr3t-w0rd"
BROKEN = {
    "no scheme": f"kyc:{SECRET}@localhost/cases",
    "another scheme": f"mysql://kyc:{SECRET}@localhost/cases",
    "keywords": f"host=localhost user=kyc password={SECRET}",
    "an open bracket": f"postgresql://kyc:{SECRET}@[localhost/cases",
    "a bracket in the password": f"postgresql://kyc:[{SECRET}@localhost/cases",
    "a port that is a word": f"postgresql://kyc:{SECRET}@localhost:word/cases",
    "a port too large": f"postgresql://kyc:{SECRET}@127.0.0.1:99999/cases",
    "a password in the query": f"postgresql://127.0.0.1:1/cases?user=kyc&password={SECRET}",
    "an unknown ssl mode": f"postgresql://kyc:{SECRET}@127.0.0.1:1/cases?sslmode={SECRET}",
    "a slash in the password": f"postgresql://kyc:{SECRET}/{SECRET}@127.0.0.1:1/cases",
    "a hash in the password": f"postgresql://kyc:#{SECRET}@127.0.0.1:1/cases",
    "a question mark in the password": f"postgresql://kyc:?{SECRET}@127.0.0.1:1/cases",
    "an at sign in the password": f"postgresql://kyc:{SECRET}@{SECRET}@127.0.0.1:1/cases",
    "a name that no host has": f"postgresql://kyc:{SECRET}@..invalid/cases",
    "a line break": f"postgresql://kyc:{SECRET}@127.0.0.1:1/ca\nses",
    "a closed port": f"postgresql://kyc:{SECRET}@127.0.0.1:1/cases",
}


@pytest.mark.parametrize("address", BROKEN.values(), ids=BROKEN)
async def test_an_address_nobody_answers_at_is_one_line_without_its_secret(address: str) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
        async with connected(address):
            pass

    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("address", BROKEN.values(), ids=BROKEN)
async def test_a_pool_says_the_same(address: str) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
        async with Database(address, size=1):
            pass

    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("dsn", "text"),
    [
        ("postgresql://kyc:word@db:5432/cases?sslmode=require", "postgresql://kyc@db:5432/cases"),
        ("postgres://db/cases", "postgres://db/cases"),
        ("postgresql:///cases?host=/run/postgresql", "postgresql:///cases"),
        ("nonsense", None),
    ],
)
def test_an_address_is_shown_as_far_as_it_is_no_secret(dsn: str, text: str | None) -> None:
    assert shown(dsn) == text


async def test_a_rejected_row_is_not_quoted_in_the_error(dsn: str) -> None:
    async with Database(dsn, size=1) as database:
        with pytest.raises(StoreError) as caught:
            await database.execute(
                "INSERT INTO verbworker.payload_head (instance_uid, version, hash, content) VALUES ($1, 0, $2, $3)",
                uuid4(),
                b"not its hash",
                SECRET.encode(),
            )

    assert "check constraint" in str(caught.value)
    assert SECRET.encode().hex() not in str(caught.value)


async def test_a_rejected_argument_is_not_quoted_in_the_error(dsn: str) -> None:
    async with Database(dsn, size=1) as database:
        with pytest.raises(StoreError) as caught:
            await database.fetchrow("SELECT $1::bigint AS number", SECRET)

    assert str(caught.value) == "invalid input for query argument $1"


async def test_a_session_that_is_ended_makes_the_store_unavailable(dsn: str) -> None:
    async with Database(dsn, size=1) as database:
        with pytest.raises(StoreUnavailable):
            await database.fetchrow("SELECT pg_terminate_backend(pg_backend_pid())")

        await database.ping()


async def gone(dsn: str, pid: int) -> None:
    async with plain(dsn) as watcher, asyncio.timeout(20):
        while True:
            if not await watcher.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid):
                return
            await asyncio.sleep(0.005)


async def test_a_session_that_froze_inside_its_transaction_makes_the_store_unavailable(dsn: str) -> None:
    async def freeze(database: Database) -> None:
        async with database.transaction() as connection:
            await gone(dsn, await connection.fetchval("SELECT pg_backend_pid()"))
            await connection.fetchval("SELECT 1")

    async with Database(dsn, size=1, settings={"idle_in_transaction_session_timeout": "20"}) as database:
        with pytest.raises(StoreUnavailable):
            await freeze(database)

        await database.ping()


async def test_a_standby_makes_the_store_unavailable(dsn: str) -> None:
    async with Database(dsn, size=1, settings={"default_transaction_read_only": "on"}) as database:
        with pytest.raises(StoreUnavailable, match="read-only"):
            await database.execute("CREATE TABLE anything (id int)")


async def test_two_transactions_that_lock_crosswise_end_in_a_conflict_for_one(dsn: str) -> None:
    await execute(dsn, "CREATE TABLE pair AS SELECT id, 0 AS n FROM generate_series(1, 2) AS id")
    locked = [asyncio.Event(), asyncio.Event()]

    async def cross(database: Database, mine: int) -> str:
        try:
            async with database.transaction() as connection:
                await connection.execute("UPDATE pair SET n = n + 1 WHERE id = $1", mine + 1)
                locked[mine].set()
                await locked[1 - mine].wait()
                await connection.execute("UPDATE pair SET n = n + 1 WHERE id = $1", 2 - mine)
        except StoreConflict:
            return "conflict"
        return "committed"

    async with Database(dsn, size=2) as database, asyncio.timeout(30):
        ends = await asyncio.gather(cross(database, 0), cross(database, 1))

    assert sorted(ends) == ["committed", "conflict"]


async def test_a_transaction_whose_block_fails_is_undone(dsn: str) -> None:
    await execute(dsn, "CREATE TABLE effect (id int)")

    async def fail(database: Database) -> None:
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO effect VALUES (1)")
            raise LookupError

    async with Database(dsn, size=1) as database:
        with pytest.raises(LookupError):
            await fail(database)
        row = await database.fetchrow("SELECT count(*) AS effects FROM effect")

    assert row is not None
    assert row["effects"] == 0


async def test_a_transaction_that_is_cancelled_is_undone_and_gives_its_connection_back(dsn: str) -> None:
    await execute(dsn, "CREATE TABLE effect (id int)")
    async with Database(dsn, size=1) as database, plain(dsn) as rival:
        rival_holds = rival.transaction()
        await rival_holds.start()
        await rival.execute("LOCK TABLE effect")

        async def write() -> None:
            async with database.transaction() as connection:
                await connection.execute("INSERT INTO effect VALUES (1)")

        async with asyncio.TaskGroup() as group:
            task = group.create_task(write())
            await blocked(dsn)
            task.cancel()
        await rival_holds.rollback()
        row = await database.fetchrow("SELECT count(*) AS effects FROM effect")

    assert task.cancelled()
    assert row is not None
    assert row["effects"] == 0


async def test_a_transaction_that_is_cancelled_as_it_begins_leaves_no_trace(dsn: str) -> None:
    heard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context["message"]))
    async with Database(dsn, size=1) as database:
        for waited in range(60):
            task = asyncio.create_task(_nothing(database))
            for _ in range(waited % 12):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        async with database.transaction() as connection:
            assert await connection.fetchval("SELECT 1") == 1

    assert heard == []


async def _nothing(database: Database) -> None:
    async with database.transaction():
        pass
