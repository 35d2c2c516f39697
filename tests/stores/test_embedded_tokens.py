"""Tokens of the embedded engine as rows: the accidents that the execution model names, on a real Postgres."""

import asyncio
from collections.abc import Sequence

import orjson
import pytest

from tests.support.databases import execute, plain, value
from tests.support.drawing import Drawing
from tests.support.embedded import EmbeddedPlace, embedded
from tests.support.engine_cases import nested
from tests.support.kernel import Game
from tests.support.zeebe_engine import outcome
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Ask, Resource, Start
from verbworker.errors import JobNotActive
from verbworker.job.job import Job
from verbworker.job.outcome import NO_RESULT, JobResult
from verbworker.stores.database import Database
from verbworker.stores.embedded.token_rows import TokenRow, TokenRows

WAIT_MS = 20_000
LEASE_MS = 60_000


def line(*names: str) -> Drawing:
    drawing = Drawing().start().end().flow("begin", *names, "end")
    for name in names:
        drawing.task(name)
    return drawing


async def begin(engine: EmbeddedEngine, drawing: Drawing, **variables: object) -> int:
    await engine.deploy([Resource("p.bpmn", drawing.xml())])
    return (await engine.start(Start("p", variables))).instance_key


async def take(engine: EmbeddedEngine, kind: str, wait_ms: int = WAIT_MS) -> Job:
    (job,) = await engine.activate(Ask(kind, "tests", LEASE_MS, ()), 1, wait_ms)
    return job


async def finish(engine: EmbeddedEngine, *kinds: str) -> None:
    for kind in kinds:
        await engine.complete((await take(engine, kind)).key, NO_RESULT)


async def live(dsn: str, instance: int) -> dict[str, TokenRow]:
    async with Database(dsn, size=1) as database:
        return {row.node_id: row for row in await TokenRows(database).list_live(instance)}


async def ended(dsn: str, instance: int) -> list[TokenRow]:
    async with Database(dsn, size=1) as database:
        return await TokenRows(database).list_history(instance)


def shown(rows: Sequence[TokenRow]) -> list[tuple[str, str, int]]:
    return [(row.node_id, row.status, row.version) for row in rows]


@pytest.mark.req("TOK-02")
async def test_a_token_is_a_row_with_what_the_model_of_execution_names(engine: EmbeddedEngine, dsn: str) -> None:
    instance = await begin(engine, nested())
    a, d = (await live(dsn, instance)).values()
    await finish(engine, "a")

    rows = await live(dsn, instance)

    b, c = rows["b"], rows["c"]
    assert sorted(rows) == ["b", "c", "d"]
    assert {(row.instance_id, row.status, row.mode, row.version) for row in rows.values()} == {
        (instance, "ready", "forward", 2)
    }
    assert d.parallel_group_id == a.parallel_group_id is not None
    assert (b.parallel_group_id, b.parallel_groups[:-1]) == (c.parallel_group_id, [d.parallel_group_id])
    assert b.parallel_group_id not in (None, d.parallel_group_id)
    assert all(row.created_at == row.updated_at is not None for row in (a, b, c, d))
    assert len({a.id, b.id, c.id, d.id}) == 4


@pytest.mark.req("TOK-05", "TOK-06")
async def test_of_two_executors_one_claims_the_token(engine: EmbeddedEngine, other: EmbeddedEngine, dsn: str) -> None:
    instance = await begin(engine, line("a"))
    before = (await live(dsn, instance))["a"]

    asked = [who.activate(Ask("a", "tests", LEASE_MS, ()), 1, -1) for who in (engine, other) * 8]
    claims = [job for jobs in await asyncio.gather(*asked) for job in jobs]

    after = (await live(dsn, instance))["a"]
    assert len(claims) == 1
    assert (before.status, after.status) == ("ready", "executing")
    assert after.version == before.version + 1
    assert after.id == before.id


@pytest.mark.req("TOK-05", "TOK-06", "TOK-17")
async def test_a_token_that_another_is_just_about_to_claim_is_not_claimed_twice(
    engine: EmbeddedEngine, dsn: str
) -> None:
    await begin(engine, line("a"))
    claim = (
        "UPDATE verbworker_engine.job SET worker = 'other', due_at = now() + interval '1 minute', claims = claims + 1"
    )
    async with plain(dsn) as connection, connection.transaction():
        await connection.execute(claim)
        asked = asyncio.create_task(engine.activate(Ask("a", "tests", LEASE_MS, ()), 1, -1))
        await asyncio.wait({asked}, timeout=5)

    assert await asked == []


@pytest.mark.req("TOK-17", "TOK-19")
async def test_a_token_whose_executor_died_between_claim_and_save_is_ready_again_when_the_claim_is_over(
    engine: EmbeddedEngine, dsn: str
) -> None:
    instance = await begin(engine, line("a", "b"))
    async with embedded(dsn) as mortal:
        await take(mortal, "a")
    claimed = (await live(dsn, instance))["a"]
    early = await engine.activate(Ask("a", "tests", LEASE_MS, ()), 1, -1)
    await EmbeddedPlace(dsn).moved(61)
    reset = (await live(dsn, instance))["a"]

    job = await take(engine, "a")
    again = (await live(dsn, instance))["a"]
    await engine.complete(job.key, NO_RESULT)

    assert early == []
    assert [row.status for row in (claimed, reset, again)] == ["executing", "ready", "executing"]
    assert claimed.version < reset.version < again.version
    assert claimed.id == reset.id == again.id
    assert sorted(await live(dsn, instance)) == ["b"]


@pytest.mark.req("TOK-12", "TOK-13", "TOK-17", "X-19")
async def test_branches_that_arrive_at_once_join_once(engine: EmbeddedEngine, other: EmbeddedEngine, dsn: str) -> None:
    for _ in range(10):
        instance = await begin(engine, nested())
        await finish(engine, "a")
        jobs = [await take(engine, kind) for kind in "bcd"]
        pairs = zip(jobs, (engine, other, engine), strict=True)
        await asyncio.gather(*(who.complete(job.key, NO_RESULT) for job, who in pairs))

        assert [(row.node_id, row.parallel_group_id) for row in (await live(dsn, instance)).values()] == [
            ("after", None)
        ]
        arrivals = [row for row in await ended(dsn, instance) if row.node_id in ("meet", "join")]
        # Two arrived at each, and one went on behind it.
        assert sorted((row.node_id, len(row.parallel_groups)) for row in arrivals) == sorted(
            [("meet", 2), ("meet", 2), ("meet", 1), ("join", 1), ("join", 1), ("join", 0)]
        )


@pytest.mark.req("TOK-12", "TOK-13")
async def test_an_arrival_waits_for_its_group_and_a_redelivered_one_counts_once(
    engine: EmbeddedEngine, other: EmbeddedEngine, dsn: str
) -> None:
    instance = await begin(engine, nested())
    await finish(engine, "a")
    job = await take(engine, "b")
    said = [await outcome(who.complete(job.key, NO_RESULT)) for who in (engine, other, engine)]
    rows = await live(dsn, instance)
    await finish(engine, "c", "d")
    again = await outcome(other.complete(job.key, NO_RESULT))

    assert [type(answer).__name__ for answer in (*said, again)] == ["NoneType", "JobGone", "JobGone", "JobGone"]
    assert {node: (row.status, row.version) for node, row in rows.items()} == {
        "c": ("ready", 2),
        "d": ("ready", 2),
        "meet": ("waiting", 4),
    }
    assert list(await live(dsn, instance)) == ["after"]


@pytest.mark.req("TOK-14", "TOK-17")
async def test_a_timer_that_two_processes_fire_moves_its_token_once(dsn: str) -> None:
    drawing = Drawing().start().catch("rest", timer="PT1H").task("work").end().flow("begin", "rest", "work", "end")
    async with embedded(dsn, run_timers=False) as one, embedded(dsn, run_timers=False) as two:
        instance = await begin(one, drawing)
        waiting = (await live(dsn, instance))["rest"]
        await asyncio.gather(*(who.timers.fire() for who in (one, two)))
        early = await live(dsn, instance)
        await EmbeddedPlace(dsn).moved(3601)

        for _ in range(3):
            await asyncio.gather(*(who.timers.fire() for who in (one, two) * 2))

    assert (waiting.status, list(early)) == ("waiting", ["rest"])
    assert shown([*(await live(dsn, instance)).values()]) == [("work", "ready", 2)]
    assert shown(await ended(dsn, instance)) == [("begin", "completed", 4), ("rest", "completed", 7)]


@pytest.mark.req("TOK-17")
async def test_the_last_token_of_a_branch_ends_while_another_lives(
    engine: EmbeddedEngine, other: EmbeddedEngine, dsn: str
) -> None:
    drawing = Drawing().start().gateway("parallel", "split").task("a").task("b").end("x", "y")
    drawing.flow("begin", "split", "a", "x").flow("split", "b", "y")
    for _ in range(10):
        instance = await begin(engine, drawing)
        a, b = await take(engine, "a"), await take(engine, "b")
        await engine.complete(a.key, NO_RESULT)
        assert list(await live(dsn, instance)) == ["b"]
        assert await engine.alive(instance)
        await other.complete(b.key, NO_RESULT)
        assert not await engine.alive(instance)

        racing = await begin(engine, drawing)
        jobs = [await take(engine, kind) for kind in "ab"]
        await asyncio.gather(
            *(who.complete(job.key, NO_RESULT) for who, job in zip((engine, other), jobs, strict=True))
        )
        status = "SELECT status FROM verbworker_engine.ended_instance WHERE instance_key = $1"
        assert await value(dsn, status, racing) == "completed"


@pytest.mark.req("TOK-14", "TOK-15", "TOK-16")
async def test_a_retry_is_the_same_token_which_waits_for_its_timer(engine: EmbeddedEngine, dsn: str) -> None:
    instance = await begin(engine, line("a"))
    job = await take(engine, "a")
    claimed = (await live(dsn, instance))["a"]
    await engine.fail(job.key, retries=2, message="busy", backoff_ms=30_000)
    waiting = (await live(dsn, instance))["a"]
    refused = await outcome(engine.complete(job.key, NO_RESULT))
    early = await engine.activate(Ask("a", "tests", LEASE_MS, ()), 1, -1)
    await EmbeddedPlace(dsn).moved(31)
    due = (await live(dsn, instance))["a"]
    again = await take(engine, "a")
    executing = (await live(dsn, instance))["a"]

    rows = [claimed, waiting, due, executing]
    assert [row.status for row in rows] == ["executing", "waiting", "ready", "executing"]
    assert sorted({row.version for row in rows}) == [row.version for row in rows]
    assert len({row.id for row in rows}) == 1
    assert isinstance(refused, JobNotActive)
    assert (early, again.key, again.retries) == ([], job.key, 2)
    await engine.complete(again.key, NO_RESULT)
    assert [row.status for row in await ended(dsn, instance) if row.node_id == "a"] == ["completed"]


@pytest.mark.req("TOK-03", "TOK-15", "X-21")
async def test_a_token_without_retries_has_failed_until_an_operator_reschedules_it(
    engine: EmbeddedEngine, dsn: str
) -> None:
    instance = await begin(engine, line("a"))
    job = await take(engine, "a")
    await engine.fail(job.key, retries=0, message="no")
    failed = (await live(dsn, instance))["a"]
    unclaimed = await engine.activate(Ask("a", "tests", LEASE_MS, ()), 1, -1)

    await engine.release(job.key, retries=1)

    ready = (await live(dsn, instance))["a"]
    assert (failed.status, unclaimed, ready.status, ready.id) == ("failed", [], "ready", failed.id)
    assert (await take(engine, "a")).key == job.key


@pytest.mark.req("TOK-07", "TOK-08", "TOK-09", "X-22")
async def test_a_step_writes_tokens_timers_and_jobs_in_one_transaction_and_runs_nothing(
    engine: EmbeddedEngine, dsn: str
) -> None:
    drawing = nested().boundary("late", "b", timer="PT1H").end("over").flow("late", "over")
    instance = await begin(engine, drawing)
    job = await take(engine, "a")
    written = "SELECT DISTINCT xmin::text FROM (SELECT xmin FROM verbworker_engine.instance WHERE instance_key = $1"
    written += " UNION ALL SELECT xmin FROM verbworker_engine.timer UNION ALL"
    written += " SELECT xmin FROM verbworker_engine.job WHERE type IN ('b', 'c')) AS row"

    await engine.complete(job.key, NO_RESULT)

    async with plain(dsn) as connection:
        assert len(await connection.fetch(written, instance)) == 1
        assert await connection.fetchval("SELECT count(*) FROM verbworker_engine.timer") == 1
        jobs = await connection.fetch("SELECT type, worker FROM verbworker_engine.job ORDER BY type")
    # What follows is claimable and nobody has it: a step inserts jobs, workers run them.
    assert [tuple(row) for row in jobs] == [("b", None), ("c", None), ("d", None)]


# ---- history -------------------------------------------------------------------------------------------------------


@pytest.mark.req("TOK-02", "TOK-20")
async def test_ended_tokens_are_kept_with_the_instance_and_dropped_after_the_retention(dsn: str) -> None:
    async with embedded(dsn, run_timers=False) as engine:
        instance = await begin(engine, line("a", "b"))
        await finish(engine, "a")
        running = await ended(dsn, instance)
        await finish(engine, "b")
        rows = await ended(dsn, instance)
        swept = await engine.timers.sweep()
        await EmbeddedPlace(dsn).moved(8 * 24 * 3600)
        await engine.timers.sweep()

    assert shown(running) == [("begin", "completed", 4), ("a", "completed", 4)]
    assert shown(rows) == [*shown(running), ("b", "completed", 4), ("end", "completed", 4)]
    assert all(row.created_at <= row.updated_at for row in rows)  # type: ignore[operator]  # both are known
    assert swept == 0
    assert await ended(dsn, instance) == []


async def test_an_instance_that_goes_round_and_round_keeps_a_small_document(dsn: str) -> None:
    drawing = Drawing().start().gateway("exclusive", "again", "more", default="more_end").task("a").end()
    drawing.flow("begin", "again", "a", "more").flow("more", "again", when="=orch_more").flow("more", "end")
    size = "SELECT length(state) FROM verbworker_engine.instance WHERE instance_key = $1"
    async with embedded(dsn, run_timers=False) as engine:
        instance = await begin(engine, drawing)
        sizes = []
        for _ in range(60):
            await engine.complete((await take(engine, "a")).key, JobResult(flags={"orch_more": True}))
            sizes.append(await value(dsn, size, instance))
        rows = await ended(dsn, instance)
        await EmbeddedPlace(dsn).moved(8 * 24 * 3600)
        dropped = await engine.timers.sweep()
        left = await ended(dsn, instance)

    assert max(sizes) < 5000
    assert len(rows) == len({row.id for row in rows}) == 2 + 3 * 60
    assert dropped >= 2
    assert 0 < len(left) < 64
    assert left == rows[-len(left) :]


# ---- documents of the release before -------------------------------------------------------------------------------


async def make_old(dsn: str, instance: int) -> None:
    """Store the document as the release before wrote it: without lives, with counted arrivals."""
    document = orjson.loads(
        await value(dsn, "SELECT state FROM verbworker_engine.instance WHERE instance_key = $1", instance)
    )
    for name in ("lives", "joining", "forks", "ended"):
        document.pop(name, None)
    written = "UPDATE verbworker_engine.instance SET state = $2 WHERE instance_key = $1"
    await execute(dsn, written, instance, orjson.dumps(document))


async def test_a_document_of_the_release_before_is_read_shown_and_carried_on(dsn: str) -> None:
    drawing = nested().user_task("person").flow("outer", "person", "join")
    async with embedded(dsn) as engine:
        instance = await begin(engine, drawing)
        await finish(engine, "a", "b")
        held = await take(engine, "d")
        await engine.fail(held.key, retries=0, message="no")
        await make_old(dsn, instance)

    rows = await live(dsn, instance)
    async with embedded(dsn) as engine:
        await finish(engine, "c")
        await engine.release(held.key, retries=1)
        await finish(engine, "d", "io.camunda.zeebe:userTask")
        after = await live(dsn, instance)
        await finish(engine, "after")
        is_alive = await engine.alive(instance)

    assert {node: row.status for node, row in rows.items()} == {"c": "ready", "d": "failed", "person": "waiting"}
    assert shown([*after.values()]) == [("after", "ready", 2)]
    assert not is_alive


def test_the_release_before_reads_what_this_one_stores() -> None:
    """It takes ten values and when it came of each token, and counts arrivals by scope, gateway and flow."""
    from verbworker.engine.embedded.kernel.state_document import dump_state

    game = Game(nested()).begin().complete("a").complete("b")
    stored = dump_state(game.state)

    assert {len(row) for row in stored["tokens"]} == {11}
    assert stored["arrivals"] == {f"{game.state.instance_key}:meet": {"b_meet": 1}}
    assert not {token[1] for token in stored["tokens"]} & {"meet"}
