"""Catchers: the linter and the worker find the event that the engines take; `tests/conformance` asks the engines."""

from dataclasses import replace

import pytest

from tests.support.error_models import ROWS, Row
from tests.support.fixture_models import fixture_models
from verblint.bpmn.assembly import assemble
from verblint.bpmn.model import Definitions
from verblint.bpmn.reader import read
from verblint.contracts.contract import Contracts
from verblint.flow.catchers import Thrower, catchers, throwers


def _model(row: Row) -> Definitions:
    return assemble(read(row.drawing.xml()))


def _work(model: Definitions) -> Thrower:
    return next(found for found in throwers(model, model.processes[0]) if found.node.id == "work")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_code_is_caught_by_the_event_of_the_table(row: Row) -> None:
    found = _work(_model(row)).catcher(row.code)

    assert (None if found is None else found.event.id) == row.by


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_catcher_that_a_step_reaches_is_one_of_the_process(row: Row) -> None:
    model = _model(row)
    known = {catcher.event.id for catcher in catchers(model, model.processes[0])}

    assert {catcher.event.id for catcher in _work(model).catchers} <= known
    assert row.by is None or row.by in known


@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        ("task", ("work",)),
        ("two levels", ("work", "inner", "box")),
        ("beside its scope", ("work", "box")),
        ("instead of its scope", ("work",)),
        ("message end event", ()),
    ],
)
def test_a_boundary_event_could_stand_where_engines_look(name: str, hosts: tuple[str, ...]) -> None:
    row = next(row for row in ROWS if row.name == name)

    assert _work(_model(row)).hosts == hosts


FOUND = [
    (
        "error-undeclared/invalid",
        "error",
        "claim.check does not declare the code POLICY_LAPSE, which misspelt catches",
        "Catch POLICY_LAPSED",
    ),
    (
        "error-undeclared/invalid-no-codes",
        "error",
        "claim.note does not declare the code FRAUD, which fraud catches",
        "Declare FRAUD for claim.note, or remove the event",
    ),
    (
        "error-uncaught/invalid",
        "error",
        "claim.check may end with the code POLICY_LAPSED, and nothing catches it",
        "Add an error boundary event for POLICY_LAPSED to check",
    ),
    (
        "error-uncaught/invalid-message-event",
        "error",
        "claim.check may end with the code POLICY_LAPSED, and nothing catches it",
        "Make it a task: engines take no code from an event",
    ),
    (
        "error-uncaught/invalid-interrupting",
        "error",
        "claim.check may end with the code POLICY_LAPSED, and nothing catches it",
        "Add an error boundary event for POLICY_LAPSED to check",
    ),
    (
        "error-unreachable/invalid",
        "warning",
        "fraud catches the code FRAUD, and no code of a verb reaches it",
        "Remove it, or catch a code that is declared",
    ),
    (
        "error-unreachable/invalid-gate",
        "warning",
        "any catches every error, and no code of a verb reaches it",
        "Remove it, or catch a code that is declared",
    ),
    (
        "verb-without-errors/invalid",
        "warning",
        "claim.ask does not declare its error codes, and gone catches errors over it",
        "Add claim.ask to errors of claim.settle, with its codes or an empty list",
    ),
]


@pytest.mark.parametrize(("name", "severity", "message", "hint"), FOUND, ids=[row[0] for row in FOUND])
def test_a_rule_says_what_is_wrong_and_what_to_do(name: str, severity: str, message: str, hint: str) -> None:
    slug, stem = name.split("/")
    (model,) = [model for model in fixture_models(f"rules/{slug}") if model.path.stem == stem]

    found = [finding for finding in model.findings() if finding.slug == slug]

    assert [(str(one.severity), one.message, one.hint) for one in found] == [(severity, message, hint)]


@pytest.mark.parametrize("slug", ["error-undeclared", "error-uncaught", "error-unreachable", "verb-without-errors"])
def test_without_contracts_nothing_is_known_of_codes(slug: str) -> None:
    for model in fixture_models(f"rules/{slug}"):
        assert [found for found in replace(model, contracts=Contracts()).findings() if found.slug == slug] == []


def test_a_code_is_undeclared_or_unreachable_and_not_both() -> None:
    for model in fixture_models("rules/error-undeclared"):
        assert "error-unreachable" not in {found.slug for found in model.findings()}
