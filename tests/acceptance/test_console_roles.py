"""What the console offers to whom: no button that would be refused, and the reason in its place."""

import re
from collections.abc import Iterator
from uuid import UUID

import pytest

from tests.support.apart import run_apart
from tests.support.entries import StoredEntry
from tests.support.gate_people import KEYS, credentials, park, person
from tests.support.site import Site, Visitor, site
from verbworker.runbook.event import Wait
from verbworker.stores.database import Database
from verbworker.work.gates.decide import Gates


@pytest.fixture(scope="module")
def gates(shared: str) -> dict[str, UUID]:
    """Gates with every rule, by the rule."""

    async def make() -> dict[str, UUID]:
        async with Database(shared, size=2) as database:
            stored, first = await park(database, element=1, gate="check", asked_by="olga")
            found = {
                "free": (await park(database, element=2))[1],
                "audience": (await park(database, element=3, audience=["reviewer", "lead"]))[1],
                "asked": (await park(database, element=4, asked_by="rita", four_eyes=True))[1],
                "decided": (await park(database, element=5, beside=stored, distinct_from=["check"]))[1],
                "claimed": (await park(database, element=6))[1],
            }
            await Gates(database).decide(first, "approve", by=person("carl"), tenant_id="default")
            await Gates(database).claim(found["claimed"], person("rita"), "default")
            return found

    return run_apart(make())


@pytest.fixture(scope="module")
def console(shared: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("console")
    with site(folder, shared, directory=folder, VERBWORKER_CONSOLE_CREDENTIALS=credentials()) as opened:
        yield opened


def visitor(console: Site, name: str) -> Visitor:
    found = Visitor(console)
    assert found.send("/login", {"key": KEYS[name][0], "next": "/"}).status == 303
    return found


def offered(text: str, gate: UUID) -> tuple[str, ...]:
    """Which acts the page of a task has a form for."""
    return tuple(act for act in ("decide", "claim", "release") if f'action="/gates/{gate}/{act}"' in text)


def reason(text: str) -> str:
    """Why the page of a task has no form to decide."""
    return " ".join(re.findall(r'<p class="denied">(.*?)</p>', text))


ALL, NOTHING = ("decide", "claim"), ()
SEEN = {
    ("rita", "free"): (ALL, ""),
    ("rita", "audience"): (ALL, ""),
    ("rita", "asked"): (NOTHING, "Rita asked for this case, so another person must decide at review."),
    ("rita", "decided"): (ALL, ""),
    ("rita", "claimed"): (("decide", "release"), ""),
    ("carl", "free"): (ALL, ""),
    ("carl", "audience"): (NOTHING, "Only reviewer or lead may decide at review, and carl has the roles clerk."),
    ("carl", "asked"): (ALL, ""),
    ("carl", "decided"): (NOTHING, "Carl decided at check, so another person must decide at review."),
    ("carl", "claimed"): (NOTHING, "Only rita or a supervisor may release review, and carl has the roles clerk."),
    ("sven", "audience"): (NOTHING, "Only reviewer or lead may decide at review, and sven has"),
    ("sven", "claimed"): (("release",), ""),
    ("rosa", "free"): (NOTHING, "Rosa may only look: a change needs a role other than reader."),
    ("rosa", "claimed"): (NOTHING, "Rosa may only look: a change needs a role other than reader."),
    ("nina", "free"): (NOTHING, "Nina may only look: a change needs a role other than reader."),
    ("olga", "free"): (ALL, ""),
    ("olga", "audience"): (ALL, ""),
    ("olga", "claimed"): (("release",), ""),
}


@pytest.mark.parametrize("name", list(KEYS))
def test_a_task_offers_what_its_visitor_may_do_and_says_why_not(
    console: Site, gates: dict[str, UUID], name: str
) -> None:
    one = visitor(console, name)
    expected = {rule: seen for (who, rule), seen in SEEN.items() if who == name}
    pages = {rule: one.get(f"/gates/{gates[rule]}").text for rule in expected}

    assert {rule: offered(page, gates[rule]) for rule, page in pages.items()} == {
        rule: acts for rule, (acts, _) in expected.items()
    }
    for rule, (_, words) in expected.items():
        assert words in reason(pages[rule]), rule


@pytest.mark.parametrize("name", list(KEYS))
def test_what_is_offered_is_allowed_and_what_is_not_offered_is_refused(
    console: Site, gates: dict[str, UUID], name: str
) -> None:
    one = visitor(console, name)
    for rule, gate in gates.items():
        page = one.get(f"/gates/{gate}")
        may = "decide" in offered(page.text, gate)
        # A word that the gate does not have is refused last, and changes nothing.
        word = "no such word" if may else "approve"
        answer = one.send(f"/gates/{gate}/decide", {"decision": word, "csrf": page.csrf})

        assert answer.status in ((422,) if may else (403, 409)), (rule, answer.sentence)


def test_the_page_of_a_case_says_the_same(console: Site, gates: dict[str, UUID], shared: str) -> None:
    gate, place = gates["audience"], f"/entries/{_entry(shared, gates['audience'])}"

    assert offered(visitor(console, "carl").get(place).text, gate) == NOTHING
    assert offered(visitor(console, "rita").get(place).text, gate) == ALL


@pytest.mark.parametrize(("name", "has_forms"), [("rosa", False), ("nina", False), ("carl", True), ("olga", True)])
def test_who_may_only_look_is_shown_no_form(
    console: Site, gates: dict[str, UUID], troubles: tuple[UUID, str], name: str, has_forms: bool
) -> None:
    entry, incident = troubles
    one = visitor(console, name)
    pages = [one.get(path).text for path in ("/dead-letters", f"/entries/{entry}", f"/incidents/one?id={incident}")]
    forms = [bool(re.findall(r'<form method="post" action="/(?!logout)', page)) for page in pages]

    assert forms == [has_forms] * 3
    assert [f"{name.capitalize()} may only look" in page for page in pages] == [not has_forms] * 3


@pytest.fixture(scope="module")
def troubles(shared: str) -> tuple[UUID, str]:
    """A case that waits for an operator, its incident, and an undeliverable message."""

    async def make() -> tuple[UUID, str]:
        async with Database(shared, size=2) as database:
            stored = await StoredEntry.open(database)
            await stored.start(70)
            await stored.park(stored.token(70, Wait.INCIDENT, reason="it broke", job_key=70, instance_key=70))
            letter = "INSERT INTO verbworker.dead_letter (tenant_id, code, reason, body, sent_by)"
            values = " VALUES ('default', 'invalid', 'no JSON', '', 'portal')"
            await database.execute(letter + values)
            found = await stored.value("SELECT token_id FROM verbworker.parked_token WHERE element_instance_key = 70")
            return stored.entry_id, str(found)

    return run_apart(make())


def _entry(dsn: str, gate: UUID) -> UUID:
    async def read() -> UUID:
        async with Database(dsn, size=2) as database:
            return (await Gates(database).find(gate, "default")).entry_id

    return run_apart(read())
