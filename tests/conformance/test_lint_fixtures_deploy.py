"""What the linter passes, the engine takes; what it says the engine refuses, the engine refuses."""

from collections.abc import Callable

import grpc
import pytest

from tests.support.client import connected
from tests.support.engines import Gateway
from tests.support.fixture_models import FixtureModel, fixture_models, passing_models
from verblint.rules.index import rules

# Deployed as they are; those that only deploying makes ready for the engine are in test_weaving.
PASSING = [model for model in passing_models() if not model.name.startswith("rules/fleans-subscription/invalid")]

# The engine takes these, and they go wrong elsewhere: an error that catches all, text that tools hide, a token that
# never rests.
TAKEN = {
    "rules/foreign-encoding/invalid.bpmn",
    "rules/unknown-bpmn-element/invalid-choreography.bpmn",
    "rules/dangling-reference/invalid-error.bpmn",
    "rules/dangling-reference/invalid-other-scope.bpmn",
    "rules/dangling-reference/invalid-outgoing.bpmn",
    "rules/qualified-attribute/invalid-beside.bpmn",
    "rules/interrupted-expression/invalid.bpmn",
    "rules/interrupted-expression/invalid-instruction.bpmn",
    "rules/interrupted-expression/invalid-timer.bpmn",
    "rules/flow-direction/invalid-start.bpmn",
    "rules/compensation-shape/invalid-handler.bpmn",
    "rules/endless-loop/invalid-gateways.bpmn",
    "rules/endless-loop/invalid-link.bpmn",
}
REFUSED = [
    model
    for rule in rules()
    if rule.code.startswith("HB0") or rule.code == "HB127"
    for model in fixture_models(f"rules/{rule.slug}")
    if model.path.stem.startswith("invalid") and model.name not in TAKEN and rule.slug != "over-limit"
]


def _name(model: FixtureModel) -> str:
    return model.name


@pytest.mark.zeebe
@pytest.mark.req("LNT-07")
@pytest.mark.parametrize("model", PASSING, ids=_name)
async def test_a_model_without_errors_deploys(
    model: FixtureModel, broker: Gateway, unique: Callable[[str], str]
) -> None:
    # The broker is shared, so every model gets a process id that is its own.
    async with connected(broker.address) as client:
        assert await client.deploy("lint", model.renamed(unique("lint"))) > 0


@pytest.mark.zeebe
@pytest.mark.parametrize("model", REFUSED, ids=_name)
async def test_a_model_that_is_said_to_be_refused_is_refused(model: FixtureModel, broker: Gateway) -> None:
    async with connected(broker.address) as client:
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await client.deploy("lint", model.content)

    assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
