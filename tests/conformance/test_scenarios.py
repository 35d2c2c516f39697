"""One set of stories on every engine: what the embedded kernel does is what the real broker does."""

import pkgutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from importlib import import_module

import pytest
import pytest_asyncio

import tests.conformance.scenarios as stories
from tests.support.engines import ENGINES, GATEWAYS
from tests.support.scenario import SCENARIOS, Play, Scenario
from tests.support.stages import InlineStage, Stage, embedded_stage, zeebe_stage

for module in pkgutil.iter_modules(stories.__path__):
    import_module(f"{stories.__name__}.{module.name}")

# The newest engine belongs to every run, the one in between to the long form.
_MARKS = {
    "zeebe": (pytest.mark.zeebe,),
    "zeebe-8.8": (pytest.mark.versions, pytest.mark.long),
    "zeebe-8.9": (pytest.mark.versions,),
}
CASES = [
    pytest.param(name, known, marks=_MARKS.get(name, ()), id=f"{name}-{known.name}")
    for name in ENGINES
    for known in SCENARIOS
    if name not in known.without
]

Opener = Callable[[str], Awaitable[Stage]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage_of(request: pytest.FixtureRequest) -> AsyncIterator[Opener]:
    """Opens a stage when it is first asked for; every story on it has names of its own."""
    opened: dict[str, Stage] = {}
    async with AsyncExitStack() as stack:

        async def open_stage(name: str) -> Stage:
            if name in GATEWAYS:
                gateway = request.getfixturevalue("engines").gateway(name)
                return await stack.enter_async_context(zeebe_stage(gateway))
            if name == "embedded":
                dsn = stack.enter_context(request.getfixturevalue("database_template").clone())
                return await stack.enter_async_context(embedded_stage(dsn))
            return InlineStage()

        async def stage_of(name: str) -> Stage:
            if name not in opened:
                opened[name] = await open_stage(name)
            return opened[name]

        yield stage_of


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("engine", "story"), CASES)
async def test_every_engine_tells_the_same_story(engine: str, story: Scenario, stage_of: Opener) -> None:
    play = Play(await stage_of(engine), engine)
    await play.deploy(*story.drawings)
    await story.script(play)


def test_there_are_enough_stories() -> None:
    assert len(SCENARIOS) >= 60
    assert len({known.name for known in SCENARIOS}) == len(SCENARIOS)
