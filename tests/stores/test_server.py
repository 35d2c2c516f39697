"""The server's promises: a worker runs only where a confirmed commit survives a crash."""

import pytest

from tests.support.databases import plain
from tests.support.postgres import Postgres
from verbworker.errors import CannotRun
from verbworker.stores.database import Database
from verbworker.stores.durability import refused_writes, require_durable


async def refusal(dsn: str, **settings: str) -> str | None:
    """Why a worker does not run on this server, or None when it does."""
    async with Database(dsn, size=1, settings=settings) as database:
        try:
            await require_durable(database)
        except CannotRun as error:
            return str(error)
    return None


async def test_a_server_that_keeps_its_word_is_accepted(dsn: str) -> None:
    assert await refusal(dsn) is None


@pytest.mark.parametrize("level", ["off", "local"])
async def test_a_session_that_confirms_too_early_is_refused(level: str, dsn: str) -> None:
    assert f"synchronous_commit {level}" in str(await refusal(dsn, synchronous_commit=level))


@pytest.mark.parametrize("level", ["on", "remote_write", "remote_apply"])
async def test_every_level_that_waits_is_accepted(level: str, dsn: str) -> None:
    assert await refusal(dsn, synchronous_commit=level) is None


async def test_a_server_without_fsync_is_refused() -> None:
    with Postgres({"fsync": "off"}) as server:
        reason = await refusal(server.dsn)

    assert "turn fsync on" in str(reason)


async def test_a_standby_is_refused() -> None:
    with Postgres() as server:
        async with plain(server.dsn) as connection:
            # The server writes the file itself, so that it may read it again.
            directory = await connection.fetchval("SHOW data_directory")
            await connection.execute(f"COPY (SELECT) TO '{directory}/standby.signal'")
        server.restart_immediate()
        reason = await refusal(server.dsn)

    assert "standby" in str(reason)


async def test_a_database_that_is_read_only_is_refused_with_what_to_do(dsn: str) -> None:
    reason = str(await refusal(dsn, default_transaction_read_only="on"))

    assert reason.startswith("the database is read-only and takes no writes; set VERBWORKER_DSN to the primary")


async def test_why_writes_are_refused_is_told_in_a_few_words(dsn: str) -> None:
    async with Database(dsn, size=1, settings={"default_transaction_read_only": "on"}) as database:
        refused = await refused_writes(database)
    async with Database(dsn, size=1) as database:
        accepted = await refused_writes(database)

    assert (refused, accepted) == ("the database is read-only", None)
