"""Timers of the embedded engine: none lost, none twice, whoever rings them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from tests.support.databases import value
from tests.support.drawing import Drawing
from tests.support.embedded import EmbeddedPlace, embedded
from tests.support.eventually import eventually
from tests.support.zeebe_engine import outcome
from verbworker.engine import Ask, Resource, Start
from verbworker.engines.embedded.engine import EmbeddedEngine
from verbworker.errors import JobGone
from verbworker.job import Job

HOUR = 3600.0


@pytest.fixture
def place(dsn: str) -> EmbeddedPlace:
    return EmbeddedPlace(dsn)


@pytest.fixture
async def engine(dsn: str) -> AsyncIterator[EmbeddedEngine]:
    """An engine whose timers ring when the test says so."""
    async with embedded(dsn, clockwork=False) as engine:
        yield engine


def waiting(timer: str = "PT1H") -> Drawing:
    return Drawing().start().catch("wait", timer=timer).task("after").end().flow("begin", "wait", "after", "end")


def guarded(timer: str = "PT1H", *, interrupting: bool = True) -> Drawing:
    drawing = Drawing().start().task("work").task("late").end("end", "ended_late")
    drawing.boundary("overdue", "work", timer=timer, interrupting=interrupting)
    return drawing.flow("begin", "work", "end").flow("overdue", "late", "ended_late")


async def start(engine: EmbeddedEngine, drawing: Drawing, count: int = 1) -> list[int]:
    await engine.deploy([Resource("p.bpmn", drawing.xml())])
    started = await asyncio.gather(*(engine.start(Start("p", {})) for _ in range(count)))
    return [one.instance_key for one in started]


async def take(engine: EmbeddedEngine, kind: str, limit: int = 1, wait_ms: int = 20_000) -> list[Job]:
    return await engine.activate(Ask(kind, "tests", 60_000_000, ()), limit, wait_ms)


async def timers(place: EmbeddedPlace) -> int:
    return int(await value(place.dsn, "SELECT count(*) FROM verbworker_engine.timer"))


async def ring_out(engine: EmbeddedEngine) -> int:
    fired = 0
    while more := await engine.clockwork.fire():
        fired += more
    return fired


@pytest.mark.req("EVO-17", "TOK-14", "TOK-17")
async def test_a_thousand_timers_that_are_due_at_once_fire_once_each_by_three_clockworks(
    engine: EmbeddedEngine, place: EmbeddedPlace
) -> None:
    instances = await start(engine, waiting(), 1000)
    await place.moved(HOUR + 1)

    async with embedded(place.dsn, clockwork=False) as second, embedded(place.dsn, clockwork=False) as third:
        fired = await asyncio.gather(*(ring_out(one) for one in (engine, second, third)))
        left = await eventually_none(engine, place)

    jobs = [job for _ in range(3) for job in await take(engine, "after", 1000, wait_ms=-1)]
    assert sum(fired) + left == 1000
    assert Counter(job.process_instance_key for job in jobs) == Counter(instances)
    assert await timers(place) == 0


async def eventually_none(engine: EmbeddedEngine, place: EmbeddedPlace) -> int:
    """Ring what the three passed over because another of them held it; how many there were."""
    fired = 0

    async def is_quiet() -> bool:
        nonlocal fired
        fired += await ring_out(engine)
        return await timers(place) == 0

    await eventually(is_quiet)
    return fired


@pytest.mark.req("EVO-17", "TOK-19")
async def test_a_timer_that_fell_due_while_nobody_ran_fires_on_start(
    engine: EmbeddedEngine, place: EmbeddedPlace
) -> None:
    (instance,) = await start(engine, waiting())
    await place.moved(30 * 24 * HOUR)

    async with embedded(place.dsn) as woken:
        (job,) = await take(woken, "after")

    assert job.process_instance_key == instance


async def test_a_timer_that_is_not_due_does_not_fire(engine: EmbeddedEngine, place: EmbeddedPlace) -> None:
    await start(engine, waiting())
    await place.moved(HOUR - 60)

    assert await engine.clockwork.fire() == 0
    assert await timers(place) == 1


@pytest.mark.req("EVO-22", "EMC-11")
async def test_the_timer_of_a_finished_task_is_gone(engine: EmbeddedEngine, place: EmbeddedPlace) -> None:
    await start(engine, guarded())
    (job,) = await take(engine, "work")
    await engine.complete(job.key, {})
    await place.moved(HOUR + 1)

    assert await timers(place) == 0
    assert await engine.clockwork.fire() == 0


@pytest.mark.req("EVO-22", "EVO-23")
async def test_a_task_that_ends_while_its_timer_rings_goes_one_way(
    engine: EmbeddedEngine, place: EmbeddedPlace
) -> None:
    instances = await start(engine, guarded(), 20)
    jobs = await take(engine, "work", 20)
    await place.moved(HOUR + 1)

    async with embedded(place.dsn, clockwork=False) as rival:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(3):
                tasks.create_task(ring_out(rival))
            said = await asyncio.gather(*(outcome(engine.complete(job.key, {})) for job in jobs))
        await ring_out(rival)
    late = await take(engine, "late", 50, wait_ms=-1)

    refused = [job.process_instance_key for job, answer in zip(jobs, said, strict=True) if answer is not None]
    assert {type(answer) for answer in said} <= {type(None), JobGone}
    assert sorted(job.process_instance_key for job in late) == sorted(refused)
    alive = [instance for instance in instances if await engine.alive(instance)]
    assert sorted(alive) == sorted(refused)


async def test_a_cycle_fires_as_often_as_it_says_though_several_ring_it(
    engine: EmbeddedEngine, place: EmbeddedPlace
) -> None:
    await start(engine, guarded("R3/PT1H", interrupting=False))
    seen = 0
    async with embedded(place.dsn, clockwork=False) as rival:
        for _ in range(5):
            await place.moved(HOUR)
            await asyncio.gather(ring_out(engine), ring_out(rival), ring_out(engine), ring_out(rival))
            await asyncio.gather(ring_out(engine), ring_out(rival))
            seen += len(await take(engine, "late", 10, wait_ms=-1))

    assert seen == 3
    assert await timers(place) == 0


async def test_a_timer_counts_from_the_databases_time(engine: EmbeddedEngine, place: EmbeddedPlace) -> None:
    drawing = Drawing().start().task("first").catch("wait", timer="PT1H").end().flow("begin", "first", "wait", "end")
    await start(engine, drawing)
    (job,) = await take(engine, "first")
    await place.moved(10 * HOUR)
    await engine.complete(job.key, {})

    rest = await value(
        place.dsn, "SELECT extract(epoch FROM due_at - verbworker_engine.now())::float8 FROM verbworker_engine.timer"
    )

    assert HOUR - 60 < rest <= HOUR
