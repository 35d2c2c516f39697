"""What the linter's tests share: the engine's own FEEL as an oracle."""

import pytest

from tests.support.feel_oracle import NEWEST, OLDEST, FeelOracle


@pytest.fixture(params=[OLDEST, NEWEST])
def oracle(request: pytest.FixtureRequest) -> FeelOracle:
    """The FEEL engine, once in the oldest and once in the newest version we hold ourselves to."""
    return FeelOracle(request.param)
