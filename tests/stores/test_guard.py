"""The guard on a real transaction: whatever passes leaves the verb inside it."""

import pytest

from tests.support.frames import Place
from tests.support.statements import CONTROL, DISGUISES, HARMLESS
from verbworker.errors import StoreError
from verbworker.stores.access.guarded_connection import GuardedConnection
from verbworker.stores.database import Connection

_TRANSACTION = "SELECT pg_current_xact_id()::text"


async def test_what_passes_is_run_and_leaves_the_transaction_open(place: Place) -> None:
    for query in HARMLESS:
        async with place.database.transaction() as connection:
            before = await connection.fetchval(_TRANSACTION)
            await GuardedConnection(connection).execute(query)

            assert await connection.fetchval(_TRANSACTION) == before, query


async def _is_still_inside(connection: Connection) -> bool:
    return await connection.fetchval("SELECT to_regclass('here') IS NOT NULL") is True


async def test_every_disguise_that_is_refused_would_have_ended_the_transaction(place: Place) -> None:
    for query in [disguise.format(CONTROL["ROLLBACK"]) for disguise in DISGUISES]:
        async with place.database.acquire() as connection:
            await connection.execute("BEGIN; CREATE TABLE here (n integer)")
            assert await _is_still_inside(connection)
            await connection.execute(query)

            assert not await _is_still_inside(connection), query


async def test_a_verbs_own_error_is_told_as_postgres_says_it(place: Place) -> None:
    with pytest.raises(StoreError, match="division by zero"):
        async with place.database.transaction() as connection:
            await GuardedConnection(connection).fetchval("SELECT 1 / 0")
