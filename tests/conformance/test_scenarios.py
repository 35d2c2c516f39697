"""One set of stories on every engine: what the embedded kernel does is what the real broker does."""

import pkgutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from importlib import import_module

import pytest

import tests.conformance.scenarios as stories
from tests.support.engines import ENGINES, Engines
from tests.support.scenario import SCENARIOS, Play, Scenario
from tests.support.stages import InlineStage, Stage, zeebe_stage

for module in pkgutil.iter_modules(stories.__path__):
    import_module(f"{stories.__name__}.{module.name}")

_MARKS = {"zeebe": pytest.mark.zeebe, "zeebe-8.8": pytest.mark.versions, "zeebe-8.9": pytest.mark.versions}
CASES = [
    pytest.param(name, known, marks=_MARKS.get(name, ()), id=f"{name}-{known.name}")
    for name in ENGINES
    for known in SCENARIOS
    if name not in known.without and name != "embedded"
]


@pytest.fixture
async def stage(engine: str, engines: Engines) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        if engine == "inline":
            yield InlineStage()
        else:
            yield await stack.enter_async_context(zeebe_stage(engines.gateway(engine)))


@pytest.mark.parametrize(("engine", "story"), CASES)
async def test_every_engine_tells_the_same_story(engine: str, story: Scenario, stage: Stage) -> None:
    play = Play(stage, engine)
    await play.deploy(*story.drawings)
    await story.script(play)


def test_there_are_enough_stories() -> None:
    assert len(SCENARIOS) >= 60
    assert len({known.name for known in SCENARIOS}) == len(SCENARIOS)
