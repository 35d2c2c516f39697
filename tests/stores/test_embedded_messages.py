"""Messages of the embedded engine, down to its rows: a wait is opened, met and closed together with its token."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Literal

import pytest

from tests.support.databases import plain
from tests.support.drawing import Drawing
from tests.support.embedded import EmbeddedPlace, embedded
from tests.support.eventually import eventually
from tests.support.proxy import proxied
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Ask, Resource, Signal, Start
from verbworker.errors import EngineUnavailable, JobGone
from verbworker.job.job import Job
from verbworker.job.outcome import NO_RESULT, JobResult

KEY = {"corr_key": "k-1"}
WAITS = "SELECT message_name, correlation_key FROM verbworker_engine.subscription ORDER BY wait_key"
KEYS = "SELECT wait_key FROM verbworker_engine.subscription"
KEPT = "SELECT message_id FROM verbworker_engine.message ORDER BY message_key"


def catching(process: str = "p") -> Drawing:
    drawing = Drawing(process).start().catch("letter", message="docs").task("read")
    return drawing.end().flow("begin", "letter", "read", "end")


def bounded(*, interrupting: bool) -> Drawing:
    drawing = Drawing().start().task("work").boundary("stop", "work", message="docs", interrupting=interrupting)
    drawing.task("note").end("end", "noted")
    return drawing.flow("begin", "work", "end").flow("stop", "note", "noted")


async def begin(engine: EmbeddedEngine, drawing: Drawing, **variables: object) -> int:
    await engine.deploy([Resource("p.bpmn", drawing.xml())])
    return (await engine.start(Start(drawing.process, {**KEY, **variables}))).instance_key


async def take(engine: EmbeddedEngine, kind: str, limit: int = 5, wait_ms: int = 10_000) -> list[Job]:
    return await engine.activate(Ask(kind, "w", 60_000, ()), limit, wait_ms)


async def send(engine: EmbeddedEngine, message_id: str = "m-1", *, key: str = "k-1", ttl_ms: int = 60_000) -> None:
    await engine.publish(
        Signal(name="docs", correlation_key=key, variables={"from": message_id}, message_id=message_id, ttl_ms=ttl_ms)
    )


async def rows(dsn: str, query: str) -> Sequence[Any]:
    async with plain(dsn) as connection:
        return [tuple(row) for row in await connection.fetch(query)]


@pytest.mark.req("EMC-01", "EMC-02", "EMC-04", "EMC-06", "EMC-09", "EMC-10", "X-18", "TST-16")
async def test_a_message_meets_its_wait_by_name_and_key_alone(engine: EmbeddedEngine, dsn: str) -> None:
    instance_key = await begin(engine, catching())
    assert await rows(dsn, WAITS) == [("docs", "k-1")]

    await send(engine, key="k-2", ttl_ms=0)
    assert await rows(dsn, WAITS) == [("docs", "k-1")]
    await send(engine)
    (job,) = await take(engine, "read")

    assert (job.process_instance_key, job.variables["from"]) == (instance_key, "m-1")
    assert await rows(dsn, WAITS) == []


@pytest.mark.req("X-11")
async def test_a_message_may_come_early_and_not_after_its_time(engine: EmbeddedEngine, dsn: str) -> None:
    await engine.deploy([Resource("p.bpmn", catching().xml())])
    await send(engine, "old", ttl_ms=1_000)
    await EmbeddedPlace(dsn).moved(2)
    await send(engine, "new", ttl_ms=60_000)
    await engine.start(Start("p", KEY))
    (job,) = await take(engine, "read")

    assert job.variables["from"] == "new"


@pytest.mark.req("EMC-09", "EMC-13", "TST-17")
async def test_whoever_must_know_is_told_that_nobody_waits(engine: EmbeddedEngine) -> None:
    instance_key = await begin(engine, catching())

    assert await engine.correlate("docs", "nobody", {}) is None
    assert await engine.correlate("docs", "k-1", {}) == instance_key
    assert await engine.correlate("docs", "k-1", {}) is None


@pytest.mark.req("X-12")
async def test_a_repetition_is_known_for_as_long_as_the_message_lives(engine: EmbeddedEngine, dsn: str) -> None:
    await engine.deploy([Resource("p.bpmn", catching().xml())])
    await asyncio.gather(*(send(engine) for _ in range(8)))

    assert await rows(dsn, KEPT) == [("m-1",)]


@pytest.mark.req("EMC-14", "X-17")
async def test_a_wait_outlives_the_process_that_opened_it(dsn: str) -> None:
    async with embedded(dsn) as first:
        instance_key = await begin(first, catching())
    async with embedded(dsn) as second:
        await send(second)
        (job,) = await take(second, "read")

    assert job.process_instance_key == instance_key


@pytest.mark.req("EMC-03", "EMC-07", "EMC-16", "EMC-17", "TST-18")
async def test_a_boundary_message_ends_its_host_and_takes_its_own_way(engine: EmbeddedEngine, dsn: str) -> None:
    await begin(engine, bounded(interrupting=True))
    await send(engine)

    assert [job.element_id for job in await take(engine, "note")] == ["note"]
    assert await take(engine, "work", wait_ms=0) == []
    assert await rows(dsn, WAITS) == []


async def test_a_boundary_message_that_does_not_interrupt_leaves_its_host_and_waits_on(
    engine: EmbeddedEngine, dsn: str
) -> None:
    await begin(engine, bounded(interrupting=False))
    await send(engine, "m-1")
    await send(engine, "m-2")

    assert len(await take(engine, "note")) == 2
    assert [job.element_id for job in await take(engine, "work")] == ["work"]
    assert await rows(dsn, WAITS) == [("docs", "k-1")]


@pytest.mark.req("EMC-11", "X-15", "TST-19")
async def test_a_boundary_wait_is_closed_by_its_row_though_the_key_has_changed(
    engine: EmbeddedEngine, dsn: str
) -> None:
    await begin(engine, bounded(interrupting=True))
    (job,) = await take(engine, "work")
    await engine.complete(job.key, JobResult(correlation={"corr_key": "another"}))

    assert await rows(dsn, WAITS) == []


@pytest.mark.req("EMC-04", "EMC-18", "EMC-24", "X-15")
async def test_a_wait_keeps_the_key_of_its_beginning_in_its_own_row(engine: EmbeddedEngine, dsn: str) -> None:
    drawing = Drawing().start().gateway("parallel", "fork").catch("letter", message="docs").task("read").task("beside")
    drawing.end("end", "done").flow("begin", "fork", "letter", "read", "end").flow("fork", "beside", "done")
    await begin(engine, drawing)
    (job,) = await take(engine, "beside")
    await engine.complete(job.key, JobResult(correlation={"corr_key": "another"}))
    before = await rows(dsn, WAITS)
    await send(engine, key="another", ttl_ms=0)
    still = await rows(dsn, WAITS)
    await send(engine, key="k-1", ttl_ms=0)

    assert before == still == [("docs", "k-1")]
    assert len(await take(engine, "read")) == 1
    assert await rows(dsn, WAITS) == []


@pytest.mark.req("EMC-11", "EMC-17")
@pytest.mark.parametrize("leave", ["complete", "throw", "cancel", "interrupt"])
async def test_a_boundary_wait_ends_with_its_host_however_that_is_left(
    engine: EmbeddedEngine, dsn: str, leave: str
) -> None:
    drawing = bounded(interrupting=True).boundary("failed", "work", error="NO").flow("failed", "noted")
    instance_key = await begin(engine, drawing)
    opened = await rows(dsn, WAITS)
    (job,) = await take(engine, "work")
    match leave:
        case "complete":
            await engine.complete(job.key, NO_RESULT)
        case "throw":
            await engine.throw(job.key, code="NO", message="")
        case "cancel":
            await engine.cancel(instance_key)
        case _:
            await send(engine, ttl_ms=0)

    assert (opened, await rows(dsn, WAITS)) == ([("docs", "k-1")], [])


@pytest.mark.req("EMC-11", "X-15", "X-18")
async def test_what_ends_an_earlier_wait_leaves_the_newer_one_of_the_same_key(engine: EmbeddedEngine, dsn: str) -> None:
    drawing = Drawing().start().gateway("exclusive", "again").task("work").boundary("stop", "work", message="docs")
    drawing.end("stopped").flow("begin", "again", "work", "again").flow("stop", "stopped")
    instance_key = await begin(engine, drawing)
    (first,) = await take(engine, "work")
    (earlier,) = await rows(dsn, KEYS)
    await engine.complete(first.key, NO_RESULT)
    (newer,) = await rows(dsn, KEYS)
    with pytest.raises(JobGone):
        await engine.complete(first.key, NO_RESULT)  # delivered twice: it closed the earlier wait once
    async with embedded(dsn) as other:  # and by another process, which has nothing in memory
        with pytest.raises(JobGone):
            await other.complete(first.key, NO_RESULT)

    assert earlier != newer
    assert await rows(dsn, KEYS) == [newer]
    assert await engine.correlate("docs", "k-1", {}) == instance_key


@pytest.mark.req("EMC-14", "EMC-15", "X-17")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_process_that_dies_at_the_commit_leaves_an_instance_with_its_wait_or_neither(
    dsn: str, when: Literal["before", "after"]
) -> None:
    """There is no moment between the two: so nothing has to be registered anew, and nothing can be forgotten."""
    first = Drawing().start().task("work").catch("letter", message="docs").task("read").end()
    first.flow("begin", "work", "letter", "read", "end")
    async with embedded(dsn) as engine:
        await begin(engine, first)
        (job,) = await take(engine, "work")
    async with proxied(dsn) as proxy, embedded(proxy.dsn, run_timers=False) as dying:
        proxy.cut("COMMIT", when)
        with pytest.raises(EngineUnavailable):
            await dying.complete(job.key, NO_RESULT)
        cuts = proxy.cuts
    between = await rows(dsn, WAITS), await rows(dsn, "SELECT job_key FROM verbworker_engine.job WHERE type = 'work'")
    async with embedded(dsn) as engine:
        with nullcontext() if when == "before" else pytest.raises(JobGone):
            await engine.complete(job.key, NO_RESULT)
        waits = await rows(dsn, WAITS)
        await send(engine)
        jobs = await take(engine, "read")

    assert cuts == 1
    assert [len(one) for one in between] == ([0, 1] if when == "before" else [1, 0])
    assert (waits, len(jobs)) == ([("docs", "k-1")], 1)


@pytest.mark.req("EMC-12", "MSG-06", "X-14")
async def test_of_several_waits_in_one_process_one_gets_the_message_and_of_several_processes_each(
    engine: EmbeddedEngine, dsn: str
) -> None:
    first = await begin(engine, catching("p"))
    second = (await engine.start(Start("p", KEY))).instance_key
    third = await begin(engine, catching("q"))
    await engine.deploy([Resource("p.bpmn", catching("p").task("more").xml())])  # a newer version is the same process
    newest = (await engine.start(Start("p", KEY))).instance_key
    await send(engine, "m-1", ttl_ms=0)
    reached = {job.process_instance_key for job in await take(engine, "read")}
    left = await rows(dsn, "SELECT instance_key FROM verbworker_engine.subscription ORDER BY wait_key")

    assert reached == {first, third}
    assert left == [(second,), (newest,)]


@pytest.mark.req("EMC-21", "EMC-22")
@pytest.mark.parametrize("key", ["corr_key", "= corr_key"])
async def test_a_subscription_of_fleans_is_one_of_zeebe(engine: EmbeddedEngine, dsn: str, key: str) -> None:
    namespace = "https://fleans.io/schema/bpmn/1.0"
    written = f'<fleans:subscription xmlns:fleans="{namespace}" correlationKey="{key}"/>'.encode()
    content, count = re.subn(rb"<zeebe:subscription[^>]*/>", written, catching().xml())
    await engine.deploy([Resource("p.bpmn", content)])
    instance_key = (await engine.start(Start("p", KEY))).instance_key

    assert (count, await rows(dsn, WAITS)) == (1, [("docs", "k-1")])
    assert await engine.correlate("docs", "k-1", {}) == instance_key


@pytest.mark.req("EMC-11", "TOK-07")
async def test_a_cancelled_instance_waits_for_nothing(engine: EmbeddedEngine, dsn: str) -> None:
    instance_key = await begin(engine, catching())
    await engine.cancel(instance_key)

    assert await rows(dsn, WAITS) == []
    assert not await engine.alive(instance_key)


async def test_of_two_instances_under_one_key_one_gets_the_message_and_the_other_the_next(
    engine: EmbeddedEngine, dsn: str
) -> None:
    first = await begin(engine, catching())
    second = (await engine.start(Start("p", KEY))).instance_key
    await send(engine, "m-1")
    await send(engine, "m-2")
    jobs = await take(engine, "read")

    assert sorted((job.process_instance_key, job.variables["from"]) for job in jobs) == [
        (first, "m-1"),
        (second, "m-2"),
    ]


@pytest.mark.req("TOK-17", "EVO-16", "EVO-22")
async def test_a_message_and_a_timer_at_the_same_moment_move_one_token(dsn: str) -> None:
    drawing = Drawing().start().gateway("eventBased", "first").catch("letter", message="docs")
    drawing.catch("late", timer="PT1H").task("read").end("end").flow("begin", "first", "letter", "read", "end")
    drawing.task("remind").end("reminded").flow("first", "late", "remind", "reminded")
    async with embedded(dsn, run_timers=False) as quiet:
        await quiet.deploy([Resource("p.bpmn", drawing.xml())])
        for number in range(30):
            await quiet.start(Start("p", {"corr_key": f"k-{number}"}))
    await EmbeddedPlace(dsn).moved(3601)
    async with embedded(dsn) as one, embedded(dsn) as other:
        await asyncio.gather(*(send((one, other)[n % 2], f"m-{n}", key=f"k-{n}", ttl_ms=0) for n in range(30)))
        await eventually(lambda: nothing_waits(dsn))
    ways = await rows(dsn, "SELECT instance_key, count(*) FROM verbworker_engine.job GROUP BY instance_key")

    assert [count for _, count in ways] == [1] * 30
    assert await rows(dsn, WAITS) == []


async def nothing_waits(dsn: str) -> bool:
    return await rows(dsn, "SELECT wait_key FROM verbworker_engine.timer") == []
