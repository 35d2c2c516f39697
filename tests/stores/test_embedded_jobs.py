"""Jobs of the embedded engine on a real database."""

from collections.abc import AsyncIterator

import pytest

from tests.support.drawing import Drawing
from verbworker.engine import Ask, Resource, Start
from verbworker.engines.embedded.engine import EmbeddedEngine
from verbworker.stores._database import Database


@pytest.fixture
async def engine(dsn: str) -> AsyncIterator[EmbeddedEngine]:
    async with EmbeddedEngine(Database(dsn, size=8)) as engine:
        yield engine


async def test_slice(engine: EmbeddedEngine) -> None:
    model = Drawing().start().task("a").task("b").end().flow("begin", "a", "b", "end")
    (deployed,) = await engine.deploy([Resource("p.bpmn", model.xml())])
    started = await engine.start(Start("p", {"x": 1}))
    (job,) = await engine.activate(Ask("a", "w", 60000, ("x",)), 5, 5000)
    await engine.complete(job.key, {"y": 2})
    (job,) = await engine.activate(Ask("b", "w", 60000, ("x", "y")), 5, 5000)
    assert job.variables == {"x": 1, "y": 2}
    assert await engine.alive(started.instance_key)
    await engine.complete(job.key, {"y": 2})
    assert not await engine.alive(started.instance_key)
