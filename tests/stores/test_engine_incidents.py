"""Incidents that the embedded engine raises are in the runbook in the same commit, and gone with the engine's."""

from collections.abc import AsyncIterator

import pytest

from tests.support.drawing import Drawing
from tests.support.engine_cases import CASES, EngineCase, begin_case, find_no_way, without_a_way
from tests.support.entries import Book, told
from tests.support.frames import ENGINE
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.runbook.event import Event, Kind, describe
from verbworker.stores.cases.overview import Filter, Overview, Trouble
from verbworker.stores.database import Database


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


@pytest.fixture
async def engine(database: Database) -> AsyncIterator[EmbeddedEngine]:
    async with EmbeddedEngine(database, engine_id=ENGINE) as engine:
        yield engine


async def of_kind(book: Book, kind: Kind) -> list[Event]:
    return [event for event in await book.events() if event.kind is kind]


async def trouble_of(database: Database) -> list[Trouble]:
    return await Overview(database).troubles("default", without_entry=False)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_what_the_engine_raises_parks_the_entry_in_the_same_commit(
    case: EngineCase, database: Database, engine: EmbeddedEngine
) -> None:
    book, instance_key = await begin_case(database, engine, case.drawing())
    await case.fault(engine)

    (incident,) = await engine.incidents([instance_key])
    (parked,) = await of_kind(book, Kind.PARKED)
    (raised,) = await of_kind(book, Kind.INCIDENT_RAISED)
    (trouble,) = await trouble_of(database)
    (listed,) = await Overview(database).page("default", Filter())
    assert (incident.kind, incident.element_id) == (case.kind, case.element)
    assert case.words in incident.message
    assert (await book.entry()).status == "parked"
    assert told(parked, "wait", "incident_key", "code", "element", "text") == {
        "wait": "incident",
        "incident_key": incident.incident_key,
        "code": case.kind,
        "element": case.element,
        "text": incident.message,
    }
    assert describe(raised) == f"{case.element} stopped: {case.kind}: {incident.message}"
    assert (trouble.incident_key, trouble.incident_type, trouble.incident_text) == (
        incident.incident_key,
        case.kind,
        incident.message,
    )
    assert f"waiting for an operator: {case.element}" in listed.progress.detailed
    assert [one.element_id for one in await engine.waits(instance_key)] == [case.element]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_resolving_brings_the_entry_back(case: EngineCase, database: Database, engine: EmbeddedEngine) -> None:
    book, instance_key = await begin_case(database, engine, case.drawing())
    await case.fault(engine)
    (incident,) = await engine.incidents([instance_key])

    await engine.set_variables(instance_key, {"orch_way": True})
    if incident.job_key is None:
        await engine.resolve_incident(incident.incident_key)
    else:
        await engine.release(incident.job_key, retries=1, incident_key=incident.incident_key)

    (resolved,) = await of_kind(book, Kind.INCIDENT_RESOLVED)
    assert (await book.entry()).status == "executing"
    assert describe(resolved) == f"{case.element} may continue"
    assert (await book.kinds())[-2:] == ["IncidentResolved", "Resumed"]
    assert await trouble_of(database) == []
    assert await engine.incidents([instance_key]) == []


async def test_an_instance_that_stops_at_its_first_step_is_told_too(database: Database, engine: EmbeddedEngine) -> None:
    drawing = Drawing().start().gateway("exclusive", "which").end()
    book, instance_key = await begin_case(
        database, engine, drawing.flow("begin", "which").flow("which", "end", when="=orch_way"), orch_way=False
    )

    assert [one.element_id for one in await engine.incidents()] == ["which"]
    assert (await book.kinds()) == ["DurableTaskStarted", "IncidentRaised", "Parked"]
    assert [one.type for one in await engine.waits(instance_key)] == ["EXCLUSIVE_GATEWAY"]


async def test_an_incident_that_comes_again_is_told_again(database: Database, engine: EmbeddedEngine) -> None:
    book, instance_key = await begin_case(database, engine, without_a_way())
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
    book, instance_key = await begin_case(database, engine, without_a_way())
    await find_no_way(engine)

    await engine.cancel(instance_key)

    assert "IncidentResolved" not in await book.kinds()
    assert await engine.waits(instance_key) == []


async def test_a_message_that_is_waited_for_is_a_wait(database: Database, engine: EmbeddedEngine) -> None:
    drawing = Drawing().start().catch("papers", message="letter").end().flow("begin", "papers", "end")
    _, instance_key = await begin_case(database, engine, drawing, corr_key="k-1")

    (wait,) = await engine.waits(instance_key)

    assert (wait.element_id, wait.type, wait.message_name, wait.correlation_key) == (
        "papers",
        "INTERMEDIATE_CATCH_EVENT",
        "letter",
        "k-1",
    )
