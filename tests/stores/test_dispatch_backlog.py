"""How many cases wait for the engine, as a scraper sees it."""

from collections.abc import AsyncIterator

import pytest

from tests.support.case_setup import case_registry
from tests.support.start_router import StartSetup, asking, open_starts
from verbworker import metrics
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import Start, Started
from verbworker.errors import AlreadyStarted, EngineUnavailable
from verbworker.stores.database import Database
from verbworker.testing.memory import MemoryEngine


@pytest.fixture
def registry() -> Registry:
    return case_registry("backlog", "backlog-letter")


@pytest.fixture
async def starts(dsn: str, registry: Registry) -> AsyncIterator[StartSetup]:
    engine = MemoryEngine("memory")
    engine.line("backlog-case", ["backlog.first"])
    async with Database(dsn, size=4) as database, open_starts(database, registry, engine) as opened:
        yield opened


def shown(name: str) -> float | None:
    return metrics.REGISTRY.get_sample_value(name)


async def test_a_case_counts_until_the_engine_has_begun_it(starts: StartSetup) -> None:
    for name in ("one", "two"):
        await starts.router.invoke("backlog.case", {"name": name}, caller=asking())
    await starts.dispatcher.count()
    before, age = shown("verbworker_waiting_starts"), shown("verbworker_waiting_starts_age_seconds")

    await starts.dispatcher.drain()
    await starts.dispatcher.count()

    assert before == 2
    assert age is not None
    assert age > 0
    assert (shown("verbworker_waiting_starts"), shown("verbworker_waiting_starts_age_seconds")) == (0, 0)


async def test_cases_that_the_engine_refuses_are_one_log_line_a_minute(
    starts: StartSetup, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    # Nothing is deployed on this engine.
    async with open_starts(starts.database, registry, MemoryEngine("empty")) as refused:
        entries = [
            await refused.router.invoke("backlog.case", {"name": name}, caller=asking()) for name in ("one", "two")
        ]
        for _ in range(3):
            await starts.database.execute("UPDATE verbworker.dispatch SET next_at = now() - interval '1 second'")
            await refused.dispatcher.drain()

    said = [record.__dict__ for record in caplog.records if record.getMessage() == "not started yet"]
    assert len(said) == 1
    assert said[0]["entry_id"] in {str(entry.entry_id) for entry in entries}
    assert "backlog-case" in said[0]["reason"]


async def test_another_engines_cases_are_not_counted(starts: StartSetup, registry: Registry) -> None:
    await starts.router.invoke("backlog.case", {"name": "one"}, caller=asking())

    async with open_starts(starts.database, registry, MemoryEngine("other")) as other:
        await other.dispatcher.count()

    assert shown("verbworker_waiting_starts") == 0


class UniqueEngine(MemoryEngine):
    """An engine that keeps business ids unique, and whose first answer is lost."""

    def __init__(self) -> None:
        super().__init__("memory")
        self.line("backlog-case", ["backlog.first"])
        self.ids: list[str | None] = []

    async def start(self, start: Start) -> Started:
        self.ids.append(start.business_id)
        if len(self.ids) > 1:
            raise AlreadyStarted("an instance with this business id already exists")
        await super().start(start)
        raise EngineUnavailable("the answer was lost")


async def test_a_start_whose_answer_was_lost_is_not_repeated_by_an_engine_with_unique_business_ids(
    dsn: str, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    engine = UniqueEngine()
    async with Database(dsn, size=4) as database, open_starts(database, registry, engine) as starts:
        entry = await starts.router.invoke("backlog.case", {"name": "one"}, caller=asking())
        for _ in range(2):
            await database.execute("UPDATE verbworker.dispatch SET next_at = now() - interval '1 second'")
            await starts.dispatcher.drain()
        row = await database.fetchrow("SELECT attempts, done_at, next_at > now() AS later FROM verbworker.dispatch")

    assert engine.ids == [str(entry.entry_id)] * 2
    assert len(engine.jobs) == 1
    assert row is not None
    assert (row["attempts"], row["done_at"], row["later"]) == (1, None, True)
    assert "not started yet" not in [record.getMessage() for record in caplog.records]
