"""Timers of the embedded engine: many at once over several processes, and those that fell due while nobody ran."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.support.databases import execute, plain, value
from tests.support.drawing import Drawing
from tests.support.embedded import EmbeddedPlace, embedded
from tests.support.eventually import eventually
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Ask, Resource, Start
from verbworker.job.outcome import NO_RESULT

TIMERS = "SELECT count(*) FROM verbworker_engine.timer"
# The row of a job is the mark of one firing: it has the key the kernel gave it, and nobody takes it.
MADE = "SELECT count(*) AS jobs, count(DISTINCT instance_key) AS instances FROM verbworker_engine.job"


@asynccontextmanager
async def processes(dsn: str, count: int) -> AsyncIterator[list[EmbeddedEngine]]:
    """So many processes' engines on one database."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(embedded(dsn)) for _ in range(count)]


async def deploy(engine: EmbeddedEngine, *, timer: str = "PT1H") -> None:
    model = Drawing().start().catch("rest", timer=timer).task("work").end().flow("begin", "rest", "work", "end")
    await engine.deploy([Resource("p.bpmn", model.xml())])


async def made(dsn: str) -> tuple[int, int]:
    async with plain(dsn) as connection:
        row = await connection.fetchrow(MADE)
    return row["jobs"], row["instances"]


@pytest.mark.req("EVO-17", "EVO-22", "TOK-14", "TOK-17")
@pytest.mark.parametrize("many", [1000, pytest.param(10_000, marks=pytest.mark.long)])
async def test_timers_that_are_due_at_once_fire_once_each_over_several_processes(dsn: str, many: int) -> None:
    async with embedded(dsn, run_timers=False) as quiet:
        await deploy(quiet)
        for _ in range(many // 100):
            await asyncio.gather(*(quiet.start(Start("p", {})) for _ in range(100)))
    assert await value(dsn, TIMERS) == many
    await EmbeddedPlace(dsn).moved(3601)

    async with processes(dsn, 4):

        async def is_over() -> bool:
            return bool(await value(dsn, TIMERS) == 0)

        await eventually(is_over, timeout=120)

    assert await made(dsn) == (many, many)


@pytest.mark.req("TOK-19", "EVO-24")
async def test_a_timer_that_fell_due_while_everything_was_down_fires_on_start(dsn: str) -> None:
    async with embedded(dsn) as engine:
        await deploy(engine)
        started = await engine.start(Start("p", {}))
    await EmbeddedPlace(dsn).moved(3601)

    async with embedded(dsn) as engine:
        (job,) = await engine.activate(Ask("work", "w", 60_000, ()), 1, 20_000)

    assert job.process_instance_key == started.instance_key
    assert await value(dsn, TIMERS) == 0


async def test_timers_that_can_never_fire_do_not_keep_others_from_it(dsn: str) -> None:
    async with embedded(dsn, run_timers=False) as quiet:
        await deploy(quiet)
        started = await quiet.start(Start("p", {}))
    skipped = "SELECT 1 + i, $1, now() FROM generate_series(1, 250) AS i"
    await execute(
        dsn, f"INSERT INTO verbworker_engine.timer (wait_key, instance_key, due_at) {skipped}", started.instance_key
    )
    await EmbeddedPlace(dsn).moved(3601)

    async with embedded(dsn) as engine:
        (job,) = await engine.activate(Ask("work", "w", 60_000, ()), 1, 20_000)

    assert job.process_instance_key == started.instance_key


async def test_an_instance_that_cannot_be_read_holds_up_no_other_timer(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with embedded(dsn, run_timers=False) as quiet:
        await deploy(quiet)
        poison = await quiet.start(Start("p", {}))
        whole = await quiet.start(Start("p", {}))
    await execute(
        dsn, "UPDATE verbworker_engine.instance SET state = '{}' WHERE instance_key = $1", poison.instance_key
    )
    await EmbeddedPlace(dsn).moved(3601)

    async with embedded(dsn) as engine:
        (job,) = await engine.activate(Ask("work", "w", 60_000, ()), 1, 20_000)

    assert job.process_instance_key == whole.instance_key
    (said,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert (said.msg, said.__dict__["service"]) == ("item skipped because of a bug", "engine-timers")


@pytest.mark.req("EVO-17")
async def test_a_cycle_fires_as_often_as_it_says_and_then_no_more(dsn: str) -> None:
    model = Drawing().start().task("work").boundary("tick", "work", timer="R3/PT1H", interrupting=False)
    model.task("note").end("end", "noted").flow("begin", "work", "end").flow("tick", "note", "noted")
    async with embedded(dsn) as engine:
        await engine.deploy([Resource("p.bpmn", model.xml())])
        await engine.start(Start("p", {}))
    place = EmbeddedPlace(dsn)
    async with embedded(dsn) as engine:
        for rounds in (1, 2, 3):
            await place.moved(3601)
            (job,) = await engine.activate(Ask("note", "w", 60_000, ()), 5, 20_000)
            await engine.complete(job.key, NO_RESULT)
            assert await value(dsn, TIMERS) == (1 if rounds < 3 else 0)
