"""Incidents that the embedded engine raises are in the runbook in the same commit, and gone with the engine's."""

from collections.abc import AsyncIterator, Callable

import pytest

from tests.support.drawing import Drawing, listeners
from tests.support.entries import Book, told
from tests.support.frames import ENGINE
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Ask, Resource, Start, Started
from verbworker.job.job import Job
from verbworker.runbook.event import Event, Kind, describe
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.overview import Filter, Overview, Trouble
from verbworker.stores.database import Connection, Database

_WAIT_MS = 5_000  # a job is there at once; a busy machine may be slower


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


@pytest.fixture
async def engine(database: Database) -> AsyncIterator[EmbeddedEngine]:
    async with EmbeddedEngine(database, engine_id=ENGINE) as engine:
        yield engine


def without_a_way() -> Drawing:
    drawing = Drawing().start().task("decide").gateway("exclusive", "which").task("left").end()
    return drawing.flow("begin", "decide", "which").flow("which", "left", when="=orch_way").flow("left", "end")


def with_listener() -> Drawing:
    heard = listeners(("start", "heard"))
    return Drawing().start().task("work", listeners=heard).end().flow("begin", "work", "end")


def alone() -> Drawing:
    return Drawing().start().task("work").end().flow("begin", "work", "end")


async def begin(database: Database, engine: EmbeddedEngine, drawing: Drawing, **variables: object) -> tuple[Book, int]:
    """Start an entry on the embedded engine, pinned in the commit that starts it."""
    await engine.deploy([Resource("p.bpmn", drawing.xml())])
    book = await Book.open(database)

    async def pin(connection: Connection, started: object) -> None:
        (one,) = started  # type: ignore[misc]
        await Instances(database).pin_in(connection, {book.instance_uid: one})

    started: list[Started] = await engine.start_with([Start(drawing.process, variables)], pin)
    return book, started[0].instance_key


async def take(engine: EmbeddedEngine, kind: str) -> Job:
    (job,) = await engine.activate(Ask(kind, "tests", 60_000, ()), 1, _WAIT_MS)
    return job


async def throw_uncaught(engine: EmbeddedEngine) -> None:
    await engine.throw((await take(engine, "work")).key, code="too-late", message="the shop is closed")


async def find_no_way(engine: EmbeddedEngine) -> None:
    await engine.complete((await take(engine, "decide")).key, {"orch_way": False})


async def exhaust_listener(engine: EmbeddedEngine) -> None:
    await engine.fail((await take(engine, "heard")).key, retries=0, message="nothing listens")


CASES = [
    pytest.param(alone, throw_uncaught, "UNHANDLED_ERROR_EVENT", "work", "too-late", id="uncaught"),
    pytest.param(without_a_way, find_no_way, "CONDITION_ERROR", "which", "no condition holds", id="gateway"),
    pytest.param(with_listener, exhaust_listener, "EXECUTION_LISTENER_NO_RETRIES", "work", "nothing", id="listener"),
]


async def of_kind(book: Book, kind: Kind) -> list[Event]:
    return [event for event in await book.events() if event.kind is kind]


async def trouble_of(database: Database) -> list[Trouble]:
    return await Overview(database).troubles("default", without_entry=False)


@pytest.mark.parametrize(("drawing", "fault", "kind", "element", "words"), CASES)
async def test_what_the_engine_raises_parks_the_entry_in_the_same_commit(
    database: Database,
    engine: EmbeddedEngine,
    drawing: Callable[[], Drawing],
    fault: Callable[[EmbeddedEngine], object],
    kind: str,
    element: str,
    words: str,
) -> None:
    book, instance_key = await begin(database, engine, drawing())
    await fault(engine)  # type: ignore[misc]

    (incident,) = await engine.incidents([instance_key])
    (parked,) = await of_kind(book, Kind.PARKED)
    (raised,) = await of_kind(book, Kind.INCIDENT_RAISED)
    (trouble,) = await trouble_of(database)
    (listed,) = await Overview(database).page("default", Filter())
    assert (incident.kind, incident.element_id) == (kind, element)
    assert words in incident.message
    assert (await book.entry()).status == "parked"
    assert told(parked, "wait", "incident_key", "code", "element", "text") == {
        "wait": "incident",
        "incident_key": incident.incident_key,
        "code": kind,
        "element": element,
        "text": incident.message,
    }
    assert describe(raised) == f"{element} stopped: {kind}: {incident.message}"
    assert (trouble.incident_key, trouble.incident_type, trouble.incident_text) == (
        incident.incident_key,
        kind,
        incident.message,
    )
    assert f"waiting for an operator: {element}" in listed.progress.detailed
    assert [one.element_id for one in await engine.waits(instance_key)] == [element]


@pytest.mark.parametrize(("drawing", "fault", "kind", "element", "words"), CASES)
async def test_resolving_brings_the_entry_back(
    database: Database,
    engine: EmbeddedEngine,
    drawing: Callable[[], Drawing],
    fault: Callable[[EmbeddedEngine], object],
    kind: str,
    element: str,
    words: str,
) -> None:
    book, instance_key = await begin(database, engine, drawing())
    await fault(engine)  # type: ignore[misc]
    (incident,) = await engine.incidents([instance_key])

    await engine.set_variables(instance_key, {"orch_way": True})
    if incident.job_key is None:
        await engine.resolve_incident(incident.incident_key)
    else:
        await engine.release(incident.job_key, retries=1, incident_key=incident.incident_key)

    (resolved,) = await of_kind(book, Kind.INCIDENT_RESOLVED)
    assert (await book.entry()).status == "executing"
    assert describe(resolved) == f"{element} may continue"
    assert (await book.kinds())[-2:] == ["IncidentResolved", "Resumed"]
    assert await trouble_of(database) == []
    assert await engine.incidents([instance_key]) == []


async def test_an_instance_that_stops_at_its_first_step_is_told_too(database: Database, engine: EmbeddedEngine) -> None:
    drawing = Drawing().start().gateway("exclusive", "which").end()
    book, instance_key = await begin(
        database, engine, drawing.flow("begin", "which").flow("which", "end", when="=orch_way"), orch_way=False
    )

    assert [one.element_id for one in await engine.incidents()] == ["which"]
    assert (await book.kinds()) == ["DurableTaskStarted", "IncidentRaised", "Parked"]
    assert [one.type for one in await engine.waits(instance_key)] == ["EXCLUSIVE_GATEWAY"]


async def test_an_incident_that_comes_again_is_told_again(database: Database, engine: EmbeddedEngine) -> None:
    book, instance_key = await begin(database, engine, without_a_way())
    await find_no_way(engine)
    (first,) = await engine.incidents([instance_key])

    await engine.resolve_incident(first.incident_key)

    (second,) = await engine.incidents([instance_key])
    (trouble,) = await trouble_of(database)
    assert second.incident_key != first.incident_key
    assert (await book.kinds()).count("IncidentRaised") == 2
    assert (await book.entry()).status == "parked"
    assert trouble.incident_key == second.incident_key


async def test_a_cancelled_instance_is_not_said_to_go_on(database: Database, engine: EmbeddedEngine) -> None:
    book, instance_key = await begin(database, engine, without_a_way())
    await find_no_way(engine)

    await engine.cancel(instance_key)

    assert "IncidentResolved" not in await book.kinds()
    assert await engine.waits(instance_key) == []


async def test_a_message_that_is_waited_for_is_a_wait(database: Database, engine: EmbeddedEngine) -> None:
    drawing = Drawing().start().catch("papers", message="letter").end().flow("begin", "papers", "end")
    _, instance_key = await begin(database, engine, drawing, corr_key="k-1")

    (wait,) = await engine.waits(instance_key)

    assert (wait.element_id, wait.type, wait.message_name, wait.correlation_key) == (
        "papers",
        "INTERMEDIATE_CATCH_EVENT",
        "letter",
        "k-1",
    )
