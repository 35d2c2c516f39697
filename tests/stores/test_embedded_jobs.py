"""Jobs of the embedded engine: any number of processes on one database, and each job with one worker at a time."""

import asyncio

import pytest

from tests.support.databases import execute, value
from tests.support.drawing import Drawing, listeners
from tests.support.embedded import EmbeddedPlace, embedded
from tests.support.postgres import Postgres
from tests.support.zeebe_engine import outcome, until_it_works
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Ask, Resource, Start
from verbworker.errors import CommandInvalid, EngineUnavailable, JobGone, JobNotActive
from verbworker.job.job import TENANT_ID, Job
from verbworker.job.outcome import NO_RESULT, JobResult
from verbworker.stores.database import Database
from verbworker.stores.migrations import migrate

WAIT_MS = 20_000


def line(*tasks: str) -> Drawing:
    drawing = Drawing().start().end().flow("begin", *tasks, "end")
    for task in tasks:
        drawing.task(task)
    return drawing


def fork(*branches: str) -> Drawing:
    drawing = Drawing().start().gateway("parallel", "split", "join").task("after").end()
    for branch in branches:
        drawing.task(branch, "branch").flow("split", branch, "join")
    return drawing.flow("begin", "split").flow("join", "after", "end")


async def deploy(engine: EmbeddedEngine, drawing: Drawing) -> None:
    await engine.deploy([Resource(f"{drawing.process}.bpmn", drawing.xml())])


async def running(engine: EmbeddedEngine, drawing: Drawing, **variables: object) -> int:
    await deploy(engine, drawing)
    return (await engine.start(Start("p", variables))).instance_key


async def take(
    engine: EmbeddedEngine, kind: str, limit: int = 1, *, timeout_ms: int = 60_000, wait_ms: int = WAIT_MS
) -> list[Job]:
    return await engine.activate(Ask(kind, "tests", timeout_ms, ()), limit, wait_ms)


@pytest.mark.req("TOK-05", "TOK-06", "TOK-17", "TST-22")
async def test_many_who_ask_at_once_never_get_the_same_job(
    engine: EmbeddedEngine, other: EmbeddedEngine, dsn: str
) -> None:
    await deploy(engine, line("a"))
    await asyncio.gather(*(engine.start(Start("p", {})) for _ in range(200)))

    async with embedded(dsn) as third:
        polls = [take(asked, "a", 7, wait_ms=-1) for _ in range(16) for asked in (engine, other, third)]
        taken = [job.key for jobs in await asyncio.gather(*polls) for job in jobs]

    assert len(taken) == len(set(taken))
    rest = await take(engine, "a", 500, wait_ms=-1)
    assert len(taken) + len(rest) == 200


@pytest.mark.req("TOK-19", "X-23")
async def test_a_process_that_dies_loses_its_job_when_its_time_is_over_and_not_before(
    engine: EmbeddedEngine, dsn: str
) -> None:
    await running(engine, line("a"))
    async with embedded(dsn) as mortal:
        (job,) = await take(mortal, "a")
    early = await take(engine, "a", wait_ms=-1)
    await EmbeddedPlace(dsn).moved(61)

    (again,) = await take(engine, "a")

    assert early == []
    assert (again.key, again.retries) == (job.key, job.retries)
    assert again.activated_ms > job.activated_ms


async def test_deliveries_of_a_job_are_told_apart_though_the_clock_stands_still(
    engine: EmbeddedEngine, dsn: str
) -> None:
    await running(engine, line("a"))
    stopped = "CREATE OR REPLACE FUNCTION verbworker_engine.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT {}'"
    moment = await value(dsn, "SELECT quote_literal(clock_timestamp())")
    await execute(dsn, stopped.format(f"''{moment[1:-1]}''::timestamptz"))
    seen = []
    for _ in range(3):
        (job,) = await take(engine, "a", wait_ms=-1)
        seen.append(job.activated_ms)
        await engine.fail(job.key, retries=3, message="again")

    assert seen == sorted(set(seen))


@pytest.mark.req("EVO-16", "EVO-22")
async def test_a_job_that_two_processes_complete_at_once_is_completed_once(
    engine: EmbeddedEngine, other: EmbeddedEngine
) -> None:
    await deploy(engine, line("a", "b"))
    for round_ in range(10):
        await engine.start(Start("p", {}))
        (job,) = await take(engine, "a")
        said = await asyncio.gather(
            outcome(engine.complete(job.key, JobResult(flags={"by": 1}))),
            outcome(other.complete(job.key, JobResult(flags={"by": 2}))),
        )

        assert sorted(type(answer).__name__ for answer in said) == ["JobGone", "NoneType"], round_
        assert len(await take(engine, "b", 5)) == 1


@pytest.mark.req("EVO-22")
async def test_an_instance_that_is_cancelled_while_its_job_is_completed_does_one_of_both(
    engine: EmbeddedEngine, other: EmbeddedEngine
) -> None:
    await deploy(engine, line("a"))
    for _ in range(10):
        started = await engine.start(Start("p", {}))
        (job,) = await take(engine, "a")
        said = await asyncio.gather(
            outcome(engine.complete(job.key, NO_RESULT)), outcome(other.cancel(started.instance_key))
        )

        assert sorted(type(answer).__name__ for answer in said) == ["JobGone", "NoneType"]
        assert not await engine.alive(started.instance_key)


@pytest.mark.req("TOK-12", "TOK-13", "TOK-17", "X-19", "TST-23")
async def test_branches_that_two_processes_complete_at_once_join_once(
    engine: EmbeddedEngine, other: EmbeddedEngine
) -> None:
    await deploy(engine, fork(*(f"t{number}" for number in range(8))))
    for _ in range(5):
        await engine.start(Start("p", {}))
        jobs = await take(engine, "branch", 4) + await take(other, "branch", 4)
        pairs = zip(jobs, [engine, other] * 4, strict=True)
        await asyncio.gather(*(who.complete(job.key, JobResult(flags={job.element_id: True})) for job, who in pairs))
        (after,) = await take(engine, "after", 5)

        assert after.variables == {f"t{number}": True for number in range(8)}


async def test_a_job_that_fails_while_it_is_completed_goes_one_way(
    engine: EmbeddedEngine, other: EmbeddedEngine
) -> None:
    await deploy(engine, line("a"))
    for _ in range(10):
        started = await engine.start(Start("p", {}))
        (job,) = await take(engine, "a")
        done, failed = await asyncio.gather(
            outcome(engine.complete(job.key, NO_RESULT)),
            outcome(other.fail(job.key, retries=1, message="later", backoff_ms=600_000)),
        )

        lives = await engine.alive(started.instance_key)
        assert (done is None, isinstance(failed, JobGone)) == (not lives, not lives)
        assert isinstance(done, JobNotActive) == lives


@pytest.mark.req("EVO-20", "X-20")
async def test_a_held_job_is_handed_out_again_when_it_is_released_and_its_incident_is_gone(
    engine: EmbeddedEngine,
) -> None:
    instance = await running(engine, line("a"))
    (job,) = await take(engine, "a")
    await engine.fail(job.key, retries=0, message="the registry is closed")
    (incident,) = await engine.incidents([instance])
    held = await take(engine, "a", wait_ms=-1)

    await engine.release(job.key, retries=2)

    (again,) = await take(engine, "a")
    assert (incident.kind, incident.job_key, incident.message) == ("JOB_NO_RETRIES", job.key, "the registry is closed")
    assert held == []
    assert (again.key, again.retries) == (job.key, 2)
    assert await engine.incidents([instance]) == []


async def test_a_listeners_job_throws_no_error(engine: EmbeddedEngine) -> None:
    drawing = Drawing().start().task("a", listeners=listeners(("start", "before"))).end().flow("begin", "a", "end")
    await running(engine, drawing)
    (job,) = await take(engine, "before")

    with pytest.raises(JobNotActive, match="listener"):
        await engine.throw(job.key, code="NO", message="no")


async def test_a_poll_that_is_cancelled_locks_nothing(engine: EmbeddedEngine, dsn: str) -> None:
    await deploy(engine, line("a"))
    for _ in range(30):
        poll = asyncio.create_task(take(engine, "a"))
        started = asyncio.create_task(engine.start(Start("p", {})))
        await asyncio.wait([poll, started], return_when=asyncio.FIRST_COMPLETED)
        poll.cancel()
        await asyncio.wait([poll])
        await started
        if not poll.cancelled():
            await engine.complete(poll.result()[0].key, NO_RESULT)

    left = await value(dsn, "SELECT count(*) FROM verbworker_engine.job")
    taken: set[int] = set()
    async with asyncio.timeout(20):
        while len(taken) < left:
            taken |= {job.key for job in await take(engine, "a", 50, wait_ms=100)}
    assert len(taken) == left


async def test_a_stream_takes_a_job_only_when_it_is_asked_for(engine: EmbeddedEngine) -> None:
    await deploy(engine, line("a"))
    started = [(await engine.start(Start("p", {}))).instance_key for _ in range(3)]
    stream = engine.stream(Ask("a", "tests", 60_000, ()))
    first = await anext(stream)
    await stream.aclose()

    rest = await take(engine, "a", 5, wait_ms=-1)

    assert [first.process_instance_key, *(job.process_instance_key for job in rest)] == started


@pytest.mark.req("EVO-24")
async def test_who_waits_in_another_process_hears_of_a_job(engine: EmbeddedEngine, other: EmbeddedEngine) -> None:
    await deploy(engine, line("a"))
    poll = asyncio.create_task(take(other, "a"))
    await other.facts()

    started = await engine.start(Start("p", {}))

    assert [job.process_instance_key for job in await poll] == [started.instance_key]


async def test_jobs_are_found_though_every_connection_was_cut(engine: EmbeddedEngine, dsn: str) -> None:
    await deploy(engine, line("a"))
    poll = asyncio.create_task(take(engine, "a"))
    await engine.facts()
    await execute(
        dsn,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    async with embedded(dsn) as fresh:
        started = await fresh.start(Start("p", {}))
        found = await outcome(poll)
        if isinstance(found, EngineUnavailable):
            found = await take(engine, "a")

    assert isinstance(found, list)
    assert [job.process_instance_key for job in found] == [started.instance_key]


@pytest.mark.req("TOK-19")
async def test_an_engine_goes_on_when_its_database_comes_back_from_a_crash() -> None:
    with Postgres() as server:
        await migrate(server.dsn)
        async with embedded(server.dsn) as engine:
            instance = await running(engine, line("a", "b"))
            (job,) = await take(engine, "a")
            await asyncio.to_thread(server.restart_immediate)
            await until_it_works(lambda: engine.complete(job.key, NO_RESULT))
            (following,) = await until_it_works(lambda: take(engine, "b"))

    assert following.process_instance_key == instance


async def test_a_job_goes_to_those_who_ask_for_its_tenant(engine: EmbeddedEngine) -> None:
    await deploy(engine, line("a"))
    await engine.start(Start("p", {}, tenant_id="acme"))
    others = await take(engine, "a", wait_ms=-1)

    (job,) = await engine.activate(Ask("a", "tests", 60_000, (), ("<default>", "acme")), 5, WAIT_MS)

    assert others == []
    assert job.tenant_id == "acme"


@pytest.mark.req("TOK-22", "PRX-13")
async def test_an_element_outside_the_set_is_refused_by_its_id_and_line(engine: EmbeddedEngine) -> None:
    drawing = Drawing().start().end().flow("begin", "calc", "end")
    drawing.parts.append('<bpmn:scriptTask id="calc"/>')
    with pytest.raises(CommandInvalid, match=r"p\.bpmn:\d+: scriptTask 'calc' is a script, .*; make it a service"):
        await deploy(engine, drawing)

    with pytest.raises(CommandInvalid, match="none found"):
        await engine.start(Start("p", {}))


async def test_what_is_deployed_together_is_deployed_whole_or_not_at_all(engine: EmbeddedEngine) -> None:
    good = Resource("good.bpmn", line("a").xml())
    with pytest.raises(CommandInvalid):
        await engine.deploy([good, Resource("bad.bpmn", b"Dear Sir")])
    with pytest.raises(CommandInvalid, match="more than once"):
        await engine.deploy([good, Resource("twice.bpmn", line("b").xml())])
    with pytest.raises(CommandInvalid, match="at least one resource"):
        await engine.deploy([])

    with pytest.raises(CommandInvalid, match="none found"):
        await engine.start(Start("p", {}))


async def test_two_processes_that_deploy_the_same_bytes_make_one_version(
    engine: EmbeddedEngine, other: EmbeddedEngine
) -> None:
    resource = Resource("p.bpmn", line("a").xml())

    deployed = await asyncio.gather(*(who.deploy([resource]) for who in (engine, other) * 5))

    assert {(one.version, one.definition_key) for (one,) in deployed} == {(1, deployed[0][0].definition_key)}


async def test_variables_that_are_not_json_are_refused(engine: EmbeddedEngine) -> None:
    await running(engine, line("a"))
    (job,) = await take(engine, "a")

    with pytest.raises(CommandInvalid, match="cannot be written as JSON"):
        await engine.complete(job.key, JobResult(flags={"x": object()}))


@pytest.mark.req("TOK-19", "EVO-18")
async def test_ended_instances_are_kept_for_a_while_and_then_forgotten(dsn: str) -> None:
    async with embedded(dsn, run_timers=False) as engine:
        instance = await running(engine, line("a"), x=1)
        (job,) = await take(engine, "a")
        await engine.complete(job.key, NO_RESULT)
        kept = await value(dsn, "SELECT status FROM verbworker_engine.ended_instance WHERE instance_key = $1", instance)
        swept = await engine.timers.sweep()
        await EmbeddedPlace(dsn).moved(8 * 24 * 3600)
        later = await engine.timers.sweep()

    assert kept == "completed"
    assert (swept, later) == (0, 1)


async def test_a_database_that_is_not_there_is_an_engine_that_is_not_there() -> None:
    with pytest.raises(EngineUnavailable, match="cannot be reached"):
        async with EmbeddedEngine(Database("postgresql://127.0.0.1:1/none", size=1)):
            pass


async def test_cases_of_all_tenants_are_served_in_turn_at_every_step(engine: EmbeddedEngine) -> None:
    await deploy(engine, line("a", "b"))
    for tenant, cases in (("loud", 20), ("quiet", 2)):
        for _ in range(cases):
            await engine.start(Start("p", {TENANT_ID: tenant}))

    served: dict[str, list[object]] = {}
    for kind in ("a", "b"):
        for _ in range(5):
            (job,) = await take(engine, kind, wait_ms=-1)
            served.setdefault(kind, []).append(job.variables[TENANT_ID])
            await engine.complete(job.key, NO_RESULT)

    assert served == {kind: ["loud", "loud", "quiet", "loud", "quiet"] for kind in ("a", "b")}
