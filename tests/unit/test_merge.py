"""Changes between two states of the data, and their merge from parallel branches."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verbworker.errors import PermanentContract
from verbworker.payload.canonical import canonical
from verbworker.payload.merge import REMOVED, apply, changes, enforce_writes, merge

leaves = st.none() | st.booleans() | st.integers(-2, 2) | st.text("xy", max_size=2) | st.lists(st.none(), max_size=2)
objects: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(leaves, lambda inside: st.dictionaries(st.sampled_from("abc"), inside, max_size=3), max_leaves=6),
    max_size=3,
)
quick = settings(max_examples=40, deadline=None)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 2}, {("a",): 2}),
        ({"a": 1}, {}, {("a",): REMOVED}),
        ({}, {"a": {"b": 1, "c": {}}}, {("a", "b"): 1, ("a", "c"): {}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {("a", "c"): 3}),
        ({"a": {"b": 1}}, {"a": 5}, {("a",): 5}),
        ({"a": 5}, {"a": {"b": 1}}, {("a",): {"b": 1}}),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, {("a",): [1, {"b": 3}]}),
        ({"a": 1, "b": [0]}, {"a": True, "b": [False]}, {("a",): True, ("b",): [False]}),
        ({"a": 1.0}, {"a": 1}, {}),
    ],
)
@pytest.mark.req("PAY-10")
def test_changes_name_the_smallest_fields_that_differ(
    before: dict[str, Any], after: dict[str, Any], expected: dict[Any, Any]
) -> None:
    found = changes(before, after)

    assert {path: repr(value) for path, value in found.items()} == {p: repr(v) for p, v in expected.items()}


@quick
@given(objects, objects)
def test_applying_the_changes_gives_what_they_were_taken_from(before: dict[str, Any], after: dict[str, Any]) -> None:
    kept = deepcopy(before)

    made = apply(before, changes(before, after))

    assert canonical(made) == canonical(after)
    assert canonical(before) == canonical(kept)


@pytest.mark.parametrize(
    ("onto", "changed", "made"),
    [
        ({}, {("a", "b", "c"): 1}, {"a": {"b": {"c": 1}}}),
        ({"a": None}, {("a", "b"): 1}, {"a": {"b": 1}}),
        ({"a": 1}, {("x",): REMOVED}, {"a": 1}),
        ({"a": 1}, {("a", "b"): REMOVED, ("x", "y"): REMOVED}, {"a": 1}),
        ({"a": {"b": 1, "c": 2}}, {("a", "b"): REMOVED, ("a", "d"): 3}, {"a": {"c": 2, "d": 3}}),
    ],
)
def test_changes_fit_onto_another_state(onto: dict[str, Any], changed: dict[Any, Any], made: dict[str, Any]) -> None:
    assert apply(onto, changed) == made


@pytest.mark.req("X-41", "PAY-10")
def test_branches_that_write_different_fields_both_survive() -> None:
    base = {"case": "c-1", "screening": {"state": "open"}, "stale": True}

    merged = merge(
        base,
        {"case": "c-1", "screening": {"state": "open", "hits": 0}, "stale": True, "documents": {"passport": "ok"}},
        {"case": "c-1", "screening": {"state": "done"}, "documents": {"proof": "late"}},
    )

    assert merged == {
        "case": "c-1",
        "screening": {"state": "done", "hits": 0},
        "documents": {"passport": "ok", "proof": "late"},
    }


@pytest.mark.parametrize(
    ("ours", "head", "paths"),
    [
        ({"a": {"x": 2, "y": 1}}, {"a": {"x": 3, "y": 1}}, "a.x"),
        ({}, {"a": {"x": 5, "y": 1}}, "a.x"),
        ({"a": {"x": 5, "y": 1}}, {"a": 7}, "a.x"),
        ({"a": {"x": 1}}, {"a": {"x": 1, "y": "secret"}}, "a.y"),
        ({"a": {"x": True, "y": 1}}, {"a": {"x": 0, "y": 1}}, "a.x"),
    ],
)
@pytest.mark.req("X-41")
def test_the_same_field_changed_differently_is_a_contract_failure(
    ours: dict[str, Any], head: dict[str, Any], paths: str
) -> None:
    with pytest.raises(PermanentContract) as caught:
        merge({"a": {"x": 1, "y": 1}}, ours, head)

    assert caught.value.code == "MergeConflict"
    assert str(caught.value).endswith(f"meanwhile: {paths}")


@pytest.mark.req("X-41")
def test_the_same_change_on_both_sides_is_no_conflict() -> None:
    assert merge({"a": 1, "b": 2}, {"a": 5}, {"a": 5}) == {"a": 5}


@pytest.mark.req("X-41")
@quick
@given(objects, objects)
def test_merging_onto_an_unchanged_head_gives_ours(base: dict[str, Any], ours: dict[str, Any]) -> None:
    assert canonical(merge(base, ours, base)) == canonical(ours)


@pytest.mark.req("X-41")
@quick
@given(objects, objects)
def test_merging_no_change_gives_the_head(base: dict[str, Any], head: dict[str, Any]) -> None:
    assert canonical(merge(base, base, head)) == canonical(head)


@pytest.mark.req("X-41")
@quick
@given(objects, objects, objects)
def test_it_does_not_matter_which_branch_comes_first(
    base: dict[str, Any], left: dict[str, Any], right: dict[str, Any]
) -> None:
    def merged(ours: dict[str, Any], head: dict[str, Any]) -> bytes | str:
        try:
            return canonical(merge(base, ours, head))
        except PermanentContract as failure:
            return str(failure)

    assert merged(left, right) == merged(right, left)


@pytest.mark.req("X-41")
@quick
@given(objects, objects, objects)
def test_a_merge_of_disjoint_changes_keeps_both(
    base: dict[str, Any], left: dict[str, Any], right: dict[str, Any]
) -> None:
    ours, head = {"l": left, "r": base}, {"l": base, "r": right}

    merged = merge({"l": base, "r": base}, ours, head)

    assert canonical(merged) == canonical({"l": left, "r": right})


@pytest.mark.req("X-41")
def test_changes_inside_the_declared_writes_pass() -> None:
    changed = [("documents", "passport", "state"), ("notes",)]

    enforce_writes(changed, ["documents.passport", "notes"], "kyc.x")
    enforce_writes(changed, None, "kyc.x")
    enforce_writes([], [], "kyc.x")

    with pytest.raises(PermanentContract):
        enforce_writes(changed, [], "kyc.x")


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (("documents",), "documents"),
        (("documents", "proof"), "documents.proof"),
        (("documents.passport",), "'documents.passport'"),
        (("documents", "Müller\n"), "documents.'M\\xfcller\\n'"),
    ],
)
@pytest.mark.req("X-41")
def test_a_change_outside_the_declared_writes_names_verb_and_path(path: tuple[str, ...], shown: str) -> None:
    with pytest.raises(PermanentContract) as caught:
        enforce_writes([("documents", "passport"), path], ["documents.passport"], "kyc.x")

    assert caught.value.code == "WriteUndeclared"
    assert str(caught.value) == f"kyc.x changed what it does not declare in `writes`: {shown}"


def test_many_paths_are_counted_rather_than_listed() -> None:
    with pytest.raises(PermanentContract, match="a, b, c, d, e and 2 more"):
        enforce_writes([(letter,) for letter in "abcdefg"], ["x"], "kyc.x")
