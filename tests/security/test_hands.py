"""What the tests do as the owner is theirs alone: no statement of the product gets its rights that way."""

import pytest

from verbworker.errors import StoreError
from verbworker.stores.database import Database
from verbworker.stores.sql import query

pytestmark = pytest.mark.attack("SQL role")

FORGED = "DELETE FROM verbworker.runbook_event"
CALL = "async def call(database):\n    return await database.execute({statement!r})\n"


async def test_a_statement_of_the_product_is_no_hand_of_a_test(dsn: str) -> None:
    product: dict[str, object] = {"__name__": "verbworker.work.jobs.forged"}
    exec(CALL.format(statement=FORGED), product)
    async with Database(dsn, size=1, tenant="*") as database:
        with pytest.raises(AssertionError, match=r"verbworker\.work\.jobs\.forged runs a statement"):
            await product["call"](database)  # type: ignore[operator]


async def test_shipped_statements_run_as_the_role(dsn: str) -> None:
    async with Database(dsn, size=1, tenant="*") as database:
        with pytest.raises(StoreError, match="permission denied"):
            await database.fetch(query("erasure", "gate_decision"), None)


async def test_a_transaction_of_the_product_is_never_the_owners(dsn: str) -> None:
    async with Database(dsn, size=1, tenant="*") as database, database.transaction() as connection:
        assert await connection.fetchval("SELECT current_user") == "vw_test_worker"
