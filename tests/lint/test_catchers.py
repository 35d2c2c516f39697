"""Catchers: the linter and the worker find the event that the engines take; `tests/conformance` asks the engines."""

import pytest

from tests.support.error_models import ROWS, Row
from verblint.assembly import assemble
from verblint.catchers import Thrower, catchers, throwers
from verblint.model import Definitions
from verblint.reader import read


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
