"""A resolution that the engine does not answer is sent again, and an outage is not called a refusal."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from tests.support.engine_cases import alone, begin_case, find_no_way, take, without_a_way
from tests.support.frames import ENGINE, INCIDENT, claimed, make_delivery, make_instance, working
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.errors import CommandInvalid, EngineError, EngineUnavailable
from verbworker.stores.cases.overview import Overview, Trouble
from verbworker.stores.database import Database
from verbworker.work.upkeep import releases
from verbworker.work.upkeep.releases import ReleaseAnswer
from verbworker.work.upkeep.resolutions import Resolution, Resolutions

AWAY = EngineUnavailable("no answer")
REFUSED = CommandInvalid("the element is gone")


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


@pytest.fixture
async def engine(database: Database) -> AsyncIterator[EmbeddedEngine]:
    async with EmbeddedEngine(database, engine_id=ENGINE) as engine:
        yield engine


async def held(database: Database, engine: EmbeddedEngine, *, is_verb: bool) -> Trouble:
    """A verb that a worker stopped, or an element at which the engine stopped."""
    stored, _ = await begin_case(database, engine, alone() if is_verb else without_a_way())
    if is_verb:
        job = await take(engine, "work")
        instance = make_instance(instance_uid=stored.instance_uid, entry_id=stored.entry_id)
        async with working(database) as frames:
            await frames.boot(name="ann", host="a", pid=11)
            await frames.pop_incident(await claimed(frames, make_delivery(job, instance)), INCIDENT)
        await engine.fail(job.key, retries=0, message="no customer")
    else:
        await find_no_way(engine)
    (trouble,) = await Overview(database).troubles("default", without_entry=False)
    return trouble


async def resolve(
    database: Database,
    engine: EmbeddedEngine,
    monkeypatch: pytest.MonkeyPatch,
    error: EngineError,
    *,
    is_verb: bool,
    times: int,
) -> ReleaseAnswer:
    """Resolve an incident while the engine's first answers are this error."""
    trouble, left = await held(database, engine, is_verb=is_verb), [error] * times
    name = "release" if is_verb else "resolve_incident"
    real = getattr(engine, name)

    async def answer(*words: object, **named: object) -> None:
        if left:
            raise left.pop()
        await real(*words, **named)

    monkeypatch.setattr(engine, name, answer)
    monkeypatch.setattr(releases, "_INSIST_S", 1.0)
    return await Resolutions(database, engine, owner=uuid4()).resolve(trouble, Resolution("ada", "mended"))


@pytest.mark.parametrize("is_verb", [True, False])
async def test_an_answer_that_is_missing_once_is_asked_for_again(
    database: Database, engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch, *, is_verb: bool
) -> None:
    answer = await resolve(database, engine, monkeypatch, AWAY, is_verb=is_verb, times=2)

    # The element without a way stops at once again, which is another answer of the engine.
    assert (answer.done, "tried again and stopped" in answer.sentence) == (is_verb, not is_verb)


@pytest.mark.parametrize(("is_verb", "words"), [(True, "run this again"), (False, "not reached: no answer; try again")])
async def test_an_outage_asks_for_nothing_but_another_try(
    database: Database, engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch, *, is_verb: bool, words: str
) -> None:
    answer = await resolve(database, engine, monkeypatch, AWAY, is_verb=is_verb, times=10_000)

    assert (answer.done, answer.sentence.endswith(words), "fix that" in answer.sentence) == (False, True, False)


@pytest.mark.parametrize("is_verb", [True, False])
async def test_a_refusal_is_called_one_at_once(
    database: Database, engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch, *, is_verb: bool
) -> None:
    answer = await resolve(database, engine, monkeypatch, REFUSED, is_verb=is_verb, times=1)

    assert (answer.done, "the element is gone; fix that" in answer.sentence) == (False, True)
