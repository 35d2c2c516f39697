"""Who may look, claim, release and decide: each attack on the rules of a gate, on every surface that people use."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from uuid import UUID

import pytest

from tests.support.apart import run_apart
from tests.support.api_server import ApiServer
from tests.support.command import Said, verbworker
from tests.support.gate_people import KEYS, credentials, decisions, park, person
from tests.support.site import Visitor, site
from tests.support.talking import Scripted, make_registry
from verbworker import Client, Person
from verbworker.app.settings import Settings
from verbworker.errors import NotAllowed, RequestConflict
from verbworker.repl.session import ReplSession
from verbworker.repl.shapes import shapes_of
from verbworker.stores.database import Database
from verbworker.work.gates.decide import Gates

pytestmark = pytest.mark.attack("auth")

ISSUER = "https://login.example"
ADA, NAMESAKE = Person("ada", None, ISSUER, "u-1"), Person("ada", None, ISSUER, "u-2")
RENAMED = Person("ada.lovelace", None, ISSUER, "u-1")
ELSEWHERE = Person("ada", None, "https://other.example", "u-1")
ONLY_REVIEWERS = "only reviewer may decide at review, and"


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


@pytest.fixture
async def client(dsn: str) -> AsyncIterator[Client]:
    async with Client(Settings.model_validate({"dsn": dsn, "engine": "embedded"})) as client:
        yield client


# ---- the audience ---------------------------------------------------------------------------------------------------

OUTSIDE = {
    "carl": f"{ONLY_REVIEWERS} carl has the roles clerk",
    "sven": f"{ONLY_REVIEWERS} sven has the roles clerk, supervisor",
    "rosa": "rosa may only look: a change needs a role other than reader",
    "nina": "nina may only look: a change needs a role other than reader",
}


@pytest.mark.parametrize("act", ["decide", "claim"])
@pytest.mark.parametrize("name", OUTSIDE)
async def test_who_is_not_of_the_audience_neither_decides_nor_claims(
    database: Database, client: Client, name: str, act: str
) -> None:
    _, gate = await park(database, audience=["reviewer"])
    acting = client.act_for(person(name))

    with pytest.raises(NotAllowed) as refused:
        await (acting.decide(gate, "approve") if act == "decide" else acting.claim(gate, wait=0))

    assert str(refused.value) == OUTSIDE[name]
    assert await decisions(database) == 0
    assert (await client.gate(gate)).claimed_by is None


@pytest.mark.parametrize("name", ["rita", "olga"])
async def test_who_is_of_the_audience_or_has_no_declared_roles_decides(
    database: Database, client: Client, name: str
) -> None:
    _, gate = await park(database, audience=["reviewer", "lead"])

    decided = await client.act_for(person(name)).decide(gate, "approve")

    assert decided.verdict is not None
    assert decided.verdict.by == name


async def test_where_undeclared_roles_are_refused_an_audience_needs_a_role(dsn: str, database: Database) -> None:
    _, gate = await park(database, audience=["reviewer"])
    settings = Settings.model_validate({"dsn": dsn, "engine": "embedded", "unknown_roles": "refuse"})
    async with Client(settings, by="olga") as strict:
        with pytest.raises(NotAllowed, match=f"{ONLY_REVIEWERS} the roles of olga are not declared"):
            await strict.decide(gate, "approve")

    assert await decisions(database) == 0


@pytest.mark.parametrize("act", ["start", "cancel", "send", "resolve", "decide", "claim", "release"])
@pytest.mark.parametrize("name", ["rosa", "nina"])
async def test_a_reader_changes_nothing(database: Database, client: Client, name: str, act: str) -> None:
    stored, gate = await park(database)
    reader = client.act_for(person(name))
    acts: dict[str, Callable[[], Awaitable[object]]] = {
        "start": lambda: reader.start("kyc.open-case", {}),
        "cancel": lambda: reader.cancel(stored.entry_id, "enough"),
        "send": lambda: reader.send("documents-received", "case-1"),
        "resolve": lambda: reader.resolve(stored.entry_id, "again"),
        "decide": lambda: reader.decide(gate, "approve"),
        "claim": lambda: reader.claim(gate, wait=0),
        "release": lambda: reader.release(gate, wait=0),
    }

    with pytest.raises(NotAllowed, match=f"{name} may only look"):
        await acts[act]()

    assert len((await reader.gates()).gates) == 1  # looking is allowed
    assert [event.kind.value for event in await stored.events()] == ["DurableTaskStarted", "Parked"]


# ---- claims ---------------------------------------------------------------------------------------------------------


async def test_a_claim_of_another_is_released_by_a_supervisor_only(database: Database, client: Client) -> None:
    _, gate = await park(database)
    await client.act_for(person("rita")).claim(gate, wait=0)

    with pytest.raises(NotAllowed, match="only rita or a supervisor may release review, and carl has the roles clerk"):
        await client.act_for(person("carl")).release(gate, wait=0)
    assert (await client.gate(gate)).claimed_by == "rita"
    released = await client.act_for(person("sven")).release(gate, wait=0)

    assert released.claimed_by is None


async def test_ones_own_claim_needs_no_supervisor(database: Database, client: Client) -> None:
    _, gate = await park(database)
    rita = client.act_for(person("rita"))
    await rita.claim(gate, wait=0)

    assert (await rita.release(gate, wait=0)).claimed_by is None


@pytest.mark.parametrize("other", [NAMESAKE, ELSEWHERE], ids=["another subject", "another issuer"])
async def test_two_people_of_one_name_are_two(database: Database, client: Client, other: Person) -> None:
    _, gate = await park(database)
    await client.act_for(ADA).claim(gate, wait=0)

    with pytest.raises(RequestConflict, match="claimed by ada, another person of that name"):
        await client.act_for(other).decide(gate, "approve")
    with pytest.raises(NotAllowed, match="only ada or a supervisor may release"):
        await client.act_for(Person("ada", frozenset({"clerk"}), other.issuer, other.subject)).release(gate, wait=0)


async def test_a_person_who_is_renamed_keeps_the_claim(database: Database, client: Client) -> None:
    _, gate = await park(database)
    await client.act_for(ADA).claim(gate, wait=0)

    decided = await client.act_for(RENAMED).decide(gate, "approve")

    assert decided.verdict is not None
    assert decided.verdict.by == "ada.lovelace"


# ---- four eyes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["decide", "claim"])
@pytest.mark.parametrize(
    "decider", [ADA, RENAMED, Person("ada")], ids=["the same", "renamed since", "by a key of that name"]
)
async def test_who_asked_does_not_decide(database: Database, client: Client, decider: Person, act: str) -> None:
    _, gate = await park(database, asked_by="ada", asked_by_id=ADA.person_id, four_eyes=True)
    acting = client.act_for(decider)

    with pytest.raises(NotAllowed) as refused:
        await (acting.decide(gate, "approve") if act == "decide" else acting.claim(gate, wait=0))

    assert str(refused.value) == f"{decider.name} asked for this case, so another person must decide at review"
    assert await decisions(database) == 0


@pytest.mark.parametrize("decider", [NAMESAKE, ELSEWHERE, Person("bob")])
async def test_another_than_who_asked_decides(database: Database, client: Client, decider: Person) -> None:
    _, gate = await park(database, asked_by="ada", asked_by_id=ADA.person_id, four_eyes=True)

    assert (await client.act_for(decider).decide(gate, "approve")).verdict is not None


@pytest.mark.parametrize("first", ["check", "review"])
@pytest.mark.parametrize("decider", [ADA, RENAMED], ids=["the same", "renamed since"])
async def test_who_decided_one_of_two_gates_does_not_decide_the_other(
    database: Database, client: Client, first: str, decider: Person
) -> None:
    stored, check = await park(database, gate="check")
    _, review = await park(database, element=2, beside=stored, distinct_from=["check"])
    gates = {"check": check, "review": review}
    then = "review" if first == "check" else "check"
    await client.act_for(ADA).decide(gates[first], "approve")

    with pytest.raises(NotAllowed) as refused:
        await client.act_for(decider).decide(gates[then], "approve")

    assert str(refused.value) == f"{decider.name} decided at {first}, so another person must decide at {then}"
    assert (await client.act_for(Person("bob")).decide(gates[then], "approve")).verdict is not None


async def test_two_decisions_at_the_same_time_are_not_both_of_one_person(database: Database, client: Client) -> None:
    for number in range(0, 20, 2):
        stored, check = await park(database, gate="check", element=number + 1)
        _, review = await park(database, element=number + 2, beside=stored, distinct_from=["check"])
        both = (client.act_for(ADA).decide(gate, "approve") for gate in (check, review))
        answers = await asyncio.gather(*both, return_exceptions=True)

        assert sorted(isinstance(answer, NotAllowed) for answer in answers) == [False, True]


# ---- every surface --------------------------------------------------------------------------------------------------


@pytest.fixture
def gate(dsn: str) -> UUID:
    async def make() -> UUID:
        async with Database(dsn, size=2) as database:
            return (await park(database, audience=["reviewer"]))[1]

    return run_apart(make())


def count(dsn: str) -> int:
    async def read() -> int:
        async with Database(dsn, size=2) as database:
            return await decisions(database)

    return run_apart(read())


@pytest.mark.parametrize(("roles", "words"), [("clerk", "has the roles clerk"), ("reader", "may only look")])
@pytest.mark.parametrize("act", [("decide", "approve"), ("claim",)], ids=["decide", "claim"])
def test_the_command_line_asks_for_the_role(
    dsn: str, gate: UUID, tmp_path: Path, roles: str, words: str, act: tuple[str, ...]
) -> None:
    said = _gates(dsn, tmp_path, act[0], str(gate), *act[1:], VERBWORKER_ROLES=roles)

    assert said.code == 1
    assert words in said.sentence()
    assert count(dsn) == 0


def test_the_command_line_decides_with_the_role(dsn: str, gate: UUID, tmp_path: Path) -> None:
    said = _gates(dsn, tmp_path, "decide", str(gate), "approve", VERBWORKER_ROLES="clerk, reviewer")

    assert (said.code, count(dsn)) == (0, 1), said.err


def _gates(dsn: str, folder: Path, *words: str, **settings: str) -> Said:
    return verbworker("gates", *words, directory=folder, dsn=dsn, **settings)


async def test_the_repl_asks_for_the_role(dsn: str, gate: UUID, tmp_path: Path) -> None:
    settings = Settings.model_validate({"dsn": dsn, "engine": "embedded", "roles": "clerk"})
    registry = make_registry(tmp_path / "contracts")
    async with Client(settings, registry, by="carl") as client:
        session = ReplSession(client, shapes_of(registry), Scripted(), past=list)
        answer = await session.evaluate(f"decide {gate} approve")

    assert answer.code == 1
    assert f"{ONLY_REVIEWERS} carl has the roles clerk" in str(answer.complaint)


@pytest.fixture
async def api(dsn: str) -> AsyncIterator[ApiServer]:
    given = credentials(scopes=["messages", "read", "start", "decide", "cancel", "resolve"])
    server = ApiServer(dsn, credentials=given)
    async with server.serving():
        yield server


async def test_the_api_asks_for_the_role(database: Database, api: ApiServer) -> None:
    _, gate = await park(database, audience=["reviewer"])
    answers = {}
    for name in OUTSIDE:
        async with api.caller(KEYS[name][0]) as caller:
            for act, sent in (("claim", {}), ("decision", {"decision": "approve"})):
                answers[name, act] = await caller.post(f"/v1/gates/{gate}/{act}", json=sent)

    refused = {place: answer.json()["detail"] for place, answer in answers.items() if answer.status_code == 403}
    assert refused == {(name, act): OUTSIDE[name] for name in OUTSIDE for act in ("claim", "decision")}
    assert await decisions(database) == 0


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/entries", {"verb": "x.y", "args": {}}),
        ("/v1/messages", {"message_name": "m", "correlation_key": "k"}),
        ("/messages", {"message_name": "m", "message_id": "1", "correlation_key": "k", "tenant_id": "default"}),
        ("/api/workflow/message", {"messageName": "m", "correlationKey": "k"}),
        (f"/v1/entries/{UUID(int=1)}/cancel", {"reason": "x"}),
        (f"/v1/incidents/{UUID(int=1)}/resolution", {"reason": "x"}),
        (f"/v1/gates/{UUID(int=1)}/release", {}),
    ],
)
async def test_a_reader_changes_nothing_by_the_api(api: ApiServer, path: str, body: dict[str, object]) -> None:
    async with api.caller(KEYS["rosa"][0]) as rosa:
        answer = await rosa.post(path, json=body)
        look = await rosa.get("/v1/entries")

    assert (answer.status_code, look.status_code) == (403, 200)
    assert "rosa may only look" in answer.text


def test_the_console_asks_for_the_role(dsn: str, gate: UUID, tmp_path: Path) -> None:
    with site(tmp_path, dsn, VERBWORKER_CONSOLE_CREDENTIALS=credentials()) as console:
        said = {}
        for name in OUTSIDE:
            visitor = Visitor(console)
            assert visitor.send("/login", {"key": KEYS[name][0], "next": "/"}).status == 303
            for act, form in (("decide", {"decision": "approve"}), ("claim", {})):
                answer = visitor.fill("/gates", f"/gates/{gate}/{act}", form)
                said[name, act] = (answer.status, answer.sentence)
            headers = {"Content-Type": "application/json", "X-Api-Key": KEYS[name][0]}
            for path in (f"/gates/{gate}/decide", f"/api/gates/{gate}/review"):
                answer = console.ask("POST", path, json.dumps({"decision": "approve"}).encode(), headers)
                assert (answer.status, json.loads(answer.text)["error"]) == (403, OUTSIDE[name])
        rita = Visitor(console)
        rita.send("/login", {"key": KEYS["rita"][0], "next": "/"})
        decided = rita.fill("/gates", f"/gates/{gate}/decide", {"decision": "approve"})

    assert {code for code, _ in said.values()} == {403}
    assert said["carl", "decide"][1] == f"Only{OUTSIDE['carl'][4:]}."
    assert said["rosa", "claim"][1].startswith("Rosa may only look")
    assert (decided.status, count(dsn)) == (303, 1)


async def test_gates_of_before_roles_stay_as_they_were(database: Database) -> None:
    _, gate = await park(database)

    assert (await Gates(database).decide(gate, "approve", by="anyone", tenant_id="default")).verdict is not None
