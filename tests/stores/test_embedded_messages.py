"""Messages of the embedded engine: who gets one, who waits for one, and what nobody took."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.databases import value
from tests.support.drawing import Drawing
from tests.support.embedded import EmbeddedPlace, embedded
from verbworker.engine import Ask, Resource, Signal, Start
from verbworker.engines.embedded.engine import EmbeddedEngine
from verbworker.job import Job
from verbworker.stores._database import Database

HOUR_MS = 3_600_000


@pytest.fixture
def place(dsn: str) -> EmbeddedPlace:
    return EmbeddedPlace(dsn)


@pytest.fixture
async def engine(dsn: str) -> AsyncIterator[EmbeddedEngine]:
    async with embedded(dsn) as engine:
        yield engine


def waiting(process: str = "p", *, header: str = "") -> Drawing:
    drawing = Drawing(process).start().catch("wait", message="letter").task("after").end()
    return drawing.task(f"unused{header}").flow("begin", "wait", "after", "end")


def started_by() -> Drawing:
    return Drawing("p").message_start("arrived", "letter").task("work").end().flow("arrived", "work", "end")


async def deploy(engine: EmbeddedEngine, *drawings: Drawing) -> None:
    await engine.deploy([Resource(f"{drawing.process}.bpmn", drawing.xml()) for drawing in drawings])


async def begin(engine: EmbeddedEngine, process: str = "p", key: str = "k", version: int = -1) -> int:
    return (await engine.start(Start(process, {"corr_key": key}, version=version))).instance_key


async def publish(
    engine: EmbeddedEngine, message_id: str, *, key: str = "k", ttl_ms: int = HOUR_MS, **variables: object
) -> None:
    await engine.publish(Signal("letter", key, message_id, ttl_ms, variables))


async def take(engine: EmbeddedEngine, kind: str = "after", limit: int = 50, wait_ms: int = -1) -> list[Job]:
    return await engine.activate(Ask(kind, "tests", 60_000_000, ()), limit, wait_ms)


async def count(place: EmbeddedPlace, table: str) -> int:
    return int(await value(place.dsn, f"SELECT count(*) FROM verbworker_engine.{table}"))


@pytest.mark.req("EMC-01", "EMC-09", "EMC-10", "X-18")
async def test_a_message_goes_by_its_key_and_brings_its_variables(engine: EmbeddedEngine, place: EmbeddedPlace) -> None:
    await deploy(engine, waiting())
    mine, _ = await begin(engine, key="mine"), await begin(engine, key="yours")

    await publish(engine, "m-1", key="mine", ttl_ms=0, orch_docs=True)

    (job,) = await take(engine)
    assert (job.process_instance_key, job.variables) == (mine, {"corr_key": "mine", "orch_docs": True})
    assert await count(place, "subscription") == 1


@pytest.mark.req("EMC-13", "X-11")
async def test_a_message_without_a_lifetime_is_for_those_who_wait_now(
    engine: EmbeddedEngine, place: EmbeddedPlace
) -> None:
    await deploy(engine, waiting())
    await publish(engine, "m-1", ttl_ms=0)
    await begin(engine)

    assert await take(engine) == []
    assert await count(place, "message") == 0


@pytest.mark.req("X-11", "X-17")
async def test_an_early_message_meets_the_wait_in_the_step_that_opens_it(
    engine: EmbeddedEngine, place: EmbeddedPlace
) -> None:
    await deploy(engine, waiting())
    await publish(engine, "m-1", orch_n=1)
    instance = await begin(engine)

    (job,) = await take(engine)
    assert (job.process_instance_key, job.variables["orch_n"]) == (instance, 1)
    assert await count(place, "subscription") == 0


async def test_early_messages_come_in_the_order_in_which_they_were_published(engine: EmbeddedEngine) -> None:
    await deploy(engine, waiting())
    for number in range(3):
        await publish(engine, f"m-{number}", orch_n=number)
    for _ in range(3):
        await begin(engine)

    assert [job.variables["orch_n"] for job in await take(engine)] == [0, 1, 2]


@pytest.mark.req("X-11")
async def test_a_message_that_has_expired_is_for_nobody(engine: EmbeddedEngine, place: EmbeddedPlace) -> None:
    await deploy(engine, waiting())
    await publish(engine, "m-1", ttl_ms=1000)
    await place.moved(2)
    await begin(engine)

    assert await take(engine) == []
    await engine.clockwork.sweep()
    assert await count(place, "message") == 0


@pytest.mark.req("X-12")
async def test_a_message_id_counts_once_while_it_is_kept_and_again_afterwards(
    engine: EmbeddedEngine, place: EmbeddedPlace
) -> None:
    await deploy(engine, waiting())
    await begin(engine)
    await publish(engine, "m-1", ttl_ms=60_000)
    await publish(engine, "m-1", ttl_ms=60_000)
    await begin(engine)
    while_kept = len(await take(engine))
    await place.moved(61)
    await publish(engine, "m-1", ttl_ms=60_000)

    assert while_kept == 1
    assert len(await take(engine)) == 1


async def test_a_message_without_an_id_is_never_a_repetition(engine: EmbeddedEngine) -> None:
    await deploy(engine, waiting())
    await publish(engine, "")
    await publish(engine, "")
    for _ in range(2):
        await begin(engine)

    assert len(await take(engine)) == 2


@pytest.mark.req("EMC-12", "X-14")
async def test_of_two_instances_with_one_key_one_gets_the_message(engine: EmbeddedEngine) -> None:
    await deploy(engine, waiting())
    first, _ = await begin(engine), await begin(engine)

    await publish(engine, "m-1")

    assert [job.process_instance_key for job in await take(engine)] == [first]


@pytest.mark.req("MSG-06")
async def test_a_process_gets_a_message_once_over_all_its_versions_and_other_processes_get_it_too(
    engine: EmbeddedEngine,
) -> None:
    await deploy(engine, waiting(), waiting("q"))
    await deploy(engine, waiting(header="2"))
    old, _, other = await begin(engine, version=1), await begin(engine), await begin(engine, "q")

    await publish(engine, "m-1")

    assert sorted(job.process_instance_key for job in await take(engine)) == [old, other]


async def test_a_process_that_comes_later_gets_a_message_that_another_had(engine: EmbeddedEngine) -> None:
    await deploy(engine, waiting(), waiting("q"))
    await begin(engine)
    await publish(engine, "m-1")
    later = await begin(engine, "q")
    again = await begin(engine)

    taken = [job.process_instance_key for job in await take(engine)]
    assert later in taken
    assert again not in taken


@pytest.mark.req("X-17", "X-18")
async def test_a_message_and_its_wait_never_miss_each_other(engine: EmbeddedEngine, place: EmbeddedPlace) -> None:
    await deploy(engine, waiting())
    async with embedded(place.dsn) as other:
        for number in range(40):
            await asyncio.gather(
                begin(engine, key=f"k-{number}"), publish(other, f"m-{number}", key=f"k-{number}", ttl_ms=HOUR_MS)
            )

    assert len(await take(engine)) == 40
    assert await count(place, "subscription") == 0


@pytest.mark.req("X-12", "TOK-17")
async def test_a_message_that_several_publish_at_once_works_once(engine: EmbeddedEngine, place: EmbeddedPlace) -> None:
    await deploy(engine, waiting())
    for _ in range(3):
        await begin(engine)
    async with embedded(place.dsn) as other:
        await asyncio.gather(*(publish(who, "m-1") for who in (engine, other) * 5))

    assert len(await take(engine)) == 1


@pytest.mark.req("EMC-11", "EMC-16")
async def test_an_interrupting_boundary_message_ends_the_task_and_its_job(
    engine: EmbeddedEngine, place: EmbeddedPlace
) -> None:
    drawing = Drawing().start().task("work").task("stopped").end("end", "end2").boundary("b", "work", message="letter")
    await deploy(engine, drawing.flow("begin", "work", "end").flow("b", "stopped", "end2"))
    await begin(engine)

    await publish(engine, "m-1")

    assert await take(engine, "work") == []
    assert len(await take(engine, "stopped")) == 1
    assert await count(place, "subscription") == 0


@pytest.mark.req("EMC-17")
async def test_a_boundary_message_that_interrupts_nothing_may_come_often(
    engine: EmbeddedEngine, place: EmbeddedPlace
) -> None:
    drawing = Drawing().start().task("work").task("noted").end("end", "end2")
    drawing.boundary("b", "work", message="letter", interrupting=False)
    await deploy(engine, drawing.flow("begin", "work", "end").flow("b", "noted", "end2"))
    await publish(engine, "m-1")
    await publish(engine, "m-2")
    await begin(engine)
    await publish(engine, "m-3")

    (work,) = await take(engine, "work")
    await engine.complete(work.key, {})
    assert len(await take(engine, "noted")) == 3
    assert await count(place, "subscription") == 0


@pytest.mark.req("EMC-23")
async def test_correlating_says_who_has_the_message_or_that_nobody_waits(engine: EmbeddedEngine) -> None:
    await deploy(engine, waiting())
    nobody = await engine.correlate("letter", "k", {})
    instance = await begin(engine)

    assert nobody is None
    assert await engine.correlate("letter", "k", {"orch_n": 1}) == instance
    assert await engine.correlate("letter", "k", {}) is None


async def test_a_message_starts_one_instance_per_key_at_a_time_and_the_next_when_that_has_ended(
    engine: EmbeddedEngine,
) -> None:
    await deploy(engine, started_by())
    await publish(engine, "m-1", orch_n=1)
    await publish(engine, "m-2", orch_n=2)
    await publish(engine, "m-3", key="other", orch_n=3)
    first = await take(engine, "work")
    await engine.complete(first[0].key, {})
    second = await take(engine, "work")

    assert [job.variables for job in first] == [{"orch_n": 1}, {"orch_n": 3}]
    assert [job.variables for job in second] == [{"orch_n": 2}]


async def test_a_message_without_a_key_starts_an_instance_each_time(engine: EmbeddedEngine) -> None:
    await deploy(engine, started_by())
    for number in range(3):
        await publish(engine, f"m-{number}", key="", ttl_ms=0)

    assert len(await take(engine, "work")) == 3


async def test_messages_of_one_key_that_come_at_once_start_one_instance(
    engine: EmbeddedEngine, place: EmbeddedPlace
) -> None:
    await deploy(engine, started_by())
    async with embedded(place.dsn) as other:
        await asyncio.gather(*(publish(who, f"{n}", ttl_ms=0) for n, who in enumerate((engine, other) * 5)))

    assert len(await take(engine, "work")) == 1


async def test_only_the_latest_version_is_started_by_messages(engine: EmbeddedEngine) -> None:
    await deploy(engine, started_by())
    await deploy(engine, waiting())
    await publish(engine, "m-1", ttl_ms=0)

    assert await take(engine, "work") == []


async def test_a_tenants_message_reaches_that_tenants_instances_alone(engine: EmbeddedEngine) -> None:
    await deploy(engine, waiting())
    await begin(engine)

    await engine.publish(Signal("letter", "k", "m-1", 0, {}, tenant_id="acme"))

    assert await take(engine) == []


async def test_a_chain_of_waits_takes_messages_that_came_before_it_began(engine: EmbeddedEngine) -> None:
    drawing = Drawing().start().catch("one", message="letter").catch("two", message="letter").task("after").end()
    await deploy(engine, drawing.flow("begin", "one", "two", "after", "end"))
    await publish(engine, "m-1", orch_one=1)
    await publish(engine, "m-2", orch_two=2)
    await begin(engine)

    (job,) = await take(engine)
    assert job.variables == {"corr_key": "k", "orch_one": 1, "orch_two": 2}


async def test_many_publish_at_once_through_few_connections_and_new_definitions(dsn: str) -> None:
    async with embedded(dsn) as engine:
        await deploy(engine, waiting())
        for number in range(12):
            await begin(engine, key=f"k-{number}")
    async with EmbeddedEngine(Database(dsn, size=2)) as narrow:
        await asyncio.gather(*(publish(narrow, f"m-{number}", key=f"k-{number}") for number in range(12)))

        assert len(await take(narrow)) == 12
