"""Tasks in the console as a process: what the page of one shows, and what its forms do."""

import itertools
import json
import re
from collections.abc import Iterator
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.support.apart import run_apart
from tests.support.command import verbworker
from tests.support.databases import execute, value
from tests.support.site import KEYS, Site, parked, site
from verbworker.stores.cases.gates import HumanGate

_elements = itertools.count(7000)
FIELDS = {"kyc.open-case/v1": ["claim", "amount", "papers", "report", "evil", "due", "seen"]}
SHOW = [
    {"field": "claim.number", "label": "Claim"},
    {"field": "amount", "label": "Amount", "format": "money", "currency": "EUR"},
    {"field": "due", "label": "Due on", "format": "date"},
    {"field": "papers", "label": "Papers", "format": "list"},
    {"field": "report", "label": "Report", "format": "link"},
    {"field": "evil", "label": "Address", "format": "link"},
    {"field": "seen", "label": "Seen by a doctor", "format": "yes/no"},
    {"field": "secret", "label": "Secret"},
    {"field": "claim.later", "label": "Later"},
]
DATA = {
    "claim": {"number": "C-1 <b>"},
    "amount": "1250000.5",
    "due": "2030-01-31",
    "papers": ["passport", {"kind": "extract", "reference": "E-7"}],
    "report": "https://papers.example/7?a=1&b=2",
    "evil": "javascript:alert(1)",
    "seen": False,
    "secret": "P-1234567",
}


@pytest.fixture(scope="module")
def opened(shared: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("tasks"), shared, VERBWORKER_CONSOLE_FIELDS=json.dumps(FIELDS)) as running:
        yield running


def open_task(dsn: str, data: dict[str, Any] | None = None, **detail: Any) -> HumanGate:
    """A gate whose case has this payload."""
    asked = {"decisions": ["approve", "reject"], "audience": "reviewer", **detail}
    gate = parked(dsn, element=next(_elements), token={"detail": asked}, sentence="Handle claim C-1")
    content = json.dumps({"schema": "kyc.open-case/v1", "data": data or {}}).encode()
    move = (
        "UPDATE verbworker.payload_head SET content = $1, hash = sha256($1), version = version + 1, seal = $2"
        " WHERE instance_uid = $3"
    )
    run_apart(execute(dsn, move, content, "sha256:" + sha256(content).hexdigest(), gate.instance_uid))
    known = (
        "INSERT INTO verbworker.payload_version SELECT instance_uid, hash, version FROM verbworker.payload_head"
        " WHERE instance_uid = $1"
    )
    run_apart(execute(dsn, known, gate.instance_uid))
    return gate


def facts(page: str) -> dict[str, str]:
    """The facts of a page as a person reads them."""
    rows = re.findall(r"<dt[^>]*>(.*?)</dt>\s*<dd[^>]*>(.*?)</dd>", page.split('id="facts"')[1], re.DOTALL)
    texts = ((name, " ".join(re.sub(r"<[^>]+>", " ", shown).split())) for name, shown in rows)
    return {unescape(name): unescape(text) for name, text in texts}


def test_a_task_shows_the_facts_of_its_contract_and_never_json(opened: Site, shared: str) -> None:
    gate = open_task(shared, DATA, show=SHOW)
    page = opened.visitor("ann").get(f"/gates/{gate.token_id}").text
    shown = facts(page)

    assert {name: shown[name] for name in ("Claim", "Amount", "Due on", "Papers", "Report", "Address")} == {
        "Claim": "C-1 <b>",
        "Amount": "1,250,000.50 EUR",
        "Due on": "31 January 2030",
        "Papers": "passport kind: extract, reference: E-7",
        "Report": "https://papers.example/7?a=1&b=2",
        "Address": "javascript:alert(1)",
    }
    assert (shown["Seen by a doctor"], shown["Secret"]) == ("No", "Not shown in this console")
    assert shown["Later"] == "Not known yet"
    assert re.findall(r'<bdi><a href="([^"]+)"', page) == ["https://papers.example/7?a=1&amp;b=2"]
    assert ("P-1234567" in page, "{&#34;" in page, "<h1 dir" in page) == (False, False, True)
    # The declaration itself is nothing that a person reads.
    assert "&#39;field&#39;" not in page
    assert page.index("1,250,000.50") < page.index("Reason, stored with the decision")


def test_a_task_without_facts_says_so_and_is_decided_on_its_page(opened: Site, shared: str) -> None:
    gate = open_task(shared)
    ann, where = opened.visitor("ann"), f"/gates/{gate.token_id}"
    page = ann.get(where).text
    claimed = ann.fill(where, f"{where}/claim", {"from": "task"})
    decided = ann.fill(where, f"{where}/decide", {"decision": "approve", "reason": "seen", "from": "task"})
    after = ann.get(decided.headers["location"]).text

    assert "The contract of this task declares no facts to show." in page
    assert claimed.headers["location"] == f"{where}?done=claimed"
    assert decided.headers["location"] == f"{where}?done=decided"
    assert "Your decision is stored" in after
    assert re.search(r"<strong[^>]*>ann</strong> decided <strong>approve</strong>", after)
    assert '<form method="post" action="/gates' not in after


def test_a_task_of_another_tenant_or_of_nobody_is_not_found(opened: Site, shared: str) -> None:
    gate = open_task(shared, DATA, show=SHOW)
    answers = [
        opened.visitor("eve").get(f"/gates/{gate.token_id}"),
        opened.visitor("ann").get("/gates/00000000-0000-0000-0000-000000000000"),
        opened.visitor("ann").get("/gates/x"),
    ]

    assert [answer.status for answer in answers] == [404, 404, 404]
    assert [text for text in ("C-1", "1,250,000", "passport") if text in answers[0].text] == []


def test_a_payload_that_was_changed_from_outside_is_not_shown_as_facts(opened: Site, shared: str) -> None:
    gate = open_task(shared, DATA, show=SHOW)
    forget = "DELETE FROM verbworker.payload_version WHERE instance_uid = $1"
    run_apart(execute(shared, forget, gate.instance_uid))
    page = opened.visitor("ann").get(f"/gates/{gate.token_id}").text

    assert "The payload of record is not the newest version of this instance" in page
    assert "1,250,000" not in page


# ---- lists ----------------------------------------------------------------------------------------------------------


def listed(page: str) -> list[str]:
    return re.findall(r'<tr class="task" id="gate-([^"]+)"', page)


def links(page: str, rel: str) -> list[str]:
    return [unescape(href) for href in re.findall(rf'<a rel="{rel}" href="([^"]+)"', page)]


def test_a_list_is_its_address_and_is_read_page_by_page(opened: Site, shared: str) -> None:
    word = "paged-list"
    gates = [
        parked(shared, element=next(_elements), token={"detail": {"priority": "70"}}, sentence=f"Read {word} {number}")
        for number in range(52)
    ]
    ann = opened.visitor("ann")
    first = ann.get(f"/gates?q={word}&sort=oldest")
    (further,) = links(first.text, "next")
    second = ann.get(further)

    assert listed(first.text) + listed(second.text) == [str(gate.token_id) for gate in gates]
    assert (len(listed(second.text)), links(second.text, "next")) == (2, [])
    assert 'value="paged-list"' in second.text
    assert "<strong>High</strong> (70)" in first.text
    # The page of a task leads back to the same list, and on to its next task.
    where = f"/gates/{gates[0].token_id}?q={word}&sort=oldest"
    assert f'href="{where.replace("&", "&amp;")}"' in first.text
    form = {"decision": "yes", "from": "task", "list": f"q={word}&sort=oldest"}
    decided = ann.fill(where, f"/gates/{gates[0].token_id}/decide", form)
    after = ann.get(decided.headers["location"]).text
    assert decided.headers["location"] == f"/gates/{gates[0].token_id}?q={word}&sort=oldest&done=decided"
    assert f'href="/gates/{gates[1].token_id}?q={word}&amp;sort=oldest"' in after.partition('id="next"')[2]


def test_an_odd_address_is_a_list_too(opened: Site) -> None:
    ann = opened.visitor("ann")
    paths = ("view=x", "sort=x", "after=own~nan~2030-01-01~x", "after=free~1e999~2030-01-01T00:00Z~" + "0" * 32)
    more = ("from=31.1.2030", "q=%00%27--", "q=%25", "gate=%ff", "to=9999-12-31")
    answers = {path: ann.get(f"/gates?{path}") for path in (*paths, *more)}

    assert {path: answer.status for path, answer in answers.items()} == dict.fromkeys(answers, 200)
    assert "31.1.2030 is no day; write it as 2030-01-31." in answers["from=31.1.2030"].text


def test_a_list_that_a_form_carries_leads_nowhere_else(opened: Site, shared: str) -> None:
    gate = open_task(shared)
    where = f"/gates/{gate.token_id}"
    form = {"from": "task", "list": "q=a&next=https://evil.example&view=all&\r\nX: y&" + "z=1&" * 90}
    answer = opened.visitor("ann").fill(where, f"{where}/claim", form)

    assert (answer.status, answer.headers["location"]) == (303, f"{where}?done=claimed")


# ---- passing on -----------------------------------------------------------------------------------------------------


def test_a_task_is_passed_on_and_the_story_says_by_whom(opened: Site, shared: str) -> None:
    gate = open_task(shared)
    where = f"/gates/{gate.token_id}"
    ann, bob = opened.visitor("ann"), opened.visitor("bob")
    bare = ann.fill(where, f"{where}/assign", {"to": ""})
    long = ann.fill(where, f"{where}/assign", {"to": "x" * 201})
    passed = ann.fill(where, f"{where}/assign", {"to": "bob", "from": "task"})
    refused = ann.fill(where, f"{where}/decide", {"decision": "approve"})
    page = bob.get(where).text
    own = bob.get("/gates?view=claimed").text
    again = bob.fill(where, f"{where}/assign", {"to": "bob", "from": "task"})
    decided = bob.fill(where, f"{where}/decide", {"decision": "approve"})
    late = bob.send(f"{where}/assign", {"to": "ann", "csrf": bob.get("/").csrf})

    assert [bare.status, long.status, passed.status, refused.status] == [422, 422, 303, 409]
    assert passed.headers["location"] == f"{where}?done=assigned"
    assert "ann gave review to bob" in page
    assert str(gate.token_id) in listed(own)
    assert [again.status, decided.status, late.status] == [303, 303, 409]
    claims = "SELECT count(*) FROM verbworker.runbook_event WHERE entry_id = $1 AND kind = 'GateClaimed'"
    assert run_apart(value(shared, claims, gate.entry_id)) == 1


def test_a_task_is_only_passed_to_whom_may_decide_by_whom_may_release(tmp_path: Path, dsn: str) -> None:
    keys = [
        {"name": name, "tenant": "default", "sha256": sha256(KEYS[name].encode()).hexdigest(), "roles": roles}
        for name, roles in (("ann", ["reviewer"]), ("bob", ["clerk"]), ("eve", ["reviewer", "supervisor"]))
    ]
    gate = open_task(dsn, four_eyes=True)
    where = f"/gates/{gate.token_id}"
    with site(tmp_path, dsn, VERBWORKER_CONSOLE_CREDENTIALS=json.dumps({"api_keys": keys})) as running:
        ann, bob, eve = (running.visitor(name) for name in ("ann", "bob", "eve"))
        page = bob.get(where).text
        by_clerk = bob.fill(where, f"{where}/assign", {"to": "ann"})
        to_clerk = ann.fill(where, f"{where}/assign", {"to": "bob"})
        to_asker = ann.fill(where, f"{where}/assign", {"to": "ada"})
        to_eve = ann.fill(where, f"{where}/assign", {"to": "eve"})
        back = ann.fill(where, f"{where}/assign", {"to": "ann"})
        by_supervisor = eve.fill(where, f"{where}/assign", {"to": "ann"})
        hers = bob.get("/gates?view=all").text
        names = eve.get(where).text

    assert "Only reviewer may decide at review, and bob has the roles clerk." in page
    assert "Pass it on" not in page
    assert (by_clerk.status, to_clerk.status, to_asker.status) == (403, 403, 403)
    assert to_clerk.sentence == "Only reviewer may decide at review, and bob has the roles clerk."
    assert to_asker.sentence == "Ada asked for this case, so another person must decide at review."
    assert (to_eve.status, back.status, by_supervisor.status) == (303, 403, 303)
    assert back.sentence == "Only eve or a supervisor may release review, and ann has the roles reviewer."
    assert listed(hers) == [str(gate.token_id)]
    assert '<option value="bob">' in names


# ---- the form of a decision -----------------------------------------------------------------------------------------

FORM: dict[str, Any] = {
    "choices": [
        {"name": "approve", "label": "Pay the claim", "tone": "positive", "confirm": "Pay this claim for good?"},
        {"name": "reject", "label": "Refuse", "tone": "negative"},
    ],
    "inputs": [
        {
            "name": "limit",
            "type": "amount",
            "label": "Amount paid",
            "required": True,
            "minimum": 1,
            "maximum": 5000,
            "currency": "EUR",
            "only_for": ["approve"],
        },
        {"name": "second-look", "type": "yes/no"},
        {"name": "why", "type": "choice", "label": "Ground", "values": ["late", "fraud"], "only_for": ["reject"]},
        {"name": "until", "type": "date"},
        {"name": "note", "type": "comment", "max_length": 20},
    ],
}
STORED = "SELECT inputs FROM verbworker.gate_decision WHERE token_id = $1"


def test_a_decision_is_made_with_what_the_contract_asks_for(opened: Site, shared: str) -> None:
    gate = open_task(shared, **FORM)
    ann, where = opened.visitor("ann"), f"/gates/{gate.token_id}"
    act, page = f"{where}/decide", ann.get(where).text
    form = {"decision": "approve", "from": "task", "reason": "seen"}
    missing = ann.fill(where, act, form)
    large = ann.fill(where, act, {**form, "input.limit": "9000"})
    other = ann.fill(where, act, {**form, "input.limit": "90", "input.why": "late"})
    odd = ann.fill(where, act, {**form, "input.limit": "90", "input.limt": "1"})
    asked = ann.fill(where, act, {**form, "input.limit": "1250.5", "input.second-look": "yes", "input.until": ""})
    unmade = run_apart(value(shared, STORED, gate.token_id))
    kept = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', asked.text))
    made = ann.send(act, kept)
    after = ann.get(made.headers["location"]).text

    assert re.findall(r'class="(is-[a-z]+)">([A-Z][^<]+)<', page) == [
        ("is-positive", "Pay the claim"),
        ("is-negative", "Refuse"),
    ]
    assert "Amount paid in EUR" in page
    assert "(for Pay the claim, at least 1, at most 5000)" in page
    refusals = {answer.status: answer.sentence for answer in (missing, large, other, odd)}
    assert list(refusals) == [422]
    assert (missing.sentence, large.sentence) == (
        "The input limit is missing.",
        "The input limit must be at most 5000.",
    )
    assert other.sentence == "The input why is for reject only."
    assert odd.sentence == "There is no input 'limt' (did you mean limit?)."
    assert (asked.status, "Pay this claim for good?" in asked.text, unmade) == (200, True, None)
    assert made.headers["location"] == f"{where}?done=decided"
    assert json.loads(run_apart(value(shared, STORED, gate.token_id))) == {"limit": "1250.5", "second-look": True}
    assert re.search(r"Amount paid</dt><dd><bdi>1,250.50 EUR<", after)
    assert re.search(r"Second look</dt><dd><bdi>Yes<", after)


def test_a_task_shows_why_the_engine_does_not_have_its_decision(opened: Site, shared: str) -> None:
    gate = open_task(shared)
    ann, where = opened.visitor("ann"), f"/gates/{gate.token_id}"
    ann.fill(where, f"{where}/decide", {"decision": "approve", "from": "task"})
    before = ann.get(where).text
    refusal = "UPDATE verbworker.gate_decision SET last_error = $2 WHERE token_id = $1"
    run_apart(execute(shared, refusal, gate.token_id, "the task list answered 403 <b>"))
    refused = ann.get(where).text
    taken = "SET last_error = NULL, answer = 'completed', acked_at = clock_timestamp() WHERE token_id = $1"
    run_apart(execute(shared, f"UPDATE verbworker.gate_decision {taken}", gate.token_id))
    after = ann.get(where).text

    words = "The engine has not taken the decision yet: the task list answered 403 &lt;b&gt;"
    assert [words in page for page in (before, refused, after)] == [False, True, False]
    assert ["has not taken" in page for page in (before, after)] == [False, False]


def test_programs_give_the_same_inputs_without_a_question(opened: Site, shared: str) -> None:
    gate = open_task(shared, **FORM)
    ann, where = opened.visitor("ann"), f"/gates/{gate.token_id}/decide"

    def ask(body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json", "X-Api-Key": KEYS["ann"]}
        return ann.site.ask("POST", where, json.dumps(body).encode(), headers)

    refused = ask({"decision": "reject", "inputs": {"why": "other"}})
    odd = ask({"decision": "reject", "inputs": ["why"]})
    made = ask({"decision": "reject", "inputs": {"why": "fraud", "note": "seen twice"}})

    assert (refused.status, odd.status, made.status) == (422, 422, 200)
    assert "the input why must be one of late, fraud" in refused.text
    assert json.loads(run_apart(value(shared, STORED, gate.token_id))) == {"why": "fraud", "note": "seen twice"}


def test_the_command_takes_inputs(shared: str, tmp_path: Path) -> None:
    gate = open_task(shared, **FORM)
    words = ("gates", "decide", str(gate.token_id), "approve", "--by", "ann")
    bare = verbworker(*words, "--input", "limit", directory=tmp_path, dsn=shared)
    wrong = verbworker(*words, "--input", "limit=much", directory=tmp_path, dsn=shared)
    made = verbworker(*words, "--input", "limit=12", "--input", "note=a=b", directory=tmp_path, dsn=shared)

    assert (bare.code, bare.sentence()) == (1, "verbworker: write an input as NAME=VALUE")
    assert (wrong.code, "the input limit must be an amount, like 1250.00" in wrong.sentence()) == (1, True)
    assert made.code == 0
    assert json.loads(run_apart(value(shared, STORED, gate.token_id))) == {"limit": "12", "note": "a=b"}
