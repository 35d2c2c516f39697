"""What the console decides without a database: whose cookie, whose form, which host, which fields, which words."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from verbs import registry
from verbworker.console.access.headers import Addresses
from verbworker.console.access.login import _next
from verbworker.console.access.oidc import Attempt
from verbworker.console.access.session import LoginSession, Signer, fits
from verbworker.console.pages.rendering import ago, format_value, moment, seconds
from verbworker.console.pages.verb_list import cards, reader, write
from verbworker.console.settings import ConsoleSettings, Logins, load, pick
from verbworker.errors import ContractInvalid

NOW = 1_000_000.0
SIGNER = Signer(b"a key of thirty-two bytes, or more")
ANN = LoginSession.of("ann", "default", now=NOW, lasts=3600)
ENTRY_ID = UUID(int=7)
AT = datetime(2026, 11, 16, 12, 30, tzinfo=UTC)
HERE = Addresses.of("127.0.0.1", 8092, None)
PUBLIC = Addresses.of("0.0.0.0", 8092, "https://Console.example.test")


def test_a_session_is_read_back_while_it_lasts() -> None:
    cookie = SIGNER.cookie(ANN)

    assert SIGNER.session(cookie, now=NOW + 3599) == ANN
    assert SIGNER.session(cookie, now=NOW + 3600) is None


@pytest.mark.parametrize("cookie", [None, "", ".", "x.y", "e30.", "a" * 5000, "{}.{}", "é.é"])
def test_what_nobody_signed_is_no_session(cookie: str | None) -> None:
    assert SIGNER.session(cookie, now=NOW) is None


def test_a_cookie_that_was_changed_or_signed_by_another_or_as_another_thing_is_no_session() -> None:
    cookie = SIGNER.cookie(ANN)
    body, _, mac = cookie.partition(".")
    changed = SIGNER.cookie(LoginSession.of("bob", "default", now=NOW, lasts=3600)).partition(".")[0]
    fields = {"n": "ann", "t": "default", "c": "c", "e": NOW + 60}

    assert SIGNER.session(f"{changed}.{mac}", now=NOW) is None
    assert SIGNER.session(f"{body}.{mac[:-2]}", now=NOW) is None
    assert Signer().session(cookie, now=NOW) is None
    assert SIGNER.session(SIGNER.sign("login", fields), now=NOW) is None


def test_every_session_has_a_form_token_of_its_own() -> None:
    other = LoginSession.of("ann", "default", now=NOW, lasts=3600)

    assert fits(ANN, ANN.csrf)
    assert not fits(ANN, other.csrf)
    assert not fits(ANN, None)
    assert not fits(ANN, "")


@pytest.mark.parametrize("host", ["127.0.0.1:8092", "localhost:8092", "LOCALHOST:8092", "[::1]:8092"])
def test_on_this_machine_the_console_answers_to_this_machines_names(host: str) -> None:
    assert HERE.has_host(host)


@pytest.mark.parametrize(
    "host", ["", "127.0.0.1", "127.0.0.1:80", "evil.test:8092", "localhost.evil.test:8092", "8092"]
)
def test_a_name_that_somebody_made_lead_here_is_not_answered(host: str) -> None:
    assert not HERE.has_host(host)


def test_a_public_console_answers_to_its_own_name_alone() -> None:
    assert PUBLIC.is_secure
    assert PUBLIC.has_host("console.example.test")
    assert PUBLIC.has_host("console.example.test:443")
    assert not PUBLIC.has_host("127.0.0.1:8092")


@pytest.mark.parametrize(
    ("headers", "may"),
    [
        ({}, True),
        ({"origin": "http://127.0.0.1:8092"}, True),
        ({"origin": "http://127.0.0.1:8092", "sec-fetch-site": "same-origin"}, True),
        ({"referer": "http://127.0.0.1:8092/gates"}, True),
        ({"origin": "null"}, False),
        ({"origin": "http://127.0.0.1:9999"}, False),
        ({"origin": "https://127.0.0.1:8092"}, False),
        ({"origin": "http://evil.test"}, False),
        ({"referer": "http://evil.test/http://127.0.0.1:8092"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"origin": "http://127.0.0.1:8092", "sec-fetch-site": "same-site"}, False),
    ],
)
def test_a_form_is_taken_from_our_own_pages_alone(headers: dict[str, str], may: bool) -> None:
    assert HERE.may_post(headers) is may


@pytest.mark.parametrize("path", ["/", "/gates", "/entries/1?done=decided", "/?status=parked&q=a%20b"])
def test_after_the_login_people_go_where_they_wanted(path: str) -> None:
    assert _next(path) == path


@pytest.mark.parametrize(
    "path",
    ["", "//evil.test", "/\\evil.test", "https://evil.test", "javascript:alert(1)", "/a\nb", "/login", "/" * 2000],
)
def test_but_never_to_another_site(path: str) -> None:
    assert _next(path) == "/"


def test_the_challenge_of_a_login_is_the_one_the_standard_computes() -> None:
    # RFC 7636, appendix B.
    attempt = Attempt("s", "n", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")

    assert attempt.challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert (attempt.fits("s"), attempt.fits("t"), attempt.fits("")) == (True, False, False)


def test_only_fields_that_were_named_are_picked() -> None:
    data = {"entity": "Allianz", "review": {"decision": "approve", "by": "ada"}, "papers": [1]}

    assert pick(data, ("entity", "review.decision", "review.none", "papers.0", "none.at.all")) == {
        "entity": "Allianz",
        "review.decision": "approve",
    }
    assert pick(data, ()) == {}


def test_fields_are_allowed_by_verb_or_by_schema_and_none_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERBWORKER_CONSOLE_FIELDS", '{"kyc.open-case": ["entity"], "kyc.open-case/v1": ["case_type"]}')

    assert load().visible_fields("kyc.open-case", "kyc.open-case/v1") == ("entity", "case_type")
    assert load().visible_fields("kyc.open-case", "kyc.open-case/v2") == ("entity",)
    assert ConsoleSettings(fields={}).visible_fields("kyc.open-case", "kyc.open-case/v1") == ()


KEY = {"name": "ann", "tenant": "default", "sha256": "0" * 64}
ONE = Logins.model_validate({"api_keys": [KEY]})


@pytest.mark.parametrize(
    ("settings", "logins", "is_open", "words"),
    [
        ({}, Logins(), False, "no logins are configured"),
        ({"host": "0.0.0.0"}, Logins(), False, "no logins are configured"),
        ({"host": "0.0.0.0"}, Logins(), True, "only listen on this machine"),
        ({"host": "example.test"}, Logins(), True, "only listen on this machine"),
        ({"host": "0.0.0.0"}, ONE, False, "VERBWORKER_CONSOLE_PUBLIC_URL"),
        ({"public_url": "console.example.test"}, ONE, False, "VERBWORKER_CONSOLE_PUBLIC_URL"),
        ({"public_url": "https://example.test/console"}, ONE, False, "VERBWORKER_CONSOLE_PUBLIC_URL"),
    ],
)
def test_a_console_that_strangers_could_use_is_refused(
    settings: dict[str, Any], logins: Logins, is_open: bool, words: str
) -> None:
    with pytest.raises(ContractInvalid, match=words):
        ConsoleSettings(**settings).require_safe(logins, is_open=is_open)


def test_a_console_with_a_login_or_on_loopback_in_dev_is_safe() -> None:
    ConsoleSettings().require_safe(Logins(), is_open=True)
    ConsoleSettings().require_safe(ONE, is_open=False)
    public = ConsoleSettings(host="0.0.0.0", public_url="https://console.example.test")
    public.require_safe(ONE, is_open=False)

    assert public.logins() == Logins()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("CREDENTIALS", "no json", "not JSON"),
        ("CREDENTIALS", '{"api_keys": [{"name": "a", "tenant": "t", "sha256": "short"}]}', r"api_keys\.0\.sha256"),
        ("CREDENTIALS", json.dumps({"api_keys": [KEY, KEY]}), "same name"),
        ("CREDENTIALS_FILE", "/no/such/file", "cannot read"),
        ("SECRET", "short", "shorter than 32"),
        ("FIELDS", "no json", "VERBWORKER_CONSOLE_FIELDS: write it as JSON"),
        ("PORT", "many", "VERBWORKER_CONSOLE_PORT"),
    ],
)
def test_a_setting_that_does_not_fit_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, words: str
) -> None:
    monkeypatch.setenv(f"VERBWORKER_CONSOLE_{name}", text)

    def read() -> None:
        settings = load()
        settings.logins()
        settings.signing_key()

    with pytest.raises(ContractInvalid, match=words):
        read()


@pytest.mark.parametrize(
    ("passed", "words"), [(0, "0 s"), (59, "59 s"), (60, "1 min"), (7200, "2 h"), (200_000, "2 d"), (-5, "0 s")]
)
def test_how_long_ago_is_told_in_one_unit(passed: int, words: str) -> None:
    assert ago(AT - timedelta(seconds=passed), AT) == words


def test_moments_durations_and_values_are_told_as_text() -> None:
    assert (moment(AT), moment(None), ago(None, AT)) == ("2026-11-16 12:30:00 UTC", "", "")
    assert (seconds(0.0125), seconds(2.26), seconds(None)) == ("12 ms", "2.3 s", "")
    assert (format_value("<b>"), format_value({"a": [1]})) == ("<b>", '{\n  "a": [\n    1\n  ]\n}')


@pytest.mark.req("REG-01")
def test_every_verb_has_a_card_that_another_process_can_read(tmp_path: Path) -> None:
    place = tmp_path / "catalogue.json"
    before = reader(place)()
    write(registry, place)
    found = {card.name: card for card in reader(place)() or []}

    assert before is None
    assert list(found.values()) == cards(registry)
    opening = found["kyc.open-case"]
    assert (opening.strategy, opening.facts["said as"]) == ("workflow", "Open KYC case for {entity}")
    assert opening.facts["gate review"] == "approve, reject"
    assert [arg["name"] for arg in opening.args if arg["required"] == "yes"] == ["entity", "case-type"]
    assert found["kyc.screen-sanctions"].schema is not None
