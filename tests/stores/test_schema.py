"""Migrations: applied once, in order, whole or not at all, by any number of migrators."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from tests.support.databases import blocked, empty_database, execute, plain, value
from tests.support.logins import ROLES, login
from tests.support.postgres import ForeignPostgres, Postgres, run_apart
from verbworker.errors import SchemaMismatch, StoreError, StoreUnavailable
from verbworker.stores import migrations, sql

MIGRATOR = """
import asyncio, sys
from verbworker.stores.migrations import migrate
print("ready", flush=True)
sys.stdin.readline()
print(*asyncio.run(migrate(sys.argv[1])), flush=True)
"""

Ship = Callable[[str, str], None]


@pytest.fixture
def empty(postgres: Postgres | ForeignPostgres) -> Iterator[str]:
    """The DSN of a database that was never migrated."""
    with empty_database(postgres.dsn) as address:
        yield address


@pytest.fixture
def ship(monkeypatch: pytest.MonkeyPatch) -> Ship:
    """Ships one more migration than the repository has."""
    shipped = sql.migrations()

    def add(name: str, text: str) -> None:
        monkeypatch.setattr(sql, "migrations", lambda: [*shipped, (name, text)])

    return add


def names() -> list[str]:
    return [name for name, _ in sql.migrations()]


def test_a_migration_is_named_by_a_number_and_lower_case_words() -> None:
    files = [entry.name for entry in (sql.root() / "migrations").iterdir()]

    assert [name for name in files if not re.fullmatch(r"\d{4}(_[a-z0-9]+)+\.sql", name)] == []


def test_migrations_are_numbered_from_one_without_a_gap() -> None:
    numbers = [int(name[:4]) for name in names()]

    assert numbers == list(range(1, len(numbers) + 1))


async def test_an_empty_database_is_brought_to_this_version(empty: str) -> None:
    applied = await migrations.migrate(empty)

    assert applied == names()
    assert await value(empty, "SELECT to_regclass('verbworker.job_frame')") is not None
    await migrations.require(empty)


async def test_migrating_twice_changes_nothing(empty: str) -> None:
    await migrations.migrate(empty)
    before = await migrations.status(empty)

    assert await migrations.migrate(empty) == []
    assert await migrations.status(empty) == before


async def test_asking_for_the_status_changes_nothing(empty: str) -> None:
    states = await migrations.status(empty)

    assert [(one.name, one.state, one.applied_at) for one in states] == [(name, "pending", None) for name in names()]
    assert await value(empty, "SELECT count(*) FROM pg_namespace WHERE nspname = 'verbworker'") == 0


@pytest.mark.parametrize("role", ROLES)
async def test_who_does_not_own_the_tables_migrates_nothing_and_is_told_what_is_missing(
    dsn: str, role: str, ship: Ship
) -> None:
    address = login(dsn, role)
    upto_date = await migrations.migrate(address)
    ship("0999_next", "CREATE TABLE verbworker.next (id int);")

    with pytest.raises(StoreError, match=r"misses 1 migration\(s\), first 0999_next, and vw_test_\w+ does not own it"):
        await migrations.migrate(address)
    assert upto_date == []
    assert await value(dsn, "SELECT to_regclass('verbworker.next')") is None


async def test_a_database_that_misses_migrations_says_what_to_run(empty: str) -> None:
    with pytest.raises(SchemaMismatch, match=f"first {names()[0]}; run: verbworker db migrate"):
        await migrations.require(empty)


@pytest.mark.parametrize("processes", [2, 6])
def test_migrators_in_several_processes_apply_each_migration_once(empty: str, processes: int) -> None:
    migrators = [
        subprocess.Popen(
            [sys.executable, "-c", MIGRATOR, empty], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(processes)
    ]
    for migrator in migrators:
        assert migrator.stdout is not None
        assert migrator.stdout.readline() == "ready\n"
    for migrator in migrators:
        assert migrator.stdin is not None
        migrator.stdin.write("go\n")
        migrator.stdin.flush()
    said = [migrator.communicate(timeout=60)[0].split() for migrator in migrators]

    assert [migrator.returncode for migrator in migrators] == [0] * processes
    assert sorted(said) == [[]] * (processes - 1) + [names()]
    assert run_apart(value(empty, "SELECT count(*) FROM verbworker.migration")) == len(names())


async def test_a_migrator_waits_for_the_one_before_it(empty: str) -> None:
    async with plain(empty) as rival:
        await rival.execute("SELECT pg_advisory_lock($1)", migrations._LOCK)
        async with asyncio.TaskGroup() as group:
            second = group.create_task(migrations.migrate(empty))
            await blocked(empty)
            untouched = await rival.fetchval("SELECT to_regclass('verbworker.migration') IS NULL")
            await rival.execute("SELECT pg_advisory_unlock($1)", migrations._LOCK)

    assert untouched
    assert second.result() == names()


async def test_a_migrator_that_waited_too_long_says_so(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "_TURN_WAIT", timedelta(milliseconds=50))
    async with plain(empty) as rival:
        await rival.execute("SELECT pg_advisory_lock($1)", migrations._LOCK)

        with pytest.raises(StoreError, match=r"another migration is still running after 0\.05 s"):
            await migrations.migrate(empty)


async def test_a_migration_that_fails_leaves_nothing_behind(empty: str, ship: Ship) -> None:
    ship("0999_half", "CREATE TABLE verbworker.half (id int);\nSELECT 1 / 0;")

    with pytest.raises(StoreError, match="migration 0999_half failed and left nothing behind: division by zero"):
        await migrations.migrate(empty)
    assert await value(empty, "SELECT to_regclass('verbworker.half')") is None
    assert [one.state for one in await migrations.status(empty)][-2:] == ["applied", "pending"]


async def test_a_migration_that_failed_applies_once_it_is_mended(empty: str, ship: Ship) -> None:
    ship("0999_half", "SELECT 1 / 0;")
    with pytest.raises(StoreError):
        await migrations.migrate(empty)
    ship("0999_half", "CREATE TABLE verbworker.whole (id int);")

    assert await migrations.migrate(empty) == ["0999_half"]


async def test_a_migration_whose_connection_is_cut_leaves_nothing_behind(empty: str, ship: Ship) -> None:
    ship("0999_cut", "CREATE TABLE verbworker.cut (id int);\nSELECT pg_terminate_backend(pg_backend_pid());")

    with pytest.raises(StoreUnavailable, match="the database went away during migration 0999_cut"):
        await migrations.migrate(empty)
    assert await value(empty, "SELECT to_regclass('verbworker.cut')") is None
    assert (await migrations.status(empty))[-1].state == "pending"


ENDINGS = (
    "COMMIT;",
    "commit work;",
    "COMMIT AND CHAIN;",
    "END;",
    "ROLLBACK;",
    "ABORT;",
    "BEGIN;",
    "BEGIN ISOLATION LEVEL SERIALIZABLE;",
    "START TRANSACTION;",
    "/* sly */ COMMIT;",
    "SELECT 1; COMMIT;",
    "PREPARE TRANSACTION 'later';",
    "DO $$ BEGIN COMMIT; END $$;",
)


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_migration_cannot_end_its_own_transaction(empty: str, ship: Ship, ending: str) -> None:
    ship("0999_own", f"CREATE TABLE verbworker.early (id int);\n{ending}\nSELECT 1 / 0;")

    with pytest.raises(StoreError, match=r"migration 0999_own failed and left nothing behind: .*transaction"):
        await migrations.migrate(empty)
    assert await value(empty, "SELECT to_regclass('verbworker.early')") is None
    assert (await migrations.status(empty))[-1].state == "pending"


async def test_a_function_body_may_hold_the_words_a_migration_may_not(empty: str, ship: Ship) -> None:
    ship(
        "0999_body",
        "CREATE PROCEDURE verbworker.sweep() LANGUAGE plpgsql AS $$\nBEGIN\n  COMMIT;\nEND;\n$$;\n"
        "COMMENT ON SCHEMA verbworker IS 'BEGIN; it''s 100% $1 \\ COMMIT;';",
    )

    assert await migrations.migrate(empty) == [*names()[:-1], "0999_body"]


async def test_a_changed_migration_is_refused(dsn: str) -> None:
    await execute(dsn, "UPDATE verbworker.migration SET checksum = 'x' WHERE name = $1", names()[0])

    with pytest.raises(SchemaMismatch, match=f"migration {names()[0]} was changed after it was applied"):
        await migrations.migrate(dsn)
    with pytest.raises(SchemaMismatch, match="was changed after it was applied"):
        await migrations.require(dsn)


async def test_a_migration_from_the_future_is_refused(dsn: str, ship: Ship) -> None:
    await execute(dsn, "INSERT INTO verbworker.migration (name, checksum) VALUES ('9999_later', 'x')")
    ship("0999_new", "CREATE TABLE verbworker.newer (id int);")

    with pytest.raises(SchemaMismatch, match="the database has migration 9999_later, which this version does not know"):
        await migrations.migrate(dsn)
    assert await value(dsn, "SELECT to_regclass('verbworker.newer')") is None


async def test_the_archive_has_the_columns_of_a_frame_in_their_order(dsn: str) -> None:
    columns = (
        "SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute "
        "WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped"
    )
    frame = await value(dsn, columns, "verbworker.job_frame")
    archive = await value(dsn, columns, "verbworker.job_frame_archive")

    assert archive == ["archived_at", *frame]
