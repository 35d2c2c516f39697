"""Incidents that the embedded engine raises are in the runbook in the same commit, and gone with the engine's."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.support.drawing import Drawing, listeners
from tests.support.engine_cases import (
    CASES,
    EngineCase,
    alone,
    begin_case,
    declare_flags,
    find_no_way,
    take,
    without_a_way,
)
from tests.support.entries import StoredEntry, told
from tests.support.frames import ENGINE, INCIDENT, claimed, make_delivery, make_instance, working
from tests.support.weaving import woven
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.errors import EngineUnavailable, InvocationInvalid
from verbworker.job.job import Job
from verbworker.job.outcome import NO_RESULT
from verbworker.runbook.event import Event, Kind, Wait, describe
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.overview import Filter, Overview, Trouble
from verbworker.stores.database import Database
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.upkeep.reconciler import Reconciler
from verbworker.work.upkeep.resolutions import Resolution, Resolutions
from verbworker.work.upkeep.search_reconciler import SearchReconciler

DEPLOYED = """
INSERT INTO verbworker.process_deployment (
  engine_id, definition_key, process_id, version, verb, resource, authored_sha256, woven, woven_sha256, deployed_by)
VALUES ($1, 77, $2, 1, 'kyc.open-case', 'r', sha256($3), $3, sha256($3), 'tests')
"""


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


@pytest.fixture
async def engine(database: Database) -> AsyncIterator[EmbeddedEngine]:
    async with EmbeddedEngine(database, engine_id=ENGINE) as engine:
        yield engine


async def of_kind(stored: StoredEntry, kind: Kind) -> list[Event]:
    return [event for event in await stored.events() if event.kind is kind]


async def trouble_of(database: Database) -> list[Trouble]:
    return await Overview(database).troubles("default", without_entry=False)


@pytest.mark.req("EVT-15", "ADP-11")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_what_the_engine_raises_parks_the_entry_in_the_same_commit(
    case: EngineCase, database: Database, engine: EmbeddedEngine
) -> None:
    stored, instance_key = await begin_case(database, engine, case.drawing())
    await case.fault(engine)

    (incident,) = await engine.incidents([instance_key])
    (parked,) = await of_kind(stored, Kind.PARKED)
    (raised,) = await of_kind(stored, Kind.INCIDENT_RAISED)
    (trouble,) = await trouble_of(database)
    (listed,) = await Overview(database).page("default", Filter())
    assert (incident.kind, incident.element_id) == (case.kind, case.element)
    assert case.words in incident.message
    assert (await stored.entry()).status == "parked"
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
    stored, instance_key = await begin_case(database, engine, case.drawing())
    await case.fault(engine)
    (incident,) = await engine.incidents([instance_key])

    await engine.set_variables(instance_key, {"orch_way": True})
    if incident.job_key is None:
        await engine.resolve_incident(incident.incident_key)
    else:
        await engine.release(incident.job_key, retries=1, incident_key=incident.incident_key)

    (resolved,) = await of_kind(stored, Kind.INCIDENT_RESOLVED)
    assert (await stored.entry()).status == "executing"
    assert describe(resolved) == f"{case.element} may continue"
    assert (await stored.kinds())[-2:] == ["IncidentResolved", "Resumed"]
    assert await trouble_of(database) == []
    assert await engine.incidents([instance_key]) == []


async def test_an_instance_that_stops_at_its_first_step_is_told_too(database: Database, engine: EmbeddedEngine) -> None:
    drawing = Drawing().start().gateway("exclusive", "which").end()
    stored, instance_key = await begin_case(
        database, engine, drawing.flow("begin", "which").flow("which", "end", when="=orch_way"), orch_way=False
    )

    assert [one.element_id for one in await engine.incidents()] == ["which"]
    assert (await stored.kinds()) == ["DurableTaskStarted", "IncidentRaised", "Parked"]
    assert [one.type for one in await engine.waits(instance_key)] == ["EXCLUSIVE_GATEWAY"]


async def test_a_listener_of_the_process_stops_at_the_process(database: Database, engine: EmbeddedEngine) -> None:
    drawing = alone()
    drawing.process_listeners = listeners(("start", "opened"))
    stored, instance_key = await begin_case(database, engine, drawing)
    job = await take(engine, "opened")

    await engine.fail(job.key, retries=0, message="no")

    (incident,) = await engine.incidents([instance_key])
    (raised,) = await of_kind(stored, Kind.INCIDENT_RAISED)
    assert (job.element_id, incident.element_id) == (drawing.process, drawing.process)
    assert describe(raised).startswith(f"{drawing.process} stopped: EXECUTION_LISTENER_NO_RETRIES")


async def test_a_resolution_after_which_it_stops_at_once_again_says_so(
    database: Database, engine: EmbeddedEngine
) -> None:
    stored, _ = await begin_case(database, engine, without_a_way())
    await find_no_way(engine)
    (trouble,) = await trouble_of(database)
    resolutions = Resolutions(database, engine, owner=uuid4())

    answer = await resolutions.resolve(trouble, Resolution("ada", "try"))

    (again,) = await trouble_of(database)
    assert not answer.done
    assert answer.sentence == f"it tried again and stopped at which once more: {again.incident_text}"
    assert (await stored.entry()).status == "parked"


@pytest.mark.parametrize("key", [None, "k-1"])
async def test_a_resolution_is_answered_when_it_is_known_whether_it_stops_again(
    database: Database, engine: EmbeddedEngine, key: str | None
) -> None:
    drawing = Drawing().start().catch("rest", message="paper", listeners=listeners(("start", "heard"))).end()
    _, instance_key = await begin_case(database, engine, drawing.flow("begin", "rest", "end"))
    await engine.complete((await take(engine, "heard")).key, NO_RESULT)
    (trouble,) = await trouble_of(database)
    await engine.set_variables(instance_key, {"corr_key": key})

    async with asyncio.TaskGroup() as tasks:
        resolving = tasks.create_task(
            Resolutions(database, engine, owner=uuid4()).resolve(trouble, Resolution("a", "b"))
        )
        await asyncio.sleep(0.3)
        if await engine.incidents([instance_key]) == []:
            await engine.complete((await take(engine, "heard")).key, NO_RESULT)
    answer = resolving.result()

    assert (answer.done, "stopped at rest once more" in answer.sentence) == (bool(key), not key)


async def test_a_gateway_without_a_way_goes_on_with_a_flag_that_is_set(
    database: Database, engine: EmbeddedEngine
) -> None:
    stored, _ = await begin_case(database, engine, without_a_way())
    await find_no_way(engine)
    (trouble,) = await trouble_of(database)
    resolutions = Resolutions(database, engine, owner=uuid4())

    answer = await resolutions.resolve(trouble, Resolution("ada", "mended", flags={"orch_way": True}))

    (asked,) = await of_kind(stored, Kind.RESOLVE_REQUESTED)
    assert answer.done
    assert await take(engine, "left")
    assert asked.detail["flags"] == {"orch_way": True}
    assert describe(asked) == "ada let it continue after it had stopped: mended (orch_way = true)"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"domain_payload": "x"}, "domain_payload is not a flag"),
        ({"orch_other": True}, "the deployed model reads no flag orch_other; it reads orch_way"),
        ({"orch_way": [1]}, "the flag orch_way must be a text, a whole number, true or false"),
    ],
)
async def test_only_flags_that_the_model_reads_can_be_set(
    database: Database, engine: EmbeddedEngine, flags: dict[str, Any], words: str
) -> None:
    drawing = without_a_way()
    stored, _ = await begin_case(database, engine, drawing)
    await database.execute(DEPLOYED, ENGINE, drawing.process, drawing.xml())
    await database.execute(
        "UPDATE verbworker.workflow_instance SET definition_key = 77 WHERE instance_uid = $1", stored.instance_uid
    )
    await find_no_way(engine)
    (trouble,) = await trouble_of(database)

    with pytest.raises(InvocationInvalid, match=words):
        await Resolutions(database, engine, owner=uuid4()).resolve(trouble, Resolution("ada", "mended", flags=flags))
    assert await of_kind(stored, Kind.RESOLVE_REQUESTED) == []


CONTRACT = {
    "orch_way": {"type": "boolean", "values": [], "initial": False},
    "orch_kind": {"type": "enum", "values": ["a", "b", "c"], "initial": "a"},
    "orch_count": {"type": "integer", "values": [], "initial": 0},
}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"orch_kind": "z"}, "the flag orch_kind must be one of a, b, c"),
        ({"orch_kind": 1}, "the flag orch_kind must be one of a, b, c"),
        ({"orch_way": "yes"}, "the flag orch_way must be of type boolean, not str"),
        ({"orch_count": True}, "the flag orch_count must be of type integer, not bool"),
        (
            {"orch_other": True},
            "the contract of kyc.open-case declares no flag orch_other; it declares orch_count, orch_kind, orch_way",
        ),
        ({"orch_way": True, "orch_kind": "b"}, ""),
    ],
)
async def test_only_values_that_the_contract_has_can_be_set(
    database: Database, engine: EmbeddedEngine, flags: dict[str, Any], words: str
) -> None:
    drawing = without_a_way()
    stored, _ = await begin_case(database, engine, drawing)
    # The name of every flag is in the model: what it reads is another check.
    content = drawing.xml() + b"<!-- orch_kind orch_count orch_other -->"
    await declare_flags(database, stored, replace(woven(), content=content, process_id=drawing.process), CONTRACT)
    await find_no_way(engine)
    (trouble,) = await trouble_of(database)
    resolved = Resolutions(database, engine, owner=uuid4()).resolve(trouble, Resolution("ada", "mended", flags=flags))

    if not words:
        assert (await resolved).done
        return
    with pytest.raises(InvocationInvalid) as refused:
        await resolved
    assert str(refused.value) == words
    assert await of_kind(stored, Kind.RESOLVE_REQUESTED) == []


async def test_an_incident_that_comes_again_is_told_again(database: Database, engine: EmbeddedEngine) -> None:
    stored, instance_key = await begin_case(database, engine, without_a_way())
    await find_no_way(engine)
    (first,) = await engine.incidents([instance_key])

    await engine.resolve_incident(first.incident_key)

    (second,) = await engine.incidents([instance_key])
    (trouble,) = await trouble_of(database)
    assert second.incident_key != first.incident_key
    assert (await stored.kinds()).count("IncidentRaised") == 2
    assert (await stored.entry()).status == "parked"
    assert trouble.incident_key == second.incident_key


async def test_a_cancelled_instance_is_not_said_to_go_on(database: Database, engine: EmbeddedEngine) -> None:
    stored, instance_key = await begin_case(database, engine, without_a_way())
    await find_no_way(engine)

    await engine.cancel(instance_key)

    assert "IncidentResolved" not in await stored.kinds()
    assert await engine.waits(instance_key) == []


@pytest.mark.req("ADP-11")
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


async def hold_job(database: Database, engine: EmbeddedEngine, stored: StoredEntry) -> Job:
    """Stop a verb as an executor does: its frame first, then the engine's job."""
    job = await take(engine, "work")
    instance = make_instance(instance_uid=stored.instance_uid, entry_id=stored.entry_id)
    async with working(database) as frames:
        await frames.boot(name="ann", host="a", pid=11)
        await frames.pop_incident(await claimed(frames, make_delivery(job, instance)), INCIDENT)
    await engine.fail(job.key, retries=0, message="no customer")
    return job


async def test_a_held_verb_is_one_incident_that_has_the_key_of_the_engines(
    database: Database, engine: EmbeddedEngine
) -> None:
    stored, instance_key = await begin_case(database, engine, alone())
    job = await hold_job(database, engine, stored)

    (incident,) = await engine.incidents([instance_key])
    (trouble,) = await trouble_of(database)
    assert (trouble.state, trouble.fail_code, trouble.job_key) == ("incident", INCIDENT.code, job.key)
    assert (trouble.incident_key, trouble.incident_type) == (incident.incident_key, "JOB_NO_RETRIES")
    assert (await stored.kinds()).count("IncidentRaised") == 1

    answer = await Resolutions(database, engine, owner=uuid4()).resolve(trouble, Resolution("ada", "mended", 2))

    assert (answer.done, await engine.incidents(), await trouble_of(database)) == (True, [], [])
    assert (await stored.entry()).status == "executing"
    assert (await stored.kinds())[-3:] == ["ResolveRequested", "IncidentResolved", "Resumed"]
    again = await take(engine, "work")
    assert (again.key, again.retries) == (job.key, 2)


async def test_an_incident_that_the_engine_alone_lost_leaves_the_frame_held(
    database: Database, engine: EmbeddedEngine
) -> None:
    stored, _ = await begin_case(database, engine, alone())
    job = await hold_job(database, engine, stored)

    await engine.release(job.key, retries=1)  # in the engine, past us

    (trouble,) = await trouble_of(database)
    assert (trouble.state, trouble.incident_key) == ("incident", None)
    assert (await stored.entry()).status == "parked"


async def test_the_incident_of_an_undo_belongs_to_the_frame_of_the_undo(
    database: Database, engine: EmbeddedEngine
) -> None:
    stored, instance_key = await begin_case(database, engine, alone())
    job = await take(engine, "work")
    record = await stored.value(
        """INSERT INTO verbworker.compensation_record (
          tenant_id, entry_id, instance_uid, step_seq, verb, undo, element_id, element_instance_key, job_key, state)
        VALUES ('default', $1, $2, 1, 'kyc.book', 'kyc.unbook', 'book', 77, $3, 'held') RETURNING record_id""",
        *(stored.entry_id, stored.instance_uid, job.key),
    )
    undo = stored.token(77, Wait.INCIDENT, engine_id=f"{ENGINE}/undo", job_key=record, instance_key=instance_key)
    await stored.park(undo)

    await engine.fail(job.key, retries=0, message="undoing kyc.book")

    (incident,) = await engine.incidents([instance_key])
    (trouble,) = await trouble_of(database)
    assert (trouble.engine_id, trouble.incident_key) == (f"{ENGINE}/undo", incident.incident_key)


async def test_a_round_of_the_reconciler_records_incidents_of_before_the_upgrade(
    database: Database, engine: EmbeddedEngine
) -> None:
    stored, instance_key = await begin_case(database, engine, without_a_way())
    await find_no_way(engine)
    (incident,) = await engine.incidents([instance_key])
    await database.execute("DELETE FROM verbworker.parked_token")
    cancelling = Cancellation(database, Dispatches(database, engine_id=ENGINE, owner=uuid4()), engine)
    search = SearchReconciler(database, engine, Reconciler(database, engine, cancelling), between_looks=timedelta(0))

    rounds = [await search.look() for _ in range(3)]

    (trouble,) = await trouble_of(database)
    assert (rounds, trouble.incident_key) == ([1, 0, 0], incident.incident_key)
    assert stored.entry_id == trouble.entry_id


async def test_a_resolution_that_the_engine_did_not_get_is_shown_again(
    database: Database, engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, instance_key = await begin_case(database, engine, alone())
    await hold_job(database, engine, stored)
    (trouble,) = await trouble_of(database)
    resolutions = Resolutions(database, engine, owner=uuid4())
    cancelling = Cancellation(database, Dispatches(database, engine_id=ENGINE, owner=uuid4()), engine)
    search = SearchReconciler(database, engine, Reconciler(database, engine, cancelling))

    async def refuse(*_: object, **__: object) -> None:
        raise EngineUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(engine, "release", refuse)
        missed = await resolutions.resolve(trouble, Resolution("ada", "mended"))
    await search.look()
    (shown,) = await trouble_of(database)
    answer = await resolutions.resolve(shown, Resolution("ada", "mended"))

    assert (missed.done, shown.state, answer.done) == (False, "failed", True)
    assert await engine.incidents([instance_key]) == []
    assert (await stored.entry()).status == "executing"
