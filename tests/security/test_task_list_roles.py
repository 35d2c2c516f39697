"""The engine's task list names people only: their roles are looked up, and two of one name have the least of both."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.support.console_server import ConsoleServer, key_file
from tests.support.eventually import eventually
from tests.support.frames import ENGINE
from tests.support.gate_cases import review_registry
from tests.support.gate_people import decisions, park
from verblint.contracts.contract import Gate
from verbworker.contract.person import Person
from verbworker.errors import InvocationInvalid, NotAllowed
from verbworker.job.job import Job
from verbworker.model.native_tasks import COMPLETING
from verbworker.stores.cases.gates import GateStore
from verbworker.stores.cases.instances import Instances
from verbworker.stores.database import Database
from verbworker.stores.people.people import People
from verbworker.testing.memory import MemoryEngine
from verbworker.work.gates.user_tasks import UserTaskJobs
from verbworker.work.listeners.job_handler import ListenerJobs
from verbworker.work.starts.duplicate_instances import InstanceIdentity

pytestmark = pytest.mark.attack("auth")

ISSUER = "https://login.example"
REVIEWER, CLERK = frozenset({"reviewer"}), frozenset({"clerk"})


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


async def complete(
    database: Database, gate: UUID, assignee: str, variables: dict[str, Any] | None = None, **options: Any
) -> None:
    """Complete a task in the task list, as its assignee does."""
    engine = MemoryEngine(ENGINE)
    registry = review_registry(gate=Gate("review", "Review", ("approve", "reject"), "reviewer"))
    identity = InstanceIdentity(Instances(database), engine)
    tasks = UserTaskJobs(registry, engine, database, ListenerJobs(database, engine, identity), **options)
    job = Job(
        key=77,
        type=COMPLETING,
        retries=1,
        activated_ms=0,
        timeout_ms=0,
        process_instance_key=1,
        element_instance_key=1,
        process_definition_key=1,
        process_version=1,
        process_id="hall-review",
        element_id="Review",
        tenant_id="default",
        headers={"io.camunda.zeebe:assignee": assignee, "io.camunda.zeebe:userTaskKey": "9"},
        variables={"decision": "approve", **(variables or {})},
    )
    async with database.transaction() as connection:
        held = await GateStore(database).hold_in(connection, gate, None)
        await tasks.decide(connection, job, held)


KNOWN = {
    "a clerk": [Person("ada", CLERK, ISSUER, "u-1")],
    "a reader": [Person("ada", frozenset({"reader"}), ISSUER, "u-1")],
    "nobody's role": [Person("ada", frozenset(), ISSUER, "u-1")],
    "one of two": [Person("ada", REVIEWER, ISSUER, "u-1"), Person("ada", CLERK, ISSUER, "u-2")],
    "a role of another day": [Person("ada", REVIEWER, ISSUER, "u-1"), Person("ada", CLERK, ISSUER, "u-1")],
    "the name of another": [Person("ada.l", REVIEWER, ISSUER, "u-1"), Person("ada", CLERK, ISSUER, "u-2")],
}


@pytest.mark.parametrize("people", KNOWN.values(), ids=KNOWN)
async def test_the_task_list_does_not_lend_a_role(database: Database, people: list[Person]) -> None:
    _, gate = await park(database, audience=["reviewer"])
    for one in people:
        await People(database).note("default", one)

    with pytest.raises(NotAllowed):
        await complete(database, gate, "ada")

    assert await decisions(database) == 0


async def test_who_asked_does_not_decide_in_the_task_list(database: Database) -> None:
    ada = Person("ada.lovelace", None, ISSUER, "u-1")
    await People(database).note("default", ada)
    _, gate = await park(database, asked_by="ada", asked_by_id=ada.person_id, four_eyes=True)

    with pytest.raises(NotAllowed, match=r"ada\.lovelace asked for this case, so another person must decide"):
        await complete(database, gate, "ada.lovelace")


async def test_an_unknown_assignee_is_refused_where_roles_are_required(database: Database) -> None:
    _, gate = await park(database, audience=["reviewer"])

    with pytest.raises(NotAllowed, match="the roles of ada are not declared"):
        await complete(database, gate, "ada", refuse_unknown=True)


@pytest.mark.parametrize("people", [[], [Person("ada", REVIEWER, ISSUER, "u-1")]], ids=["unknown", "a reviewer"])
async def test_a_reviewer_decides_and_so_does_who_never_logged_in(database: Database, people: list[Person]) -> None:
    _, gate = await park(database, audience=["reviewer"])
    for one in people:
        await People(database).note("default", one)

    await complete(database, gate, "ada")

    assert await decisions(database) == 1


SUM = [{"name": "sum", "type": "amount", "required": True, "maximum": 100}]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "the input sum is missing"),
        ({"inputs": {"sum": "1000"}}, "the input sum must be at most 100"),
        ({"inputs": {"sun": "10"}}, "there is no input 'sun'"),
        ({"inputs": "sum=10"}, "the variable inputs must be an object"),
    ],
)
async def test_the_task_list_is_refused_inputs_that_do_not_fit(
    database: Database, given: dict[str, Any], words: str
) -> None:
    _, gate = await park(database, inputs=SUM)

    with pytest.raises(InvocationInvalid, match=words):
        await complete(database, gate, "ada", given)

    assert await decisions(database) == 0


async def test_the_task_list_brings_inputs(database: Database) -> None:
    _, gate = await park(database, inputs=SUM)
    await complete(database, gate, "ada", {"inputs": {"sum": 10}})
    stored = await database.fetchrow("SELECT inputs FROM verbworker.gate_decision")

    assert stored is not None
    assert json.loads(stored["inputs"]) == {"sum": "10"}


async def test_a_variable_called_inputs_is_nothing_to_a_gate_without_them(database: Database) -> None:
    _, gate = await park(database)
    await complete(database, gate, "ada", {"inputs": "of another form"})

    assert await decisions(database) == 1


# ---- keys that change -----------------------------------------------------------------------------------------------


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "credentials.json"
    key_file(path, ["ann", "bob"], ann=["reviewer"])
    return path


async def log_in(server: ConsoleServer, name: str = "ann") -> None:
    async with server.browser() as browser:
        await server.log_in(browser, name)


async def is_refused(database: Database, gate: UUID, **options: Any) -> bool:
    try:
        await complete(database, gate, "ann", **options)
    except NotAllowed:
        return True
    return False


CHANGED: dict[str, tuple[list[str], dict[str, list[str]]]] = {
    "another role": (["ann", "bob"], {"ann": ["clerk"]}),
    "a reader now": (["ann", "bob"], {"ann": ["reader"]}),
    "no role": (["ann", "bob"], {"ann": []}),
    "no key": (["bob"], {}),
}


@pytest.mark.parametrize("is_running", [True, False], ids=["while it runs", "while it is down"])
@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
async def test_a_key_with_other_roles_lends_the_old_ones_no_more(
    database: Database, dsn: str, keys: Path, change: tuple[list[str], dict[str, list[str]]], is_running: bool
) -> None:
    _, gate = await park(database, audience=["reviewer"])
    server, (names, roles) = ConsoleServer(dsn, keys), change
    async with server.serving():
        await log_in(server)
        if is_running:
            key_file(keys, names, **roles)
            await eventually(lambda: _has_changed(database))
    if not is_running:
        key_file(keys, names, **roles)
        async with server.serving():
            await eventually(lambda: _has_changed(database))

    assert await is_refused(database, gate)
    assert await decisions(database) == 0


async def _has_changed(database: Database) -> bool:
    row = await database.fetchrow("SELECT roles FROM verbworker.person WHERE name = 'ann'")
    assert row is not None
    return list(row["roles"] or ()) != ["reviewer"]


async def test_a_key_without_roles_has_none_declared_whatever_it_had_before(
    database: Database, dsn: str, keys: Path
) -> None:
    _, gate = await park(database, audience=["lead"])
    server = ConsoleServer(dsn, keys)
    async with server.serving():
        await log_in(server)
        key_file(keys, ["ann", "bob"])
        await log_in(server)

    assert await is_refused(database, gate, refuse_unknown=True)
    assert not await is_refused(database, gate)


async def test_a_name_that_moves_from_a_key_to_an_issuer_has_the_roles_of_the_issuer(
    database: Database, dsn: str, keys: Path
) -> None:
    _, gate = await park(database, audience=["lead"])
    server = ConsoleServer(dsn, keys)
    async with server.serving():
        await log_in(server)
        await People(database).note("default", Person("ann", frozenset({"lead"}), ISSUER, "u-1"))
        before = await is_refused(database, gate)
        key_file(keys, ["bob"])
        await eventually(lambda: _is_retired(database))

    assert (before, await is_refused(database, gate)) == (True, False)


async def _is_retired(database: Database) -> bool:
    row = await database.fetchrow("SELECT roles FROM verbworker.person WHERE name = 'ann' AND issuer = 'api-key'")
    assert row is not None
    return row["roles"] is not None and not row["roles"]
