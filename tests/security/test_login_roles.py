"""Roles and identities of people who log in at an issuer: what a claim may be, and who is who."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from tests.support.apart import run_apart
from tests.support.gate_people import park
from tests.support.issuer import CLIENT, SECRET, Issuer, issuer
from tests.support.postgres import Template
from tests.support.site import Site, Visitor, site
from verbworker.contract.person import MOST_ROLES, Person, find_claim, read_roles
from verbworker.stores.database import Database

pytestmark = pytest.mark.attack("auth")

NO_ROLES: dict[str, Any] = {
    "nothing": None,
    "a number": 7,
    "true": True,
    "an object": {"reviewer": True},
    "an object in a list": [{"name": "reviewer"}],
    "a list in a list": [["reviewer"]],
    "several in a text": "reviewer,lead",
    "lines": "reviewer\nlead",
    "a space behind": "reviewer ",
    "a space before": [" reviewer"],
    "a null": ["reviewer\x00"],
    "an invisible space": ["reviewer\u2003"],
    "a control of C1": ["reviewer\x85"],
    "a change of direction": ["reviewer\u202e"],
    "half a pair": ["reviewer\ud800"],
    "the empty text": "",
    "another case": ["Reviewer"],
    "a look-alike": ["revi\u0435wer"],
    "bytes": [b"reviewer"],
}


@pytest.mark.parametrize("claim", NO_ROLES.values(), ids=NO_ROLES)
def test_what_is_not_exactly_the_role_is_not_the_role(claim: object) -> None:
    person = Person("eve", read_roles(claim))

    assert not person.has_any(["reviewer"])
    assert person.roles is not None  # a claim that cannot be read is not a claim that is not asked for


@pytest.mark.parametrize(
    ("claims", "path", "found"),
    [
        ({"roles": ["a"]}, "roles", ["a"]),
        ({"realm_access": {"roles": ["a"]}}, "realm_access.roles", ["a"]),
        ({"https://x.example/roles": ["a"]}, "https://x.example/roles", ["a"]),
        ({"realm_access": ["roles"]}, "realm_access.roles", None),
        ({"realm_access": "roles"}, "realm_access.roles", None),
        ({}, "realm_access.roles", None),
        ({"roles": {"": ["a"]}}, "roles.__class__", None),
    ],
)
def test_a_claim_is_found_by_its_name_or_the_way_to_it(claims: object, path: str, found: object) -> None:
    assert find_claim(claims, path) == found


def test_no_two_pairs_of_issuer_and_subject_are_one_person() -> None:
    pairs = [("a", "bc"), ("ab", "c"), ("", "abc"), ("abc", ""), ("1:a", "b"), ("1", ":ab"), ("a", "b"), ("A", "b")]

    assert len({Person("x", None, *pair).person_id for pair in pairs}) == len(pairs)


# ---- the console ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def issuing() -> Iterator[Issuer]:
    with issuer() as made:
        yield made


@pytest.fixture(scope="module")
def place(
    issuing: Issuer, tmp_path_factory: pytest.TempPathFactory, database_template: Template
) -> Iterator[tuple[Site, str]]:
    known = {"issuer": issuing.url, "client_id": CLIENT, "client_secret": SECRET, "roles_claim": "groups"}
    given = {"VERBWORKER_CONSOLE_CREDENTIALS": json.dumps({"oidc": known})}
    folder: Path = tmp_path_factory.mktemp("console")
    with database_template.clone() as dsn, site(folder, dsn, directory=folder, **given) as opened:
        yield opened, dsn


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def log_in(place: tuple[Site, str], issuing: Issuer, sub: str, name: str, **claims: Any) -> Visitor:
    """Log in at the issuer, and come back."""
    issuing.claims = {"tenant_id": "default", "sub": sub, "preferred_username": name, **claims}
    visitor = Visitor(place[0])
    there = visitor.get("/login/issuer?next=%2Fgates").headers["location"]
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay).open(there, timeout=10)
    except urllib.error.HTTPError as answer:
        with answer:
            back = urlsplit(answer.headers["Location"])._replace(scheme="", netloc="").geturl()
    visitor.get(back)
    return visitor


_elements = iter(range(1, 1000))


def open_gate(place: tuple[Site, str], **rules: Any) -> UUID:
    async def make() -> UUID:
        async with Database(place[1], size=2) as database:
            return (await park(database, element=next(_elements), **rules))[1]

    return run_apart(make())


CLAIMS: dict[str, dict[str, Any]] = {
    "no claim": {},
    "null": {"groups": None},
    "another role": {"groups": ["clerk"]},
    "only reader": {"groups": ["reader"]},
    "an object": {"groups": {"reviewer": True}},
    "another claim": {"roles": ["reviewer"]},
    "a look-alike": {"groups": ["revi\u0435wer"]},
    "lists": {"groups": [["reviewer"]]},
}


@pytest.mark.parametrize("claims", CLAIMS.values(), ids=CLAIMS)
def test_a_login_without_the_role_decides_nothing(
    place: tuple[Site, str], issuing: Issuer, claims: dict[str, Any]
) -> None:
    gate = open_gate(place, audience=["reviewer"])
    visitor = log_in(place, issuing, "u-9", "eve", **claims)

    answer = visitor.fill("/gates", f"/gates/{gate}/decide", {"decision": "approve"})

    assert answer.status == 403
    assert "may" in answer.sentence


def test_people_are_kept_by_issuer_and_subject(place: tuple[Site, str], issuing: Issuer) -> None:
    gate = open_gate(place)
    ada = log_in(place, issuing, "u-1", "ada", groups=["reviewer"])
    claimed = ada.fill("/gates", f"/gates/{gate}/claim", {})
    namesake = log_in(place, issuing, "u-2", "ada", groups=["reviewer"])
    taken = namesake.fill("/gates", f"/gates/{gate}/decide", {"decision": "approve"})
    renamed = log_in(place, issuing, "u-1", "ada.lovelace", groups=["reviewer"])
    decided = renamed.fill("/gates", f"/gates/{gate}/decide", {"decision": "approve"})

    async def read() -> list[tuple[str, str]]:
        async with Database(place[1], size=2) as database:
            rows = await database.fetch("SELECT subject, name FROM verbworker.person WHERE subject IN ('u-1', 'u-2')")
            return sorted((row["subject"], row["name"]) for row in rows)

    assert (claimed.status, taken.status, decided.status) == (303, 409, 303)
    assert "another person of that name" in taken.sentence
    assert run_apart(read()) == [("u-1", "ada.lovelace"), ("u-2", "ada")]


@pytest.mark.parametrize("name", ["a\x00b", "a\ud800"], ids=["null", "half a pair"])
def test_a_name_that_cannot_be_kept_is_no_login(place: tuple[Site, str], issuing: Issuer, name: str) -> None:
    visitor = log_in(place, issuing, "u-3", name, groups=["reviewer"])

    assert visitor.get("/gates").status == 303  # to the login


@pytest.mark.parametrize("claim", ["sub", "preferred_username", "tenant_id"])
def test_a_name_with_hidden_characters_is_no_login(place: tuple[Site, str], issuing: Issuer, claim: str) -> None:
    hidden = {"sub": "u-5", "preferred_username": "ada", "tenant_id": "default"}
    hidden[claim] += "\u202e"
    visitor = log_in(place, issuing, hidden["sub"], hidden["preferred_username"], tenant_id=hidden["tenant_id"])

    assert visitor.get("/gates").status == 303


def test_more_roles_than_a_cookie_has_room_for_all_count(place: tuple[Site, str], issuing: Issuer) -> None:
    gate = open_gate(place, audience=["reviewer"])
    groups = [*(f"group-{number:05}" for number in range(900)), "reviewer"]
    visitor = log_in(place, issuing, "u-4", "bob", groups=groups)

    assert visitor.fill("/gates", f"/gates/{gate}/decide", {"decision": "approve"}).status == 303


def test_more_roles_than_anybody_has_are_refused(place: tuple[Site, str], issuing: Issuer) -> None:
    visitor = log_in(place, issuing, "u-6", "eve", groups=[f"g{number}" for number in range(MOST_ROLES + 1)])

    assert visitor.get("/gates").status == 303  # to the login
