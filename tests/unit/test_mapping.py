"""The mapping of a task: what its verb is given, and where the answer goes."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verbworker.profile.mapping import IoMapping

names = st.sampled_from("abc")
paths = st.lists(names, min_size=1, max_size=3).map(".".join)
trees = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text("xyz", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
states = st.dictionaries(names, trees, max_size=3)


def naive(steps: list[tuple[str, str]], source: dict[str, Any], onto: dict[str, Any]) -> dict[str, Any]:
    """The same by walking and cutting, one step at a time."""
    made = copy.deepcopy(onto)
    for path, target in steps:
        found: list[Any] = [source]
        for name in path.split("."):
            found = [found[0][name]] if found and isinstance(found[0], dict) and name in found[0] else []
        *way, last = target.split(".")
        here: Any = made
        for name in way:
            if not isinstance(here.get(name), dict):
                if not found:
                    break
                here[name] = {}
            here = here[name]
        else:
            if found:
                here[last] = copy.deepcopy(found[0])
            else:
                here.pop(last, None)
    return made


def steps(direction: str, pairs: list[tuple[str, str]], roots: tuple[str, str]) -> list[tuple[str, str, str]]:
    return [(direction, f"{roots[0]}.{source}", f"{roots[1]}.{target}") for source, target in pairs]


@pytest.mark.req("PRX-27", "CPL-14")
@given(st.lists(st.tuples(paths, paths), max_size=4), states)
def test_a_request_is_made_of_the_inputs_and_of_nothing_else(
    pairs: list[tuple[str, str]], state: dict[str, Any]
) -> None:
    before = copy.deepcopy(state)
    mapping = IoMapping.of(steps("input", pairs, ("state", "request")))

    assert mapping.request(state) == naive(pairs, state, {})
    assert state == before


@pytest.mark.req("PRX-27", "X-29")
@given(st.lists(st.tuples(paths, paths), max_size=4), states, states)
def test_outputs_are_made_in_their_order_onto_a_copy(
    pairs: list[tuple[str, str]], state: dict[str, Any], result: dict[str, Any]
) -> None:
    before = copy.deepcopy(state)
    mapping = IoMapping.of(steps("output", pairs, ("result", "state")))

    assert mapping.state_after(state, result) == naive(pairs, result, state)
    assert state == before


@pytest.mark.req("X-29", "TPL-10")
def test_a_source_that_is_not_there_takes_the_target_away() -> None:
    mapping = IoMapping.of([("output", "result.gone", "state.kept.old"), ("output", "result.none", "state.none")])

    after = mapping.state_after({"kept": {"old": 1, "other": 2}, "none": 3}, {"none": None})

    assert after == {"kept": {"other": 2}, "none": None}


@pytest.mark.req("PRX-27")
def test_a_later_step_sees_what_an_earlier_one_left() -> None:
    mapping = IoMapping.of(
        [("input", "state.a", "request.x"), ("input", "state.gone", "request.x.y"), ("input", "state.b", "request.x")]
    )

    assert mapping.request({"a": {"y": 1, "z": 2}, "b": 7}) == {"x": 7}
    assert IoMapping.of([]).request({"a": 1}) == {}
