"""Quotas where people and programs meet them: the API, the senders of messages, the command line and the client."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.apart import run_apart
from tests.support.api_server import ApiServer
from tests.support.command import Said, verbworker
from tests.support.embedded_service import LETTER, TENANT, VERB, Steps
from tests.support.mail import deploy_model, make_message
from tests.support.shop import make_shop
from verbworker import Client
from verbworker.app.settings import Settings
from verbworker.app.settings import load as load_settings
from verbworker.doctor.backlog import check_quotas
from verbworker.doctor.subject import Subject
from verbworker.errors import ContractInvalid, QuotaExceeded, Refused, exit_code

ONE = {"verb": VERB, "args": {"name": "one"}}
EMBEDDED = {"VERBWORKER_ENGINE": "embedded"}
FULL = "has 1 open cases, and its quota open_cases allows no more; end some of them"
WAITING = "has 1 messages that no case has taken yet, and its quota waiting_messages allows no more"


@pytest.fixture
async def caller(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setenv("VERBWORKER_QUOTA_OPEN_CASES", "1")
    monkeypatch.setenv("VERBWORKER_QUOTA_WAITING_MESSAGES", "1")
    server = ApiServer(dsn)
    async with server.serving(), server.caller() as caller:
        yield caller


async def test_the_api_refuses_a_start_as_a_problem_with_the_time_to_wait(caller: httpx.AsyncClient) -> None:
    first = await caller.post("/v1/entries", json=ONE, headers={"Idempotency-Key": "order-1"})
    answer = await caller.post("/v1/entries", json=ONE)
    again = await caller.post("/v1/entries", json=ONE, headers={"Idempotency-Key": "order-1"})
    listed = (await caller.get("/v1/entries")).json()["entries"]

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "30")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "about:blank",
        "title": "Too Many Requests",
        "status": 429,
        "detail": f"the tenant {TENANT} {FULL}",
    }
    assert (again.status_code, again.json()["entry_id"], len(listed)) == (201, first.json()["entry_id"], 1)


async def test_the_ingress_refuses_a_message_in_a_sentence_and_takes_a_repetition(caller: httpx.AsyncClient) -> None:
    def envelope(name: str) -> dict[str, Any]:
        message = make_message(message_name=LETTER, message_id=name, tenant_id=TENANT)
        fields: dict[str, Any] = json.loads(message.model_dump_json(exclude_none=True))
        return fields

    sent = [await caller.post("/messages", json=envelope(name)) for name in ("m-1", "m-2", "m-1")]
    by_api = await caller.post("/v1/messages", json={"message_name": LETTER, "correlation_key": "1"})

    assert [answer.status_code for answer in (*sent, by_api)] == [202, 429, 202, 429]
    assert sent[1].headers["retry-after"] == "30"
    assert WAITING in sent[1].json()["error"]
    assert WAITING in by_api.json()["detail"]


async def test_the_client_raises_a_refusal_that_says_when_to_ask_again(dsn: str) -> None:
    settings = Settings.model_validate(
        {"dsn": dsn, "engine": "embedded", "tenant": TENANT, "tenant_quotas": {TENANT: {"starts_per_minute": 1}}}
    )
    async with Client(settings, Steps().registry(), by="ann") as client:
        await client.start(VERB, {"name": "one"}, request_key="order-1")
        # A minute may end between two starts: then the next one is refused.
        refused = await _first_refusal([client.start(VERB, {"name": name}) for name in ("two", "three", "four")])
        await client.start(VERB, {"name": "one"}, request_key="order-1")
        await client.act_for(tenant="another").start(VERB, {"name": "one"})

    assert "has started 1 verbs within this minute" in str(refused)
    assert isinstance(refused, Refused)
    assert 1 <= refused.retry_after <= 60
    assert exit_code(refused) == 1


async def _first_refusal(starts: list[Any]) -> QuotaExceeded:
    found = await asyncio.gather(*starts, return_exceptions=True)
    return next(one for one in found if isinstance(one, QuotaExceeded))


class Terminal:
    """Somebody at a terminal in the shop's folder, with a quota of one open case."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self._folder = folder
        self._dsn = dsn

    def say(self, *words: str) -> Said:
        given = {**EMBEDDED, "VERBWORKER_QUOTA_OPEN_CASES": "1", "VERBWORKER_QUOTA_WAITING_MESSAGES": "1"}
        return verbworker(*words, directory=self._folder, dsn=self._dsn, **given)


@pytest.fixture
def terminal(tmp_path: Path, dsn: str) -> Terminal:
    make_shop(tmp_path, "quota")
    run_apart(deploy_model(dsn, "embedded", "shop.paid"))
    return Terminal(tmp_path, dsn)


def test_the_command_line_refuses_in_a_sentence_and_shows_who_has_used_what(terminal: Terminal) -> None:
    order = ("start", '(shop.order :item "a ring")', "--app", "shop:registry")
    message = ("message", "send", "shop.paid", "--key", "1")
    first, second = terminal.say(*order, "--request-key", "1"), terminal.say(*order)
    again = terminal.say(*order, "--request-key", "1")
    sent, refused = terminal.say(*message), terminal.say(*message)
    shares = terminal.say("db", "quotas", "--json")

    assert (first.code, second.code, again.code) == (0, 1, 0)
    assert second.sentence().endswith(f"the tenant default {FULL}")
    assert (sent.code, refused.code) == (0, 1)
    assert WAITING in refused.sentence()
    assert json.loads(shares.out) == [
        {"tenant": "default", "quota": name, "used": 1, "limit": 1, "share": 1.0}
        for name in ("open_cases", "waiting_messages")
    ]


async def test_doctor_names_a_tenant_that_has_nearly_used_up_a_quota(dsn: str) -> None:
    given = {"dsn": dsn, "engine": "embedded", "tenant": TENANT, "quota_open_cases": 1}
    settings = Settings.model_validate(given)
    async with Subject(settings, app=None, models=()) as subject:
        (before,) = await check_quotas(subject)
        async with Client(settings, Steps().registry(), by="ann") as client:
            await client.start(VERB, {"name": "one"})
        (after,) = await check_quotas(subject)

    assert before.verdict == "ok"
    assert (after.verdict, after.found) == (
        "warn",
        f"1 quota(s) of tenants are used by 80 % or more: {TENANT} has 1 of 1 (open_cases)",
    )


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("VERBWORKER_QUOTA_OPEN_CASES", "0", "setting quota_open_cases: input should be greater than or equal to 1"),
        ("VERBWORKER_TENANT_QUOTAS", "acme", 'setting tenant_quotas: use JSON: {"tenant": {"open_cases": 1000}}'),
        ("VERBWORKER_TENANT_QUOTAS", '{"acme": {"cases": 5}}', "setting tenant_quotas: extra inputs are not permitted"),
        ("VERBWORKER_QUOTA_OPEN_CASE", "5", "did you mean VERBWORKER_QUOTA_OPEN_CASES?"),
    ],
)
def test_a_wrong_or_mistyped_quota_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(ContractInvalid) as refused:
        load_settings(dsn="postgresql://nobody@localhost/nothing")

    assert words in str(refused.value)


def test_quotas_of_single_tenants_stand_in_the_settings_file(tmp_path: Path) -> None:
    (tmp_path / "verbworker.toml").write_text(
        "quota_open_cases = 100\n[tenant_quotas.acme]\nopen_cases = 5\nstarts_per_minute = 60\n"
        '[tenant_quotas."big corp"]\nopen_cases = "unlimited"\n'
    )
    words = (
        "from verbworker.app.settings import load; quotas = load(dsn='postgresql://x@y/z').quotas();"
        "print([quotas.of(tenant).limits() for tenant in ('acme', 'big corp', 'other')])"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VERBWORKER_")}
    said = subprocess.run(
        [sys.executable, "-c", words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )

    assert said.stdout.strip() == "[{'open_cases': 5, 'starts_per_minute': 60}, {}, {'open_cases': 100}]"
