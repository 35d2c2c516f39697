"""The HTTP API: a whole case by requests, refusals as problems, tenants apart, streams that survive a restart."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from openapi_spec_validator import validate

from tests.support.api_server import MESSAGE_KEY, OTHER_KEY, READ_KEY, ApiServer, read_stream
from tests.support.command import verbworker
from tests.support.databases import value
from tests.support.embedded_service import LETTER, TENANT, VERB, Workshop, workshop
from tests.support.entries import INSTANCE_KEY, StoredEntry
from tests.support.frames import ENGINE
from verbworker.engine.protocol import EngineIncident
from verbworker.runbook.event import Wait
from verbworker.stores.cases.incidents import Incidents
from verbworker.stores.database import Database

ONE = {"verb": VERB, "args": {"name": "one"}}


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[ApiServer]:
    server = ApiServer(dsn)
    async with server.serving():
        yield server


@pytest.fixture
async def ann(server: ApiServer) -> AsyncIterator[httpx.AsyncClient]:
    async with server.caller() as caller:
        yield caller


@pytest.fixture
async def shop(dsn: str) -> AsyncIterator[Workshop]:
    async with workshop(dsn) as shop:
        yield shop


def problem(answer: httpx.Response) -> tuple[int, str]:
    """Its status and words, given that it is a problem as RFC 9457 has it."""
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert (told["status"], told["type"]) == (answer.status_code, "about:blank")
    return answer.status_code, told["detail"]


async def follow(
    caller: httpx.AsyncClient,
    entry_id: str,
    most: int = 1000,
    *,
    behind: int | None = None,
    begun: asyncio.Event | None = None,
) -> list[dict[str, Any]]:
    headers = {} if behind is None else {"Last-Event-ID": str(behind)}
    async with caller.stream("GET", f"/v1/entries/{entry_id}/events/stream", headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        if begun is not None:
            begun.set()
        return await read_stream(answer, most)


def shape(value: Any) -> Any:
    """The names and kinds of everything in an answer, without the values."""
    match value:
        case dict():
            return {name: shape(inner) for name, inner in value.items()}
        case list():
            return [shape(inner) for inner in value]
        case str() if value[:2] == "20" and "T" in value:
            return "time" if datetime.fromisoformat(value).tzinfo else "no time"
    return type(value).__name__


async def send(caller: httpx.AsyncClient, name: str) -> httpx.Response:
    message = {"message_name": LETTER, "message_id": f"m-{name}", "correlation_key": name, "tenant_id": TENANT}
    return await caller.post("/messages", json={**message, "payload": {}})


def command(dsn: str, folder: Path, *words: str) -> Any:
    said = verbworker(
        *words, "--json", directory=folder, dsn=dsn, VERBWORKER_TENANT=TENANT, VERBWORKER_ENGINE="embedded"
    )
    assert said.code == 0, said.err
    return json.loads(said.out)


async def test_a_whole_case_by_requests_is_told_as_the_command_line_tells_it(
    dsn: str, shop: Workshop, ann: httpx.AsyncClient, tmp_path: Path
) -> None:
    async with shop.working():
        started = await ann.post("/v1/entries", json=ONE, headers={"Idempotency-Key": "r-1"})
        entry_id = started.json()["entry_id"]
        following = asyncio.create_task(follow(ann, entry_id))
        await shop.waits(entry_id, at="letter")
        sent = await send(ann, "one")
        await shop.waits(entry_id, at="review")
        (waiting,) = (await ann.get("/v1/gates", params={"entry_id": entry_id})).json()["gates"]
        decided = await ann.post(f"/v1/gates/{waiting['token_id']}/decision", json={"decision": "yes"})
        repeated = await ann.post(f"/v1/gates/{waiting['token_id']}/decision", json={"decision": "yes"})
        again = await ann.post(f"/v1/gates/{entry_id}/decision", json={"decision": "no"})
        told = await following
        await shop.ends(entry_id)

    assert (started.status_code, started.headers["location"]) == (201, f"/v1/entries/{entry_id}")
    assert (started.json()["asked_by"], started.json()["request_key"]) == ("ann", "r-1")
    assert (sent.status_code, sent.json()) == (202, {"message_id": "m-one"})
    assert (decided.status_code, decided.json()["verdict"]["by"]) == (200, "ann")
    assert (repeated.status_code, repeated.json()["verdict"]["at"]) == (200, decided.json()["verdict"]["at"])
    assert problem(again)[0] == 409
    read = (await ann.get(f"/v1/entries/{entry_id}")).json()
    assert (read["status"], read["outcome"]) == ("completed", {"first": 1, "second": "done"})
    events = (await ann.get(f"/v1/entries/{entry_id}/events")).json()
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert told == events
    assert command(dsn, tmp_path, "runbook", "show", entry_id) == read
    assert command(dsn, tmp_path, "runbook", "events", entry_id) == events
    assert command(dsn, tmp_path, "runbook", "list") == (await ann.get("/v1/entries")).json()
    gates = (await ann.get("/v1/gates", params={"closed": True})).json()
    assert command(dsn, tmp_path, "gates", "list", "--all") == gates


async def test_a_repeated_decision_is_the_first_one_only_with_the_same_inputs(
    dsn: str, server: ApiServer, ann: httpx.AsyncClient
) -> None:
    form = {"decisions": ["pay"], "inputs": [{"name": "limit", "type": "amount"}, {"name": "sure", "type": "yes/no"}]}
    async with Database(dsn, size=2) as database:
        stored = await StoredEntry.open(database, tenant_id=TENANT)
        await stored.park(stored.token(kind=Wait.HUMAN_GATE, tenant_id=TENANT, gate="review", detail=form))

    async def decide(inputs: dict[str, Any]) -> httpx.Response:
        return await ann.post(f"/v1/gates/{stored.entry_id}/decision", json={"decision": "pay", "inputs": inputs})

    made = await decide({"limit": 12, "sure": "yes"})
    same = await decide({"sure": True, "limit": "12", "unset": None})
    others = [await decide(inputs) for inputs in ({"limit": "13", "sure": True}, {"limit": "12"}, {}, {"limt": "12"})]

    assert (made.status_code, made.json()["verdict"]["inputs"]) == (200, {"limit": "12", "sure": True})
    assert (same.status_code, same.json()["verdict"]) == (200, made.json()["verdict"])
    assert [problem(other)[0] for other in others] == [409] * 4


async def test_what_commands_and_requests_do_is_told_by_the_same_models(
    dsn: str, shop: Workshop, ann: httpx.AsyncClient, tmp_path: Path
) -> None:
    def run(*words: str) -> Any:
        return command(dsn, tmp_path, *words)

    async def request(path: str, body: dict[str, Any]) -> Any:
        answer = await ann.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    by_hand, by_http = [(await ann.post("/v1/entries", json=ONE | {"args": {"name": n}})).json() for n in ("a", "b")]
    async with shop.working():
        for entry in (by_hand, by_http):
            await shop.waits(entry["entry_id"], at="letter")
        sent = await asyncio.to_thread(run, "message", "send", LETTER, "--key", "a")
        posted = await request("/v1/messages", {"message_name": LETTER, "correlation_key": "b"})
        for entry in (by_hand, by_http):
            await shop.waits(entry["entry_id"], at="review")
        decided = await asyncio.to_thread(run, "gates", "decide", by_hand["entry_id"], "yes")
        ruled = await request(f"/v1/gates/{by_http['entry_id']}/decision", {"decision": "yes"})
        for entry in (by_hand, by_http):
            await shop.ends(entry["entry_id"])
    third, fourth = [(await ann.post("/v1/entries", json=ONE)).json()["entry_id"] for _ in range(2)]
    cancelled = await asyncio.to_thread(run, "runbook", "cancel", third, "--reason", "twice")
    ended = await request(f"/v1/entries/{fourth}/cancel", {"reason": "twice"})

    assert shape(sent) == shape(posted) == {"message_id": "str", "is_new": "bool"}
    assert shape(decided) == shape(ruled)
    assert shape(cancelled) == shape(ended)
    page = run("runbook", "list", "--limit", "3")
    assert page == (await ann.get("/v1/entries", params={"limit": 3})).json()
    rest = {"limit": 3, "cursor": page["next"]}
    assert (
        run("runbook", "list", "--limit", "3", "--cursor", page["next"])
        == (await ann.get("/v1/entries", params=rest)).json()
    )
    stuck = (await ann.get("/v1/entries", params={"stuck_for": 3600})).json()
    assert run("runbook", "list", "--stuck", "3600") == stuck == {"entries": [], "next": None}


async def test_a_message_is_taken_by_the_api_as_by_its_client(
    dsn: str, server: ApiServer, ann: httpx.AsyncClient
) -> None:
    letter = {"message_name": LETTER, "correlation_key": "one", "message_id": "m-1", "payload": {"page": 1}}
    first, again = [await ann.post("/v1/messages", json=letter) for _ in range(2)]
    other = await ann.post("/v1/messages", json={**letter, "payload": {"page": 2}})
    unnamed = {name: value for name, value in letter.items() if name != "message_id"}
    by_key = await ann.post("/v1/messages", json=unnamed, headers={"Idempotency-Key": "m-1"})
    wrong = await ann.post("/v1/messages", json={**letter, "tenant_id": "others"})
    empty = await ann.post("/v1/messages", json={**letter, "correlation_key": ""})
    both = await ann.post("/v1/messages", json={**letter, "message_id": "m-2", "payload_bytes": "AA=="})
    traced = {"workflow_id": "w-1", "correlation_id": "c-1", "causation_id": "m-0", "payload_bytes": "AP8="}
    opaque = await ann.post("/v1/messages", json={**unnamed, "payload": None, "message_id": "m-3", **traced})
    async with server.caller(READ_KEY) as board:
        refused = await board.post("/v1/messages", json=letter)

    assert [(one.status_code, one.json()) for one in (first, again, by_key)] == [
        (202, {"message_id": "m-1", "is_new": True}),
        (202, {"message_id": "m-1", "is_new": False}),
        (202, {"message_id": "m-1", "is_new": False}),
    ]
    assert problem(other)[0] == 409
    assert (problem(wrong)[0], wrong.json()["fields"]) == (422, {"tenant_id": "extra inputs are not permitted"})
    assert (problem(empty)[0], list(empty.json()["fields"])) == (422, ["correlation_key"])
    assert (problem(both)[0], opaque.status_code) == (422, 202)
    stored = "SELECT (workflow_id, correlation_id, causation_id, payload) FROM verbworker.inbox_message"
    row = await value(dsn, f"{stored} WHERE message_id = 'm-3'")
    assert tuple(row) == ("w-1", "c-1", "m-0", b"\x00\xff")
    assert problem(refused)[0] == 403


async def test_a_key_makes_a_repeated_start_the_same(ann: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "r-1"}
    answers = await asyncio.gather(*(ann.post("/v1/entries", json=ONE, headers=key) for _ in range(5)))
    other = await ann.post("/v1/entries", json={"verb": VERB, "args": {"name": "two"}}, headers=key)
    without = await ann.post("/v1/entries", json=ONE)

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["entry_id"] for answer in answers}) == 1
    assert problem(other)[0] == 409
    assert "r-1" in other.json()["detail"]
    assert without.json()["entry_id"] != answers[0].json()["entry_id"]


NOWHERE = f"/v1/entries/{uuid4()}"
WRONG: list[tuple[str, str, object, int, str]] = [
    ("POST", "/v1/entries", {"verb": "shop.cas"}, 422, "did you mean shop.case?"),
    ("POST", "/v1/entries", {"verb": VERB}, 422, "name"),
    ("POST", "/v1/entries", {"verb": VERB, "args": {"name": "a\x00b"}}, 422, "cannot be kept"),
    ("POST", "/v1/entries", {"verb": f"({VERB})"}, 422, "there is no verb"),
    ("POST", "/v1/entries", {"verb": VERB, "arg": {}}, 422, "invalid"),
    ("POST", "/v1/entries", {"args": {}}, 422, "invalid"),
    ("POST", "/v1/entries", b"{", 422, "not JSON at line 1, column 2"),
    ("POST", "/v1/entries", b"", 422, "invalid"),
    ("POST", "/v1/entries", b'{"verb": "shop.case", "args": {"name": "a", "name": "b"}}', 422, "name"),
    ("POST", "/v1/entries", b'{"verb": "shop.case", "args": {"name": NaN}}', 422, "NaN"),
    ("GET", "/v1/entries?status=done", None, 422, "invalid"),
    ("GET", "/v1/entries?cursor=x", None, 422, "the cursor is invalid"),
    ("GET", "/v1/entries?limit=0", None, 422, "invalid"),
    ("GET", "/v1/entries?text=%00", None, 422, "invalid"),
    ("GET", "/v1/entries?stuck_for=5&verb=x", None, 422, "combined"),
    ("GET", "/v1/entries/seven", None, 422, "invalid"),
    ("GET", NOWHERE, None, 404, "has no entry"),
    ("GET", f"{NOWHERE}/events", None, 404, "has no entry"),
    ("GET", f"{NOWHERE}/events/stream", None, 404, "has no entry"),
    ("POST", f"{NOWHERE}/cancel", {"reason": "x"}, 404, "there is no entry"),
    ("POST", f"{NOWHERE}/cancel", {"reason": " "}, 422, "the reason is empty"),
    ("POST", f"{NOWHERE}/cancel", {"reason": "a\x00b"}, 422, "cannot be kept"),
    ("POST", f"/v1/gates/{uuid4()}/decision", {"decision": "yes"}, 404, "no gate"),
    ("POST", f"/v1/gates/{uuid4()}/decision", {"reason": "yes"}, 422, "invalid"),
    ("POST", "/v1/entries", b'{"verb": }', 422, "the body cannot be read: not JSON at line 1, column 10"),
    ("POST", "/v1/messages", b'{\n  "a": 1,', 422, "the body cannot be read: not JSON at line 2, column 10"),
    ("POST", "/v1/entries", b"", 422, "body"),
    ("GET", "/v1/nothing", None, 404, "Not Found"),
    ("GET", "/v2", None, 404, "Not Found"),
    ("DELETE", "/nothing/else", None, 404, "Not Found"),
    ("DELETE", "/v1/entries", None, 405, "Method Not Allowed"),
]


async def test_what_is_wrong_is_said_as_a_problem(ann: httpx.AsyncClient) -> None:
    for method, path, body, status, words in WRONG:
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        answer = await ann.request(method, path, content=content, headers={"Content-Type": "application/json"})

        assert (problem(answer)[0], words in answer.text) == (status, True), (method, path, body, answer.text)
    blank = await ann.post("/v1/entries", json=ONE, headers={"Idempotency-Key": ""})
    assert problem(blank)[0] == 422
    form = await ann.post("/v1/entries", data={"verb": VERB})
    assert problem(form)[0] == 415
    assert (await ann.get("/v1/entries")).json() == {"entries": [], "next": None}


FIELDS: list[tuple[object, dict[str, str]]] = [
    ({"verb": "shop.cas"}, {"verb": "there is no verb shop.cas; did you mean shop.case?"}),
    ({"verb": VERB}, {"args.name": "the argument name is missing"}),
    (
        {"verb": VERB, "args": {"name": "a", "nmae": "b"}},
        {"args.nmae": "there is no argument 'nmae' (did you mean name?)"},
    ),
]


async def test_what_does_not_fit_a_verb_is_told_field_by_field(ann: httpx.AsyncClient) -> None:
    answers = [await ann.post("/v1/entries", json=body) for body, _ in FIELDS]

    assert [(problem(answer)[0], answer.json()["fields"]) for answer in answers] == [(422, told) for _, told in FIELDS]


async def test_a_mistyped_parameter_is_refused_and_not_ignored(ann: httpx.AsyncClient) -> None:
    mistyped = await ann.get("/v1/entries", params={"statsu": "parked"})
    foreign = await ann.get("/v1/incidents", params={"zzz": "1"})
    post = await ann.post("/v1/entries", params={"verb": "x"}, json=ONE)

    assert (problem(mistyped)[0], mistyped.json()["fields"]) == (
        422,
        {"statsu": "is no parameter of this request; did you mean status?"},
    )
    assert (problem(foreign)[0], foreign.json()["fields"]) == (422, {"zzz": "is no parameter of this request"})
    assert problem(post)[0] == 422
    assert (await ann.get("/v1/entries")).json()["entries"] == []


async def test_a_method_that_a_path_does_not_have_is_answered_with_those_it_has(ann: httpx.AsyncClient) -> None:
    answers = [await ann.request("DELETE", path) for path in ("/v1/entries", "/v1/gates", "/messages")]

    assert [(one.status_code, one.headers["allow"]) for one in answers] == [
        (405, "GET, POST"),
        (405, "GET"),
        (405, "POST"),
    ]


async def test_tenants_and_scopes_are_kept_apart(server: ApiServer, ann: httpx.AsyncClient) -> None:
    entry = (await ann.post("/v1/entries", json=ONE)).json()["entry_id"]
    asked: list[tuple[str, str, Any]] = [
        ("GET", f"/v1/entries/{entry}", None),
        ("GET", f"/v1/entries/{entry}/events/stream", None),
    ]
    asked += [("POST", f"/v1/entries/{entry}/cancel", {"reason": "x"})]
    asked += [("POST", f"/v1/gates/{entry}/decision", {"decision": "yes"})]

    async with server.caller(OTHER_KEY) as eve:
        assert {problem(await eve.request(method, path, json=body))[0] for method, path, body in asked} == {404}
        assert (await eve.get("/v1/entries")).json()["entries"] == []
    async with server.caller(READ_KEY) as board:
        answers = [(await board.request(method, path, json=body)).status_code for method, path, body in asked[::2]]
        assert answers == [200, 403]
        assert (await send(board, "one")).status_code == 403
    async with server.caller(MESSAGE_KEY) as portal:
        assert {problem(await portal.request(method, path, json=body))[0] for method, path, body in asked} == {403}
        assert (await send(portal, "one")).status_code == 202
    for key in (None, "wrong"):
        async with server.caller(key) as stranger:
            answer = await stranger.get("/v1/entries")
            assert (problem(answer)[0], answer.headers["www-authenticate"]) == (401, 'Bearer realm="verbworker"')


async def test_incidents_are_read_and_resolved_by_their_id(dsn: str, server: ApiServer, ann: httpx.AsyncClient) -> None:
    async with Database(dsn, size=2) as database:
        stored = await StoredEntry.open(database, tenant_id=TENANT)
        await stored.start()
        incident = EngineIncident(5, INSTANCE_KEY, "which-way", 6, "CONDITION_ERROR", "no condition holds")
        assert await Incidents(database, engine_id=ENGINE).record(incident)
    (listed,) = (await ann.get("/v1/incidents")).json()["incidents"]
    path = f"/v1/incidents/{listed['incident_id']}"
    read = (await ann.get(path)).json()
    by_entry = (await ann.get(f"/v1/incidents/{stored.entry_id}")).json()
    resolve = {"reason": "mended", "retries": 2}
    other_engine = await ann.post(f"{path}/resolution", json=resolve)
    too_many = await ann.post(f"{path}/resolution", json={**resolve, "retries": 100_000})

    assert (listed["incident_key"], listed["incident_type"]) == (5, "CONDITION_ERROR")
    assert (read["element_id"], read["incident_text"], read["story"]) == ("which-way", "no condition holds", [])
    assert by_entry == read
    assert (problem(other_engine)[0], problem(too_many)[0]) == (409, 422)
    assert "belongs to the engine" in other_engine.text
    async with server.caller(OTHER_KEY) as eve, server.caller(READ_KEY) as board:
        assert problem(await eve.get(path))[0] == 404
        assert problem(await eve.post(f"{path}/resolution", json=resolve))[0] == 404
        assert problem(await board.post(f"{path}/resolution", json=resolve))[0] == 403
        assert (await board.get(path)).status_code == 200


async def test_a_gate_is_claimed_and_released_and_another_person_is_told_who_has_it(
    dsn: str, server: ApiServer, ann: httpx.AsyncClient
) -> None:
    async with Database(dsn, size=2) as database:
        book = await StoredEntry.open(database, tenant_id=TENANT)
        await book.start()
        await book.park(book.token(7, Wait.HUMAN_GATE, gate="review", job_key=5, tenant_id=TENANT))
        path = f"/v1/gates/{book.entry_id}"
        claimed = await ann.post(f"{path}/claim", json={})
        async with server.caller(READ_KEY) as board, server.caller(OTHER_KEY) as eve:
            assert problem(await board.post(f"{path}/claim", json={}))[0] == 403
            assert problem(await eve.post(f"{path}/claim", json={}))[0] == 404
        await database.execute("UPDATE verbworker.parked_token SET claimed_by = 'bob'")
        refused = await ann.post(f"{path}/claim", json={"gate": "review"})
        released = await ann.post(f"{path}/release", json={})

    assert (claimed.status_code, claimed.json()["claimed_by"], claimed.json()["is_mirrored"]) == (200, "ann", True)
    assert problem(refused)[0] == 409
    assert "is claimed by bob" in refused.text
    assert (released.status_code, released.json()["claimed_by"]) == (200, None)


async def test_an_entry_is_cancelled_once(ann: httpx.AsyncClient) -> None:
    entry = (await ann.post("/v1/entries", json=ONE)).json()["entry_id"]
    answers = [await ann.post(f"/v1/entries/{entry}/cancel", json={"reason": "twice"}) for _ in range(2)]
    other = await ann.post(f"/v1/entries/{entry}/cancel", json={"reason": "another"})
    told = await follow(ann, entry)

    assert [(answer.status_code, answer.json()["status"]) for answer in answers] == [(200, "cancelled")] * 2
    assert problem(other)[0] == 409
    assert [event["kind"] for event in told] == ["CancelRequested", "Cancelled"]
    over = await ann.get(f"/v1/entries/{entry}/events/stream", headers={"Last-Event-ID": "2"})
    assert over.status_code == 204


async def test_a_stream_goes_on_after_the_server_was_restarted(dsn: str, shop: Workshop) -> None:
    server = ApiServer(dsn)
    async with shop.working():
        async with server.caller() as ann:
            async with server.serving():
                entry = (await ann.post("/v1/entries", json=ONE)).json()["entry_id"]
                await shop.waits(entry, at="letter")
                begun = asyncio.Event()
                cut = asyncio.create_task(follow(ann, entry, begun=begun))
                first = await follow(ann, entry, most=2)
                await begun.wait()
            # The server has ended, and with it the stream that was open.
            before = await cut
        await shop.send("one")
        await shop.waits(entry, at="review")
        await shop.decide(entry)
        async with server.serving(), server.caller() as ann:
            after = await follow(ann, entry, behind=before[-1]["seq"])

    assert first == before[:2]
    assert [event["seq"] for event in before + after] == list(range(1, len(before) + len(after) + 1))
    assert (before[0]["sentence"], after[-1]["sentence"]) == ("Started", "Completed")


async def test_pages_are_walked_by_their_cursor(ann: httpx.AsyncClient) -> None:
    made = [(await ann.post("/v1/entries", json=ONE)).json()["entry_id"] for _ in range(5)]
    seen, cursor = [], None
    while True:
        page = (await ann.get("/v1/entries", params={"limit": 2, **({"cursor": cursor} if cursor else {})})).json()
        seen += [entry["entry_id"] for entry in page["entries"]]
        if (cursor := page["next"]) is None:
            break

    assert seen == made[::-1]


async def test_limits_hold_for_every_route(dsn: str) -> None:
    server = ApiServer(dsn, burst=3, rate=0.001, body_limit=1024)
    async with server.serving(), server.caller() as ann:
        large = await ann.post("/v1/entries", json={"verb": VERB, "args": {"name": "x" * 2000}})
        answers = [await ann.get("/v1/entries") for _ in range(3)]

    assert problem(large)[0] == 413
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert int(answers[-1].headers["retry-after"]) > 0


# The names of the profile's envelope.
ENVELOPE = {
    *("workflow_id", "message_name", "message_id", "correlation_key", "tenant_id", "correlation_id", "causation_id"),
    *("traceparent", "payload_bytes"),
}


@pytest.mark.req("ING-01", "ING-02")
async def test_the_openapi_document_is_valid_served_and_printed(server: ApiServer, tmp_path: Path) -> None:
    async with server.caller(None) as stranger:
        served = (await stranger.get("/openapi.json")).json()
        pages = [(await stranger.get(path)).status_code for path in ("/docs", "/redoc")]
    printed = verbworker("api", "schema", directory=tmp_path)

    validate(served)
    assert (printed.code, json.loads(printed.out)) == (0, served)
    assert pages == [404, 404]
    operations = {one["operationId"] for path in served["paths"].values() for one in path.values()}
    assert {"start_entry", "list_entries", "read_entry", "follow_events", "decide_gate", "cancel_entry"} <= operations
    assert {"list_incidents", "read_incident", "resolve_incident", "send_message"} <= operations
    assert "HTTPValidationError" not in served["components"]["schemas"]
    refusals = {"401", "403", "408", "409", "413", "415", "422", "429", "503"}
    answers = {
        path: set(methods["post"]["responses"]) for path, methods in served["paths"].items() if "post" in methods
    }
    assert answers["/messages"] == {"202", *refusals}
    content = served["paths"]["/messages"]["post"]["requestBody"]["content"]["application/json"]
    assert set(content["schema"]["properties"]) == {*ENVELOPE, "entry_id", "payload"}
    assert content["schema"]["properties"]["payload_bytes"]["anyOf"][0]["contentEncoding"] == "base64"
    assert answers["/v1/messages"] == {"202", "404", *refusals}
    assert {"200", "202"} <= answers["/v1/entries/{entry_id}/cancel"]


async def test_a_service_of_a_user_starts_and_answers(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.claims_service import app

    monkeypatch.setenv("VERBWORKER_DSN", dsn)
    monkeypatch.setenv("VERBWORKER_ENGINE", "embedded")
    own = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://own")
    async with app.router.lifespan_context(app), own as caller:
        made = [(await caller.post("/claims/17")).json() for _ in range(2)]
        read = (await caller.get(f"/claims/{made[0]['entry_id']}")).json()
        missing = await caller.get(f"/claims/{uuid4()}")

    assert made[0] == made[1]
    assert (read["status"], read["progress"]) == ("executing", "0 steps")
    assert missing.status_code == 404
