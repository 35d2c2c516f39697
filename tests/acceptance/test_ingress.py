"""The ingress as a process: what is answered, what is kept, and what happens while the database is away."""

import asyncio
import base64
import hmac
import json
import signal
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tests.conformance.test_messages import engine_at, rest_of
from tests.support.command import verbworker
from tests.support.databases import value
from tests.support.embedded import EmbeddedPlace
from tests.support.engines import Gateway
from tests.support.ingress_process import (
    API_KEY,
    ENGINE_ID,
    OTHER_KEY,
    WEBHOOK_SECRET,
    IngressProcess,
    envelope,
    ingress_process,
    write_app,
)
from tests.support.mail import DOCS, KEY, TENANT, make_registry
from tests.support.proxy import proxied
from tests.support.shop import wait_until
from tests.support.start import begin
from tests.support.zeebe_models import message_wait
from verbworker.api.webhook import secret_of
from verbworker.engine.protocol import Resource
from verbworker.stores.database import Database

ON = ("embedded", "zeebe")

KEPT = "SELECT count(*) FROM verbworker.inbox_message"
LETTERS = "SELECT string_agg(code, ',') FROM verbworker.dead_letter"


@pytest.fixture
def opened(tmp_path: Path, dsn: str) -> Iterator[IngressProcess]:
    write_app(tmp_path)
    with ingress_process(tmp_path, dsn) as opened:
        yield opened


@pytest.mark.req("ING-02", "ING-05", "ING-07")
async def test_a_message_is_accepted_kept_and_accepted_again(opened: IngressProcess, dsn: str) -> None:
    answers = [await asyncio.to_thread(opened.post, envelope()) for _ in range(2)]

    assert [(answer.status, answer.body) for answer in answers] == [(202, {"message_id": "m-1"})] * 2
    assert await value(dsn, KEPT) == 1


async def test_the_trace_of_a_request_is_kept_with_its_message_and_is_no_part_of_it(
    opened: IngressProcess, dsn: str
) -> None:
    first, second = (f"00-{digit * 32}-00f067aa0ba902b7-01" for digit in "ab")
    answers = [
        await asyncio.to_thread(opened.post, envelope(), headers={"traceparent": trace}) for trace in (first, second)
    ]

    assert [answer.status for answer in answers] == [202, 202]
    assert await value(dsn, "SELECT traceparent FROM verbworker.inbox_message") == first


async def test_the_same_id_with_another_body_is_a_conflict(opened: IngressProcess) -> None:
    await asyncio.to_thread(opened.post, envelope())
    answer = await asyncio.to_thread(opened.post, envelope(payload={"pages": 4}))

    assert answer.status == 409
    assert "was used before for another message" in answer.body["error"]


@pytest.mark.req("ING-06", "X-27")
async def test_a_bad_envelope_is_refused_by_field_and_kept_as_a_dead_letter(opened: IngressProcess, dsn: str) -> None:
    wrong = {"messageName": "x", **{k: v for k, v in envelope().items() if k != "message_name"}}
    answer = await asyncio.to_thread(opened.post, wrong)
    again = await asyncio.to_thread(opened.post, envelope())

    assert (answer.status, again.status) == (422, 202)
    assert answer.body["fields"]["message_name"] == "is missing"
    assert await value(dsn, LETTERS) == "invalid"


@pytest.mark.parametrize("field", ["message_id", "correlation_key", "message_name"])
@pytest.mark.parametrize("text", ["", " "])
async def test_a_blank_id_or_key_is_refused(opened: IngressProcess, dsn: str, field: str, text: str) -> None:
    answer = await asyncio.to_thread(opened.post, envelope(**{field: text}))

    assert (answer.status, answer.body["fields"]) == (422, {field: "must not be blank"})
    assert await value(dsn, KEPT) == 0


@pytest.mark.parametrize("header", ["", " "])
async def test_a_blank_header_is_no_id_for_a_message_that_is_handed_over(
    opened: IngressProcess, dsn: str, header: str
) -> None:
    body = {"messageName": DOCS, "correlationKey": KEY}
    answer = await asyncio.to_thread(opened.post, body, "/api/workflow/message", headers={"webhook-id": header})

    assert (answer.status, answer.body["fields"]) == (422, {"message_id": "must not be blank"})
    assert await value(dsn, KEPT) == 0


@pytest.mark.parametrize("body", [b"", b"{", b'{"message_id":"a","message_id":"b"}', b"[1]", b"\xff\xfe"])
async def test_what_is_no_message_is_refused(opened: IngressProcess, body: bytes) -> None:
    answer = await asyncio.to_thread(opened.post, body)

    assert (answer.status, set(answer.body)) == (422, {"error"})


async def test_only_json_is_taken(opened: IngressProcess) -> None:
    answer = await asyncio.to_thread(opened.post, envelope(), kind="text/plain")

    assert answer.status == 415


@pytest.mark.parametrize("key", [None, "wrong", ""])
async def test_who_shows_no_credential_leaves_nothing(opened: IngressProcess, dsn: str, key: str | None) -> None:
    answer = await asyncio.to_thread(opened.post, b"garbage", key=key)

    assert (answer.status, set(answer.body)) == (401, {"error"})
    assert (await value(dsn, KEPT), await value(dsn, LETTERS)) == (0, None)


async def test_a_credential_speaks_for_its_own_tenant_only(opened: IngressProcess, dsn: str) -> None:
    answer = await asyncio.to_thread(opened.post, envelope(), key=OTHER_KEY)

    assert (answer.status, await value(dsn, KEPT)) == (403, 0)


async def test_a_signed_message_is_taken_and_a_changed_one_is_not(opened: IngressProcess) -> None:
    body = json.dumps(envelope()).encode()
    headers = {"webhook-id": "w-1", "webhook-timestamp": str(int(time.time()))}
    said = f"w-1.{headers['webhook-timestamp']}.".encode() + body
    signature = base64.b64encode(hmac.new(secret_of(WEBHOOK_SECRET), said, sha256).digest()).decode()
    headers["webhook-signature"] = f"v1,{signature}"
    good = await asyncio.to_thread(opened.post, body, key=None, headers=headers)
    bad = await asyncio.to_thread(opened.post, body + b" ", key=None, headers=headers)

    assert (good.status, bad.status) == (202, 401)


async def test_a_body_that_is_too_large_is_refused_whether_or_not_its_length_is_said(
    opened: IngressProcess, dsn: str
) -> None:
    large = envelope(payload={"text": "x" * 1_100_000})
    said = await asyncio.to_thread(opened.post, large)
    unsaid = await asyncio.to_thread(opened.post, b"", chunks=[b"x" * 100_000] * 20)
    after = await asyncio.to_thread(opened.post, envelope())

    assert (said.status, unsaid.status, after.status) == (413, 413, 202)
    assert await value(dsn, LETTERS) is None


async def test_a_message_in_chunks_is_taken(opened: IngressProcess) -> None:
    body = json.dumps(envelope()).encode()
    answer = await asyncio.to_thread(opened.post, b"", chunks=[body[:20], body[20:]])

    assert answer.status == 202


async def test_a_sender_that_brings_too_much_is_told_when_to_come_again(tmp_path: Path, dsn: str) -> None:
    write_app(tmp_path)
    limits = {"VERBWORKER_INGRESS_RATE": "0.1", "VERBWORKER_INGRESS_BURST": "2"}
    with ingress_process(tmp_path, dsn, **limits) as opened:
        answers = [opened.post(envelope(message_id=f"m-{number}")) for number in range(3)]
        other = opened.post(envelope(tenant_id="globex"), key=OTHER_KEY)

    assert [answer.status for answer in answers] == [202, 202, 429]
    assert 1 <= int(answers[2].headers["retry-after"]) <= 10
    assert other.status == 202


async def test_whatever_else_is_asked_is_answered_in_json(opened: IngressProcess) -> None:
    asked = [("GET", "/messages", 405), ("POST", "/elsewhere", 404), ("GET", "/live", 200), ("GET", "/ready", 200)]
    answers = [await asyncio.to_thread(opened.ask, method, path) for method, path, _ in asked]

    assert [answer.status for answer in answers] == [status for _, _, status in asked]
    kinds = [answer.headers["content-type"] for answer in answers]
    assert kinds == ["application/json", "application/problem+json", "application/json", "application/json"]


async def test_while_the_database_is_away_nothing_is_accepted_and_nothing_accepted_is_lost(
    tmp_path: Path, dsn: str
) -> None:
    write_app(tmp_path)
    async with proxied(dsn) as proxy:
        running = ingress_process(tmp_path, proxy.dsn)
        opened = await asyncio.to_thread(running.__enter__)
        try:
            before = await asyncio.to_thread(opened.post, envelope())
            proxy.go_away()
            during = await asyncio.to_thread(opened.post, envelope(message_id="m-2"))
            ready = await asyncio.to_thread(opened.ask, "GET", "/ready")
            live = await asyncio.to_thread(opened.ask, "GET", "/live")
            await proxy.come()
            after = await asyncio.to_thread(opened.post, envelope(message_id="m-2"))
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)

    assert [before.status, during.status, after.status] == [202, 503, 202]
    assert (ready.status, live.status, during.headers["retry-after"]) == (503, 200, "5")
    assert await value(dsn, KEPT) == 2


async def test_a_commit_whose_answer_is_lost_is_not_accepted_and_sending_it_again_keeps_one(
    tmp_path: Path, dsn: str
) -> None:
    write_app(tmp_path)
    async with proxied(dsn) as proxy:
        running = ingress_process(tmp_path, proxy.dsn)
        opened = await asyncio.to_thread(running.__enter__)
        try:
            proxy.cut("COMMIT", "after")
            lost = await asyncio.to_thread(opened.post, envelope())
            again = await asyncio.to_thread(opened.post, envelope())
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)

    assert (lost.status, again.status, proxy.cuts) == (503, 202, 1)
    assert await value(dsn, KEPT) == 1


async def test_a_request_under_way_is_answered_before_the_ingress_ends(opened: IngressProcess, dsn: str) -> None:
    def meet() -> tuple[int, int]:
        half = opened.slow_post(json.dumps(envelope()).encode())
        opened.tell(signal.SIGTERM)
        wait_until(lambda: not opened.listens(), "it never stopped listening")
        return half.finish(), opened.exit_code()

    assert await asyncio.to_thread(meet) == (202, 0)
    assert await value(dsn, KEPT) == 1


async def test_the_log_names_the_message_and_never_its_payload_or_a_key(opened: IngressProcess) -> None:
    await asyncio.to_thread(opened.post, envelope(payload={"passport": "P-1234567"}))
    await asyncio.to_thread(opened.post, {"payload": {"passport": "P-1234567"}})
    await asyncio.to_thread(wait_until, lambda: "message stored" in opened.log.read_text(), "never logged")
    log = opened.log.read_text()

    assert '"message_id": "m-1"' in log
    assert "P-1234567" not in log
    assert API_KEY not in log


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "no senders are configured"),
        (("--insecure-no-auth", "--host", "0.0.0.0"), "only listen on this machine"),
        (("--app", "nothing:registry"), "no module nothing"),
    ],
)
def test_an_ingress_that_would_believe_anybody_does_not_start(
    tmp_path: Path, dsn: str, options: tuple[str, ...], words: str
) -> None:
    write_app(tmp_path)
    app = () if "--app" in options else ("--app", "mailing:registry")
    said = verbworker("ingress", *app, *options, directory=tmp_path, dsn=dsn, VERBWORKER_ENGINE_ID=ENGINE_ID)

    assert said.code == 2
    assert words in said.err.splitlines()[-1]


async def test_a_port_that_is_taken_is_said_in_one_sentence(opened: IngressProcess, tmp_path: Path, dsn: str) -> None:
    said = await asyncio.to_thread(
        verbworker,
        *("ingress", "--app", "mailing:registry", "--port", str(opened.port)),
        directory=tmp_path,
        dsn=dsn,
        VERBWORKER_ENGINE_ID=ENGINE_ID,
        VERBWORKER_INGRESS_CREDENTIALS_FILE=str(tmp_path / "credentials.json"),
    )

    assert (said.code, "cannot listen on 127.0.0.1 port" in said.err.splitlines()[-1]) == (2, True)


@pytest.mark.req("EMC-09", "EMC-10", "EMC-13", "EMC-23", "MSG-05", "X-11")
async def test_who_hands_a_message_over_hears_whether_a_case_was_waiting(
    tmp_path: Path, dsn: str, gateway: Gateway, unique: Callable[[str], str]
) -> None:
    message, process = unique("docs"), unique("waits")
    write_app(tmp_path, message=message, process=process)
    (workflow,) = make_registry(message=message, process=process).workflows.values()
    async with engine_at(gateway, ENGINE_ID) as engine, Database(dsn, size=2) as database:
        model = message_wait(process, message, unique("kyc.check")).replace(b"=corr_key", b"=corr_docs")
        await engine.deploy([Resource(f"{process}.bpmn", model)])
        await begin(database, engine, workflow, {}, correlation={"corr_docs": KEY})
        await database.execute("UPDATE verbworker.workflow_instance SET tenant_id = $1", TENANT)
    body = {"messageName": message, "correlationKey": KEY, "variables": {"amount": 150.0}}
    settings = {"VERBWORKER_ENGINE": "embedded"}
    if not isinstance(gateway, EmbeddedPlace):
        settings = {"ZEEBE_ADDRESS": gateway.address, "ZEEBE_REST_ADDRESS": rest_of(gateway)}

    def meet() -> tuple[int, ...]:
        with ingress_process(tmp_path, dsn, **settings) as opened:
            path = "/api/workflow/message"
            nobody = opened.post({**body, "correlationKey": "nobody"}, path)
            wait_until(lambda: opened.post(body, path).status == 200, "nobody ever waited")
            wrong = opened.post({**body, "correlation_key": KEY}, path)
            blank = opened.post({**body, "messageId": " "}, path)
            return nobody.status, opened.post(body, path).status, wrong.status, blank.status

    assert await asyncio.to_thread(meet) == (404, 404, 422, 422)
    assert await value(dsn, "SELECT count(*) FROM verbworker.inbox_message WHERE state = 'published'") == 1
