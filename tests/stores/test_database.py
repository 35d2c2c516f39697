"""The connection: which errors it turns into which, and what it never says."""

import asyncio
import gc
import io
import logging
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest

from tests.support.databases import blocked, execute, plain
from tests.support.postgres import Postgres
from tests.support.told_outages import told_outage
from verbworker.app.logging import set_up
from verbworker.background.outages import ENGINE, POSTGRES
from verbworker.errors import StoreConflict, StoreError, StoreReadOnly, StoreUnavailable
from verbworker.stores.database import Database, connect, translate_errors
from verbworker.stores.dsn import hide_password

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
        async with connect(address):
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
    assert hide_password(dsn) == text


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


async def test_an_answer_ends_an_outage_and_an_error_does_not(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    async with Database(dsn, size=1) as database:
        is_over = told_outage(POSTGRES, caplog)
        with pytest.raises(StoreUnavailable):
            await database.fetchrow("SELECT pg_terminate_backend(pg_backend_pid())")
        after_an_error = is_over()
        await database.ping()

        assert (after_an_error, is_over()) == (False, True)


async def test_a_commit_ends_the_outages_of_its_pool(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    async with Database(dsn, size=1, outages=(ENGINE,)) as database:
        is_over = told_outage(ENGINE, caplog)
        async with database.transaction() as connection:
            await connection.execute("SELECT 1")

        assert is_over()


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


async def test_a_database_that_takes_no_writes_has_an_error_of_its_own(dsn: str) -> None:
    async with Database(dsn, size=1, settings={"default_transaction_read_only": "on"}) as database:
        with pytest.raises(StoreReadOnly, match="takes no writes") as caught:
            await database.execute("CREATE TABLE anything (id int)")

    assert "cannot execute CREATE TABLE in a read-only transaction" in str(caught.value)
    assert "set VERBWORKER_DSN to the primary" in str(caught.value)


async def test_a_standby_takes_no_writes() -> None:
    with Postgres() as server:
        async with plain(server.dsn) as connection:
            directory = await connection.fetchval("SHOW data_directory")
            await connection.execute(f"COPY (SELECT) TO '{directory}/standby.signal'")
        server.restart_immediate()
        async with Database(server.dsn, size=1) as database:
            with pytest.raises(StoreReadOnly, match="takes no writes"):
                await database.execute("CREATE TABLE anything (id int)")


STATES: dict[str, tuple[type[StoreError], str]] = {
    "08006": (StoreUnavailable, "see that the server runs and that the network lets this host through"),
    "25006": (StoreReadOnly, "set VERBWORKER_DSN to the primary"),
    "28000": (StoreUnavailable, "check the user in VERBWORKER_DSN, and that pg_hba.conf lets it in from this host"),
    "28P01": (StoreUnavailable, "check user and password in VERBWORKER_DSN"),
    "3D000": (StoreUnavailable, "create the database, or check its name in VERBWORKER_DSN"),
    "42501": (StoreError, "grant it to the role; verbworker doctor names what is missing"),
    "53100": (StoreUnavailable, "make room on the server's disk"),
    "53200": (StoreUnavailable, "give the server more memory, or less concurrent work"),
    "53300": (StoreUnavailable, "raise max_connections"),
    "57P01": (StoreUnavailable, "see why the server was stopped"),
    "57P02": (StoreUnavailable, "see the server's log"),
    "57P03": (StoreUnavailable, "wait until it has started"),
    "58030": (StoreUnavailable, "see the server's log and its disk"),
}


@pytest.mark.parametrize(("state", "due"), STATES.items(), ids=STATES)
async def test_each_state_has_one_sentence_with_what_to_do(
    state: str, due: tuple[type[StoreError], str], dsn: str
) -> None:
    kind, advice = due
    async with Database(dsn, size=1) as database:
        with pytest.raises(StoreError) as caught:
            await database.execute(f"DO $$ BEGIN RAISE EXCEPTION 'it is so' USING ERRCODE = '{state}'; END $$")

    assert type(caught.value) is kind
    assert str(caught.value).startswith("it is so; ") or state == "25006"
    assert advice in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_wrong_password_is_not_told_as_a_server_that_is_away(dsn: str) -> None:
    parts = urlsplit(dsn)
    address = urlunsplit(parts._replace(netloc=f"{parts.username}:wrong@{parts.hostname}:{parts.port}"))

    with pytest.raises(StoreUnavailable) as caught:
        async with connect(address):
            pass

    assert str(caught.value).endswith("; check user and password in VERBWORKER_DSN")


async def test_a_database_that_does_not_exist_is_told_as_such(dsn: str) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        async with connect(urlunsplit(urlsplit(dsn)._replace(path="/nowhere"))):
            pass

    assert str(caught.value).endswith("; create the database, or check its name in VERBWORKER_DSN")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)"), "[Errno 111] Connect call failed"),
        (TimeoutError(), "no answer in time"),
    ],
)
def test_a_network_error_says_that_it_is_about_the_database(error: OSError, words: str) -> None:
    with pytest.raises(StoreUnavailable) as caught, translate_errors():
        raise error

    assert str(caught.value).startswith(f"the database cannot be reached: {words}")


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


async def test_a_task_that_holds_a_connection_cannot_wait_for_a_second_one_of_its_pool(dsn: str) -> None:
    async with Database(dsn, size=2) as database, Database(dsn, size=1) as other:
        for hold in (database.acquire, database.transaction):
            async with hold():
                with pytest.raises(RuntimeError, match="pass it on"):
                    await database.ping()
                await asyncio.create_task(database.ping())
                await other.ping()
            await database.ping()


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


async def test_a_connection_that_is_given_up_as_it_opens_leaves_no_error_in_the_log(dsn: str) -> None:
    # asyncpg 0.32 forgets a future of a connection that is cancelled between the socket and the answer about TLS; a
    # worker that was suspended longer than it waits for a connection gives several up in that moment.
    stream, root = io.StringIO(), logging.getLogger()
    before = root.handlers[:], root.level, logging.raiseExceptions
    set_up(as_json=False, level="info", stream=stream)
    try:
        for waited in range(60):
            task = asyncio.create_task(_open_and_close(dsn))
            for _ in range(waited % 20):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        await asyncio.sleep(0.1)
        gc.collect()
    finally:
        root.handlers[:], root.level, logging.raiseExceptions = before

    assert "never retrieved" not in stream.getvalue()


async def _open_and_close(dsn: str) -> None:
    async with connect(dsn):
        pass


async def _nothing(database: Database) -> None:
    async with database.transaction():
        pass
