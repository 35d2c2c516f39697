"""Tasks in the console as a process: what the page of one shows, and what its forms do."""

import itertools
import json
import re
from collections.abc import Iterator
from hashlib import sha256
from html import unescape
from typing import Any

import pytest

from tests.support.apart import run_apart
from tests.support.databases import execute
from tests.support.site import Site, parked, site
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
    assert re.findall(r'<dd[^>]*>\s*<a href="([^"]+)"', page) == ["https://papers.example/7?a=1&amp;b=2"]
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
