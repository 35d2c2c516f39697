"""What the embedded engine refuses: models (each in unit/test_embedded_definition.py), and a wrong name of its own."""

from collections.abc import AsyncIterator

import pytest

from tests.support.drawing import Drawing
from tests.support.embedded import embedded
from tests.support.refused_models import LINE, ODD
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Resource, Start
from verbworker.errors import AccessDenied, CommandInvalid
from verbworker.stores.database import Database


@pytest.fixture
async def engine(dsn: str) -> AsyncIterator[EmbeddedEngine]:
    async with embedded(dsn, run_timers=False) as engine:
        yield engine


@pytest.mark.req("TOK-22", "PRX-13")
async def test_a_model_outside_the_set_is_refused_and_cannot_be_started(engine: EmbeddedEngine) -> None:
    with pytest.raises(CommandInvalid, match=f"^odd.bpmn:{LINE}: "):
        await engine.deploy([Resource("odd.bpmn", ODD[0].model())])

    with pytest.raises(CommandInvalid, match="none found"):
        await engine.start(Start("odd", {}))


async def test_an_engine_that_is_called_by_another_name_is_refused(dsn: str) -> None:
    async with Database(dsn, size=2) as one, Database(dsn, size=2) as two:
        stranger = EmbeddedEngine(two, engine_id="embedded")
        await stranger.facts()  # looking at it does not name it
        line = Drawing().start().end().flow("begin", "end").xml()
        await EmbeddedEngine(one, engine_id="lab").deploy([Resource("line.bpmn", line)])

        with pytest.raises(AccessDenied, match=r"is called .lab. and not .embedded.*VERBWORKER_ENGINE_ID=lab"):
            await stranger.facts()
        with pytest.raises(AccessDenied):
            await stranger.deploy([])

        assert (await EmbeddedEngine(one, engine_id="lab").facts()).brokers == 1
