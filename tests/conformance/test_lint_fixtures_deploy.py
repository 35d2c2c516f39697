"""What the linter passes, the engine takes; what it says the engine refuses, the engine refuses."""

from collections.abc import Callable

import pytest

from tests.support.client import connected
from tests.support.engines import Gateway
from tests.support.fixture_models import FixtureModel, fixture_models

PASSING = [model for model in fixture_models("rules") + fixture_models("traps") if not model.errors()]


def _name(model: FixtureModel) -> str:
    return model.name


@pytest.mark.zeebe
@pytest.mark.req("LNT-07")
@pytest.mark.parametrize("model", PASSING, ids=_name)
async def test_a_model_without_errors_deploys(
    model: FixtureModel, broker: Gateway, unique: Callable[[str], str]
) -> None:
    # The broker is shared, so every model gets a process id that is its own.
    content = model.content.replace(b'"kyc-open-case"', f'"{unique("lint")}"'.encode())

    async with connected(broker.address) as client:
        assert await client.deploy("lint", content) > 0
