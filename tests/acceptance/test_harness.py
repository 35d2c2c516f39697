"""The harness itself: isolated databases, and nothing left behind however a run ends."""

import asyncpg
import pytest

from tests.support.postgres import Template


async def test_each_test_has_a_migrated_database_of_its_own(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        migrated = await connection.fetchval("SELECT to_regnamespace('verbworker') IS NOT NULL")
        here = await connection.fetchval("SELECT current_database()")
    finally:
        await connection.close()

    assert migrated
    assert dsn.endswith(f"/{here}")


async def test_a_database_is_dropped_even_while_somebody_is_connected(database_template: Template) -> None:
    with database_template.clone() as address:
        connection = await asyncpg.connect(address)

    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(address)
    connection.terminate()
