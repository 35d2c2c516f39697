"""The simulator's store does what Postgres does: the same random operations, the same answers, the same tables."""

import os
from random import Random

from tests.simulator import operations as operations
from tests.simulator.driver import Driver
from tests.simulator.twins import Twins, uncovered

ROUNDS = int(os.environ.get("VERBWORKER_TWIN_ROUNDS", "25"))
MOST = 300  # until every statement was compared
STEPS = 60


async def test_the_simulated_store_answers_as_postgres_does(dsn: str) -> None:
    twins = Twins(dsn, Random(0))
    await twins.open()
    try:
        for seed in range(MOST):
            if seed >= ROUNDS and not uncovered(twins.called):
                break
            await twins.renew()
            driver = Driver(twins, Random(seed))
            for _ in range(STEPS):
                await driver.act()
            await twins.compare_tables()
    finally:
        await twins.close()

    assert not uncovered(twins.called)
