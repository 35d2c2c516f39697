"""The console as a process, asked as anybody could ask: who may see and do what, and what everybody else is told."""

import json
import re
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.apart import run_apart
from tests.support.databases import value
from tests.support.ports import LOOPBACK
from tests.support.site import KEYS, Site, site
from verbworker.console.access.headers import HEADERS
from verbworker.stores.cases.gates import HumanGate

PAGES = ("/", "/gates", "/incidents", "/dead-letters", "/verbs", "/load")
FORM = "application/x-www-form-urlencoded"
DECISIONS = "SELECT count(*) FROM verbworker.gate_decision WHERE token_id = $1"


# ---- who may come in ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PAGES, "/login", "/nowhere", "/static/console.css", "/static/../routes.py"])
def test_every_answer_has_the_headers_that_keep_others_out(opened: Site, path: str) -> None:
    answers = [opened.visitor("ann").get(path), opened.visitor().get(path)]

    for answer in answers:
        assert {name: answer.headers.get(name.lower()) for name in HEADERS} == dict(HEADERS)
        assert answer.headers["cache-control"] in ("no-store", "no-cache")
    assert answers[0].headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize("path", PAGES)
def test_no_page_has_a_script_or_a_style_of_its_own(opened: Site, gate: HumanGate, path: str) -> None:
    text = opened.visitor("ann").get(path).text + opened.visitor("ann").get(f"/entries/{gate.entry_id}").text

    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|javascript:", text) == []


def test_who_is_not_logged_in_is_sent_to_the_login_and_back_to_where_they_wanted(opened: Site) -> None:
    visitor = opened.visitor()
    sent = visitor.get("/gates?done=decided")
    page = visitor.get(sent.headers["location"])
    back = visitor.send("/login", {"key": KEYS["ann"], "next": "/gates"})

    assert (sent.status, sent.headers["location"]) == (303, "/login?next=%2Fgates%3Fdone%3Ddecided")
    assert (page.status, "/gates?done=decided" in page.text) == (200, True)
    assert (back.status, back.headers["location"]) == (303, "/gates")
    assert "Logged in as" in visitor.get("/gates").text


def test_a_session_cookie_is_out_of_reach_of_scripts_and_other_sites(opened: Site) -> None:
    (cookie,) = opened.visitor().send("/login", {"key": KEYS["ann"]}).cookies

    assert cookie.startswith(f"vw_session_{opened.port}=")
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(cookie.split("; "))
    assert KEYS["ann"] not in cookie


def test_where_people_come_by_https_cookies_never_travel_otherwise(tmp_path: Path, dsn: str) -> None:
    home = "console.example.test"
    with site(tmp_path, dsn, VERBWORKER_CONSOLE_PUBLIC_URL=f"https://{home}") as running:
        body = f"key={KEYS['ann']}".encode()
        headers = {"Content-Type": FORM, "Host": home, "Origin": f"https://{home}"}
        answer = running.ask("POST", "/login", body, headers)

    assert answer.cookies[0].startswith("__Host-vw_session=")
    assert "Secure" in answer.cookies[0].split("; ")
    assert "strict-transport-security" in answer.headers


@pytest.mark.parametrize("key", ["", "wrong", "ann", "é"])
def test_a_key_that_nobody_has_opens_nothing(opened: Site, key: str) -> None:
    visitor = opened.visitor()
    answer = visitor.send("/login", {"key": key})

    assert (answer.status, "This key is not valid." in answer.text, visitor.cookies) == (401, True, {})
    assert visitor.get("/gates").status == 303


def test_who_guesses_is_slowed_down(tmp_path: Path, dsn: str) -> None:
    with site(tmp_path, dsn) as running:
        answers = [running.visitor().send("/login", {"key": f"guess-{number}"}) for number in range(30)]
        right = running.visitor("ann").get("/gates")

    assert right.status == 200  # a right key is not locked out by the wrong ones
    assert [answer.status for answer in answers[:20]] == [401] * 20
    assert answers[-1].status == 429
    assert int(answers[-1].headers["retry-after"]) >= 1


def test_logging_out_ends_the_session_of_this_browser(opened: Site) -> None:
    visitor = opened.visitor()
    visitor.send("/login", {"key": KEYS["ann"]})
    answer = visitor.fill("/", "/logout", {})

    assert (answer.status, answer.headers["location"]) == (303, "/login")
    assert visitor.get("/gates").status == 303


def test_a_cookie_of_another_console_is_no_session(opened: Site, tmp_path: Path, dsn: str) -> None:
    with site(tmp_path, dsn) as other:
        name, value_ = next(iter(other.visitor("ann").cookies.items()))
    visitor = opened.visitor()
    visitor.cookies[name.replace(str(other.port), str(opened.port))] = value_

    assert visitor.get("/gates").status == 303


def test_a_session_outlives_a_restart_when_the_secret_is_set(tmp_path: Path, dsn: str) -> None:
    secret = "s" * 40
    with site(tmp_path, dsn, VERBWORKER_CONSOLE_SECRET=secret) as before:
        cookies = before.visitor("ann").cookies
    with site(tmp_path, dsn, VERBWORKER_CONSOLE_SECRET=secret) as after:
        visitor = after.visitor()
        visitor.cookies = {f"vw_session_{after.port}": text for text in cookies.values()}
        status = visitor.get("/gates").status

    assert status == 200


@pytest.mark.parametrize("host", ["evil.test", "evil.test:80", f"{LOOPBACK}:1", ""])
def test_a_name_that_somebody_made_lead_here_gets_no_page(opened: Site, host: str) -> None:
    answer = opened.ask("GET", "/login", None, {"Host": host})

    assert (answer.status, "<form" in answer.text) == (421, False)


# ---- whose forms are taken ------------------------------------------------------------------------------------------


def tries(site: Site, gate: HumanGate) -> dict[str, tuple[int, str]]:
    visitor, path = site.visitor("ann"), f"/gates/{gate.token_id}/decide"
    good = {"decision": "approve", "csrf": visitor.get("/gates").csrf}
    other = site.visitor("bob").get("/gates").csrf
    answers = {
        "no token": visitor.send(path, {"decision": "approve"}),
        "wrong token": visitor.send(path, {**good, "csrf": "x"}),
        "the token of another session": visitor.send(path, {**good, "csrf": other}),
        "another origin": visitor.send(path, good, Origin="http://evil.test"),
        "no origin at all": visitor.send(path, good, Origin="null"),
        "another site": visitor.send(path, good, **{"Sec-Fetch-Site": "cross-site"}),
        "no session": site.visitor().send(path, good),
        "not a form": visitor.send(path, good, **{"Content-Type": "text/plain"}),
        "too large": visitor.send(path, {**good, "reason": "x" * 100_000}),
        "not a gate": visitor.send(f"/gates/{uuid4()}/decide", good),
        "no id": visitor.send("/gates/x/decide", good),
        "no decision": visitor.send(path, {**good, "decision": " "}),
        "a word it does not take": visitor.send(path, {**good, "decision": "perhaps"}),
    }
    return {name: (answer.status, answer.sentence) for name, answer in answers.items()}


@pytest.mark.req("PRX-34")
def test_a_form_that_is_not_ours_decides_nothing_and_says_why(opened: Site, shared: str, gate: HumanGate) -> None:
    told = tries(opened, gate)

    assert {name: status for name, (status, _) in told.items()} == {
        "no token": 403,
        "wrong token": 403,
        "the token of another session": 403,
        "another origin": 403,
        "no origin at all": 403,
        "another site": 403,
        "no session": 401,
        "not a form": 415,
        "too large": 413,
        "not a gate": 404,
        "no id": 404,
        "no decision": 422,
        "a word it does not take": 422,
    }
    assert told["another origin"][1] == "This form was sent from another site and is not accepted."
    assert told["a word it does not take"][1] == "Review takes approve, reject, and not 'perhaps'."
    assert run_apart(value(shared, DECISIONS, gate.token_id)) == 0


@pytest.mark.req("WAIT-02", "PRX-34", "X-42")
def test_a_decision_is_kept_in_the_name_of_who_is_logged_in_and_the_second_hears_who_and_when(
    opened: Site, shared: str, gate: HumanGate
) -> None:
    path, form = f"/gates/{gate.token_id}/decide", {"decision": "approve", "reason": "all papers"}
    first = opened.visitor("ann").fill("/gates", path, form)
    bob = opened.visitor("bob")
    late = bob.send(path, {**form, "csrf": bob.get("/").csrf})
    page = bob.get(f"/entries/{gate.entry_id}").text
    at = run_apart(value(shared, "SELECT decided_at FROM verbworker.gate_decision WHERE token_id = $1", gate.token_id))

    assert (first.status, first.headers["location"]) == (303, f"/entries/{gate.entry_id}?done=decided")
    assert late.status == 409
    assert late.sentence == (
        f"Review of entry {gate.entry_id} is decided: ann said 'approve' at {at:%Y-%m-%d %H:%M:%S} UTC."
    )
    assert "<strong>ann</strong> decided <strong>approve</strong> at review: all papers" in page


def test_a_form_that_is_sent_twice_counts_once(opened: Site, shared: str, gate: HumanGate) -> None:
    visitor, path = opened.visitor("ann"), f"/gates/{gate.token_id}/decide"
    form = {"decision": "approve", "csrf": visitor.get("/gates").csrf}
    statuses = [visitor.send(path, form).status for _ in range(2)]

    assert statuses == [303, 409]
    assert run_apart(value(shared, DECISIONS, gate.token_id)) == 1


@pytest.mark.req("WAIT-02")
def test_a_gate_in_somebodys_hand_is_decided_by_nobody_else_until_it_is_given_back(
    opened: Site, gate: HumanGate
) -> None:
    ann, bob, path = opened.visitor("ann"), opened.visitor("bob"), f"/gates/{gate.token_id}"
    taken = ann.fill("/gates", f"{path}/claim", {})
    refused = bob.fill("/gates", f"{path}/decide", {"decision": "approve"})
    given = bob.fill("/gates", f"{path}/release", {})
    decided = bob.fill("/gates", f"{path}/decide", {"decision": "reject"})

    assert [answer.status for answer in (taken, refused, given, decided)] == [303, 409, 303, 303]
    assert "is claimed by ann since" in refused.sentence


def test_another_tenants_entries_do_not_exist(opened: Site, gate: HumanGate) -> None:
    eve = opened.visitor("eve")
    pages = {path: eve.get(path) for path in (*PAGES, f"/entries/{gate.entry_id}", f"/events?topic={gate.entry_id}")}
    decided = eve.send(f"/gates/{gate.token_id}/decide", {"decision": "approve", "csrf": eve.get("/").csrf})

    assert {path: page.status for path, page in pages.items() if page.status != 200} == {
        f"/entries/{gate.entry_id}": 404,
        f"/events?topic={gate.entry_id}": 404,
    }
    assert decided.status == 404
    assert not [path for path in ("/", "/gates") if str(gate.entry_id) in pages[path].text]


# ---- for programs ---------------------------------------------------------------------------------------------------


@pytest.mark.req("WAIT-02", "PRX-33", "PRX-34")
@pytest.mark.parametrize("by_name", [True, False], ids=["by entry and gate", "by token"])
def test_a_program_decides_with_a_key_once(opened: Site, gate: HumanGate, by_name: bool) -> None:
    path = f"/api/gates/{gate.entry_id}/{gate.gate}" if by_name else f"/gates/{gate.token_id}/decide"
    body = json.dumps({"decision": "approve", "reason": "by rule"}).encode()
    kind = {"Content-Type": "application/json"}
    bare = opened.ask("POST", path, body, kind)
    wrong = opened.ask("POST", path, body, {**kind, "X-Api-Key": "wrong"})
    bad = opened.ask("POST", path, b"{", {**kind, "X-Api-Key": KEYS["bob"]})
    first = opened.ask("POST", path, body, {**kind, "X-Api-Key": KEYS["bob"]})
    second = opened.ask("POST", path, body, {**kind, "X-Api-Key": KEYS["ann"]})
    other = opened.ask("POST", path, body, {**kind, "X-Api-Key": KEYS["eve"]})

    assert [one.status for one in (bare, wrong, bad, first, second, other)] == [401, 401, 422, 200, 409, 404]
    told = json.loads(first.text)
    assert (told["token_id"], told["decision"], told["by"]) == (str(gate.token_id), "approve", "bob")
    assert "bob said 'approve' at" in json.loads(second.text)["error"]
