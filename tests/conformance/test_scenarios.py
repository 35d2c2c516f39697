"""One set of stories on every engine: what the embedded kernel does is what the real broker does."""

import pkgutil
from collections.abc import Awaitable, Callable
from importlib import import_module

import pytest

import tests.conformance.scenarios as stories
from tests.support.engines import ENGINES, MARKS
from tests.support.scenario import SCENARIOS, Play, Scenario
from tests.support.stages import Stage

for module in pkgutil.iter_modules(stories.__path__):
    import_module(f"{stories.__name__}.{module.name}")


def _proofs(known: Scenario) -> list[pytest.MarkDecorator]:
    return [pytest.mark.req(*known.proves)] if known.proves else []


CASES = [
    pytest.param(name, known, marks=(*MARKS.get(name, ()), *_proofs(known)), id=f"{name}-{known.name}")
    for name in ENGINES
    for known in SCENARIOS
    if not {name, name.removesuffix("-rest")} & set(known.without)
]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("engine", "story"), CASES)
async def test_every_engine_tells_the_same_story(
    engine: str, story: Scenario, stage_of: Callable[[str], Awaitable[Stage]]
) -> None:
    play = Play(await stage_of(engine), engine.removesuffix("-rest"))
    await play.deploy(*story.drawings)
    await story.script(play)


def test_there_are_enough_stories() -> None:
    assert len(SCENARIOS) >= 60
    assert len({known.name for known in SCENARIOS}) == len(SCENARIOS)
