"""People: who is the same person, what each may do, and which roles a login gives."""

from uuid import UUID

import pytest

from verbworker.contract.person import Person, as_person, find_claim, read_roles
from verbworker.errors import NotAllowed

RITA = Person("rita", frozenset({"reviewer"}), "https://login", "u-1")


def test_a_person_is_known_by_issuer_and_subject_under_any_name() -> None:
    renamed = Person("Rita M.", None, "https://login", "u-1")

    assert isinstance(RITA.person_id, UUID)
    assert RITA.person_id == renamed.person_id
    assert Person("rita", None, "https://login", "\ud800").person_id is not None


@pytest.mark.parametrize(
    ("issuer", "subject"), [("https://login", "u-2"), ("https://other", "u-1"), ("https://log", "inu-1")]
)
def test_another_issuer_or_subject_is_another_person(issuer: str, subject: str) -> None:
    assert Person("rita", None, issuer, subject).person_id != RITA.person_id


@pytest.mark.parametrize(("issuer", "subject"), [(None, None), ("https://login", None), (None, "u-1")])
def test_without_issuer_and_subject_a_person_has_no_id(issuer: str | None, subject: str | None) -> None:
    assert Person("rita", None, issuer, subject).person_id is None


def test_a_record_is_of_a_person_by_identity_and_by_name_where_one_is_unknown() -> None:
    stranger = Person("rita", None, "https://login", "u-2").person_id

    assert RITA.is_same("an earlier name", RITA.person_id)
    assert not RITA.is_same("rita", stranger)
    assert RITA.is_same("rita", None)
    assert not RITA.is_same("carl", None)
    assert Person("rita").is_same("rita", stranger)
    assert not Person("rita").is_same("carl", RITA.person_id)


@pytest.mark.parametrize("roles", [None, frozenset({"clerk"}), frozenset({"clerk", "reader"})])
def test_a_role_other_than_reader_or_none_declared_may_change(roles: frozenset[str] | None) -> None:
    person = Person("rita", roles)

    person.require_change()

    assert person.may_change


@pytest.mark.parametrize("roles", [frozenset[str](), frozenset({"reader"})])
def test_a_reader_and_a_person_without_roles_may_only_look(roles: frozenset[str]) -> None:
    with pytest.raises(NotAllowed, match="rosa may only look: a change needs a role other than reader"):
        Person("rosa", roles).require_change()


def test_one_role_of_several_is_enough_and_undeclared_roles_are_all() -> None:
    assert RITA.has_any(["clerk", "reviewer"])
    assert not RITA.has_any(["clerk"])
    assert not RITA.has_any([])
    assert Person("olga").has_any(["clerk"])
    assert not Person("nina", frozenset()).has_any(["clerk"])


def test_a_name_is_a_person_of_whom_nothing_else_is_known() -> None:
    assert as_person("carl", frozenset({"clerk"})) == Person("carl", frozenset({"clerk"}))
    assert as_person(RITA) is RITA


@pytest.mark.parametrize(
    ("claim", "known", "roles"),
    [
        ("clerk", (), {"clerk"}),
        (["clerk", "reviewer", "clerk"], (), {"clerk", "reviewer"}),
        (["clerk", "reviewer"], ("reviewer", "lead"), {"reviewer"}),
        (["clerk", 7, None, {"reviewer": 1}, ["lead"]], (), {"clerk"}),
        (["clerk", "cl\x00erk", "cl\u202eerk", "clerk\n", ""], (), {"clerk"}),
        (["a" * 200, "b" * 201], (), {"a" * 200}),
        (None, (), set()),
        ({"clerk": True}, (), set()),
    ],
)
def test_of_a_claim_only_texts_that_can_be_roles_are_roles(
    claim: object, known: tuple[str, ...], roles: set[str]
) -> None:
    assert read_roles(claim, known) == roles


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("roles", ["a"]),
        ("realm_access.roles", ["b"]),
        ("https://x.example/roles", ["c"]),
        ("realm_access.roles.deeper", None),
        ("other.roles", None),
        ("other", None),
    ],
)
def test_a_claim_is_found_by_its_whole_name_else_step_by_step(path: str, value: object) -> None:
    claims = {"roles": ["a"], "realm_access": {"roles": ["b"]}, "https://x.example/roles": ["c"]}

    assert find_claim(claims, path) == value


def test_where_there_are_no_claims_nothing_is_found() -> None:
    assert find_claim(None, "roles") is None
    assert find_claim(["roles"], "roles") is None
