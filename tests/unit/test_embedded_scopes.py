"""Variables of a token's own: what mappings make of them, who sees them, and where results go."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.drawing import Drawing, listeners, mappings
from tests.support.kernel import INSTANCE, Game
from verbworker.engine.embedded.instance_step import InstanceStep
from verbworker.engine.embedded.kernel.commands import Begin
from verbworker.engine.embedded.kernel.scopes import has_own_variables, visible_at
from verbworker.stores.embedded.tokens import NewInstance, new_instance

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def task(mapping: str) -> Drawing:
    """One task with a mapping, and one behind it."""
    return Drawing().start().task("a", listeners=mapping).task("b").end().flow("begin", "a", "b", "end")


def seen(game: Game, job: str) -> dict[str, Any]:
    """The variables that a job gets."""
    return dict(visible_at(game.state, game.state.jobs[game.job(job)]))


def test_a_job_sees_its_inputs_and_the_instance_does_not() -> None:
    inputs = {"order.id": "=case.number", "order.kind": '="x"', "copy": "=order.id", "case": "=nothing"}
    game = Game(task(mappings(inputs))).begin(case={"number": 7}, other=1)

    assert seen(game, "a") == {"order": {"id": 7, "kind": "x"}, "copy": 7, "case": None, "other": 1}
    assert game.state.variables == {"case": {"number": 7}, "other": 1}
    assert visible_at(game.state, 0) == game.state.variables

    game.complete("a")
    assert seen(game, "b") == {"case": {"number": 7}, "other": 1}


def test_a_text_without_an_equals_sign_is_itself_and_no_source_is_an_empty_text() -> None:
    lines = '<zeebe:input source="plain" target="kind"/><zeebe:input target="blank"/>'
    game = Game(task(f"<zeebe:ioMapping>{lines}</zeebe:ioMapping>")).begin(plain=1)

    assert seen(game, "a") == {"plain": 1, "kind": "plain", "blank": ""}


def test_a_value_put_into_a_part_of_a_text_is_null() -> None:
    game = Game(task(mappings({"name": '="rita"', "name.first.letter": '="r"'}))).begin()

    assert seen(game, "a") == {"name": None}


def test_an_output_into_a_part_keeps_the_other_parts() -> None:
    outputs = {"case.price.net": "=amount", "case.price.tax": "=0.5"}
    game = Game(task(mappings(outputs=outputs))).begin(case={"number": 7, "price": {"gross": 9}})
    game.complete("a", amount=8, unused=True)

    assert game.state.variables == {"case": {"number": 7, "price": {"gross": 9, "net": 8, "tax": 0.5}}}


def test_without_outputs_a_result_changes_the_innermost_variable_of_its_name() -> None:
    game = Game(task(mappings({"x": "=1"}) + listeners(("end", "after")))).begin(x=0, y=0)
    game.complete("a", x=5, y=6, z=7)

    assert game.state.variables == {"x": 0, "y": 6, "z": 7}
    assert seen(game, "after") == {"x": 5, "y": 6, "z": 7}


def test_a_subprocess_has_variables_that_all_inside_share_and_an_inner_one_hides_an_outer_one() -> None:
    inside = Drawing().start("in").task("first", listeners=mappings({"x": '="inner"'})).task("second").end("out")
    held = f"<bpmn:extensionElements>{mappings({'x': '=case.number', 'y': '=1'})}</bpmn:extensionElements>"
    drawing = Drawing().start().subprocess("box", inside.flow("in", "first", "second", "out"), before=held)
    game = Game(drawing.task("last").end().flow("begin", "box", "last", "end")).begin(case={"number": 7})
    case = {"case": {"number": 7}}

    assert seen(game, "first") == {**case, "x": "inner", "y": 1}
    game.complete("first", x="changed", y=2)
    assert seen(game, "second") == {**case, "x": 7, "y": 2}
    game.complete("second", z=3)
    assert seen(game, "last") == {**case, "z": 3}


@pytest.mark.parametrize(("mapping", "has_own"), [("", False), (mappings({"x": "=1"}), True)])
def test_a_stored_state_shows_whether_a_token_has_variables_of_its_own(mapping: str, has_own: bool) -> None:
    definition = Game(task(mapping)).definition
    turn = InstanceStep(definition, new_instance(NewInstance(INSTANCE, 1, "p", 1, NOON), "<default>"))
    turn.tell(Begin({}), NOON)
    turn.finish()

    assert has_own_variables(turn.snapshot().state) is has_own
