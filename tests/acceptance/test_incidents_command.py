"""`verbworker incidents` as a person meets it, on the embedded engine: found by its id, explained, and resolved."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.command import Said, verbworker
from tests.support.engine_cases import CASES, EngineCase, begin_case, declare_flags, find_no_way, without_a_way
from tests.support.frames import ENGINE
from tests.support.weaving import woven
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.runbook.event import Kind
from verbworker.stores.database import Database


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


@pytest.fixture
async def engine(database: Database) -> AsyncIterator[EmbeddedEngine]:
    async with EmbeddedEngine(database, engine_id=ENGINE) as engine:
        yield engine


@pytest.fixture
def run(dsn: str, tmp_path: Path) -> Callable[..., Said]:
    settings = {"VERBWORKER_ENGINE": "embedded", "VERBWORKER_ENGINE_ID": ENGINE}

    def run_command(*words: str, **more: str) -> Said:
        return verbworker(*words, directory=tmp_path, dsn=dsn, **settings, **more)

    return run_command


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_what_the_engine_raises_is_listed_explained_and_resolved(
    case: EngineCase, database: Database, engine: EmbeddedEngine, run: Callable[..., Said]
) -> None:
    stored, instance_key = await begin_case(database, engine, case.drawing())
    await case.fault(engine)
    (incident,) = await engine.incidents([instance_key])

    (entry,) = json.loads(run("runbook", "list", "--json").out)["entries"]
    (listed,) = json.loads(run("incidents", "list", "--json").out)["incidents"]
    beginning = listed["incident_id"][:8]
    operate = {"VERBWORKER_OPERATE_URL": "https://camunda.example/operate/"}
    shown = json.loads(run("incidents", "show", beginning, "--json", **operate).out)
    people = run("incidents", "show", beginning)
    await engine.set_variables(instance_key, {"orch_way": True})
    resolved = run("incidents", "resolve", beginning, "--reason", "mended", "--by", "ada", "--json")
    again = run("incidents", "resolve", beginning, "--reason", "mended")

    assert (entry["status"], case.element in entry["progress"]) == ("parked", True)
    assert (listed["kind"], listed["element_id"], listed["why"]) == (case.kind, case.element, incident.message)
    assert listed["incident_key"] == incident.incident_key
    assert shown["operate_url"] == f"https://camunda.example/operate/processes/{instance_key}"
    assert (people.code, incident.message in people.out) == (0, True)
    assert f"verbworker incidents resolve {listed['incident_id']}" in people.out
    assert (resolved.code, json.loads(resolved.out)["by"]) == (0, "ada")
    assert (again.code, "no open incident" in again.err) == (1, True)
    assert (await stored.entry()).status == "executing"
    (asked,) = [event for event in await stored.events() if event.kind is Kind.RESOLVE_REQUESTED]
    assert (asked.detail["by"], asked.detail["reason"]) == ("ada", "mended")
    assert await engine.incidents() == []
    assert await case.goes_on(engine)


async def test_an_entry_names_its_only_incident_and_an_unknown_one_is_a_no(
    database: Database, engine: EmbeddedEngine, run: Callable[..., Said]
) -> None:
    case = CASES[1]
    stored, _ = await begin_case(database, engine, case.drawing())
    await case.fault(engine)

    by_entry = run("incidents", "show", str(stored.entry_id), "--json")
    told = run("runbook", "show", str(stored.entry_id))
    unknown = run("incidents", "show", "8b1f6a52-0d0e-4c55-9a6e-3f2a7c1d9e40")
    nonsense = run("incidents", "show", "zzz")

    assert (by_entry.code, json.loads(by_entry.out)["kind"]) == (0, case.kind)
    assert f"verbworker incidents show {stored.entry_id}" in told.out
    assert (unknown.code, nonsense.code) == (1, 2)


async def test_a_flag_is_set_to_a_value_of_the_contract_or_not_at_all(
    database: Database, engine: EmbeddedEngine, run: Callable[..., Said]
) -> None:
    drawing = without_a_way()
    stored, _ = await begin_case(database, engine, drawing)
    content = drawing.xml() + b"<!-- orch_kind -->"
    flags = {
        "orch_way": {"type": "boolean", "values": [], "initial": False},
        "orch_kind": {"type": "enum", "values": ["a", "b", "c"], "initial": "a"},
    }
    await declare_flags(database, stored, replace(woven(), content=content, process_id=drawing.process), flags)
    await find_no_way(engine)

    resolve = ("incidents", "resolve", str(stored.entry_id), "--reason", "mended", "--set")
    unknown = run(*resolve, "orch_kind=z")
    resolved = run(*resolve, "orch_way=true", "--set", "orch_kind=b")

    assert (unknown.code, unknown.sentence()) == (1, "verbworker: the flag orch_kind must be one of a, b, c")
    assert resolved.code == 0
