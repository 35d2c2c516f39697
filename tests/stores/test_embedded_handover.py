"""Jobs that are made while somebody waits for them: theirs at once, and nobody's loss when they have left."""

import asyncio

import pytest

from tests.support.databases import execute, value
from tests.support.drawing import Drawing
from tests.support.eventually import eventually
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Ask, Resource, Start
from verbworker.errors import JobGone
from verbworker.job.job import Job
from verbworker.job.outcome import NO_RESULT, JobResult
from verbworker.stores.database import Database

WAIT_MS = 20_000
UNTOUCHED = """
CREATE FUNCTION untouched() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER untouched BEFORE UPDATE ON verbworker_engine.job FOR EACH ROW EXECUTE FUNCTION untouched();
"""


async def deploy(engine: EmbeddedEngine) -> None:
    """One task, then two of one type side by side."""
    drawing = Drawing().start().task("first").gateway("parallel", "split", "join").end()
    drawing.flow("begin", "first", "split")
    for branch in ("left", "right"):
        drawing.task(branch, "branch").flow("split", branch, "join")
    drawing.flow("join", "end")
    await engine.deploy([Resource("p.bpmn", drawing.xml())])


def asked(kind: str, *, worker: str = "here", tenants: tuple[str, ...] = ()) -> Ask:
    return Ask(kind, worker, 60_000, (), tenant_ids=tenants)


async def waiting(
    engine: EmbeddedEngine, limit: int, *, worker: str = "here", tenants: tuple[str, ...] = ()
) -> asyncio.Task[list[Job]]:
    """Somebody who has asked in vain and waits."""
    asking = asyncio.create_task(engine.activate(asked("branch", worker=worker, tenants=tenants), limit, WAIT_MS))

    async def is_waiting() -> bool:
        waiters = engine._waiters._waiters.get("branch", [])
        return any(waiter.is_waiting and waiter.ask.worker == worker for waiter in waiters)

    await eventually(is_waiting)
    return asking


async def first(engine: EmbeddedEngine) -> Job:
    """An instance whose first job is at work."""
    await deploy(engine)
    await engine.start(Start("p", {"case": 7}))
    (job,) = await engine.activate(asked("first"), 1, WAIT_MS)
    return job


async def owners(dsn: str) -> list[str | None]:
    found = await value(dsn, "SELECT array_agg(worker ORDER BY job_key) FROM verbworker_engine.job")
    return list(found)


@pytest.mark.req("TOK-05", "TOK-06")
async def test_jobs_are_made_as_those_of_who_waits_for_them(engine: EmbeddedEngine, dsn: str) -> None:
    job = await first(engine)
    asking = await waiting(engine, 5)
    # Handing out by asking would change the rows: what arrives in spite of this was handed over as it was made.
    await execute(dsn, UNTOUCHED)

    await engine.complete(job.key, JobResult(flags={"seen": True}))
    left, right = await asking

    assert {left.element_id, right.element_id} == {"left", "right"}
    assert left.variables == {"case": 7, "seen": True}
    assert await owners(dsn) == ["here", "here"]
    activated = await value(dsn, "SELECT min(activated_ms) FROM verbworker_engine.job")
    assert left.activated_ms == right.activated_ms == activated


async def test_nobody_is_promised_more_than_they_asked_for(
    engine: EmbeddedEngine, other: EmbeddedEngine, dsn: str
) -> None:
    job = await first(engine)
    asking = await waiting(engine, 1)

    await engine.complete(job.key, NO_RESULT)

    (mine,) = await asking
    (rest,) = await other.activate(asked("branch", worker="there"), 5, WAIT_MS)
    assert mine.key != rest.key
    assert sorted(filter(None, await owners(dsn))) == ["here", "there"]


async def test_who_asks_for_other_tenants_is_promised_nothing(engine: EmbeddedEngine, dsn: str) -> None:
    job = await first(engine)
    asking = await waiting(engine, 5, tenants=("elsewhere",))

    await engine.complete(job.key, NO_RESULT)

    assert await owners(dsn) == [None, None]
    asking.cancel()
    assert len(await engine.activate(asked("branch"), 5, WAIT_MS)) == 2


async def test_what_was_brought_to_somebody_who_has_left_goes_to_the_next_at_once(
    engine: EmbeddedEngine, other: EmbeddedEngine, dsn: str
) -> None:
    job = await first(engine)
    asking = await waiting(engine, 5)
    (waiter,) = engine._waiters._waiters["branch"]

    async def is_promised() -> bool:
        return waiter.promised > 0

    async with Database(dsn, size=1) as database:
        async with database.transaction() as connection:
            # Whoever saves a step waits for this row.
            await connection.execute("SELECT 1 FROM verbworker_engine.instance FOR UPDATE")
            completing = asyncio.create_task(engine.complete(job.key, NO_RESULT))
            await eventually(is_promised)
            asking.cancel()
        await completing

    found: list[Job] = []
    while len(found) < 2:
        found += await other.activate(asked("branch", worker="there"), 5, WAIT_MS)
    assert {job.element_id for job in found} == {"left", "right"}


@pytest.mark.req("EVO-16", "EVO-22")
async def test_a_promise_that_was_not_kept_is_forgotten(engine: EmbeddedEngine, other: EmbeddedEngine) -> None:
    job = await first(engine)
    asking = await waiting(engine, 5)
    await other.cancel(job.process_instance_key)

    with pytest.raises(JobGone):
        await engine.complete(job.key, NO_RESULT)

    (waiter,) = engine._waiters._waiters["branch"]
    assert (waiter.promised, waiter.brought) == (0, [])
    await engine.start(Start("p", {}))
    (again,) = await other.activate(asked("first"), 1, WAIT_MS)
    await engine.complete(again.key, NO_RESULT)
    assert len(await asking) == 2
