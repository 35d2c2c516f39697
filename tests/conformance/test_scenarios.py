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

# What a story proves, by its name.
PROVES = {
    "a_failed_job_comes_again_with_the_retries_it_was_given": ("TST-24",),
    "a_failed_job_rests_for_its_backoff": ("TST-24",),
    "a_message_at_a_boundary_ends_the_host": ("TST-18", "TST-20"),
}

CASES = [
    pytest.param(
        name,
        known,
        marks=[*MARKS.get(name, ()), *([pytest.mark.req(*PROVES[known.name])] if known.name in PROVES else [])],
        id=f"{name}-{known.name}",
    )
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
    assert PROVES.keys() <= {known.name for known in SCENARIOS}
