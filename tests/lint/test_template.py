"""Templates: one grammar for the linter and the worker, and no way to compute in it."""

from random import Random

import pytest

from verblint.contracts.templates import TemplateEmpty, TemplateError, TemplateMissingPath, is_path, parse

VARIABLES = {"process_instance_id": "7", "step_id": "ask"}
STATE = {"case": {"id": "c-1", "count": 3, "open": True, "closed": False, "items": [1]}, "name": "Al"}


@pytest.mark.req("TPL-01", "TPL-02")
@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("plain", "plain"),
        ("${step_id}", "ask"),
        ("a/${process_instance_id}/b", "a/7/b"),
        ("${state.case.id}-${state.name}", "c-1-Al"),
        ("${state.case.count}", "3"),
        ("${state.case.open}${state.case.closed}", "truefalse"),
        (r"\${step_id}", "${step_id}"),
        (r"a\b${step_id}\$", r"a\bask\$"),
        ("$step_id {x} }", "$step_id {x} }"),
    ],
)
def test_placeholders_are_replaced_and_everything_else_is_text(text: str, result: str) -> None:
    assert parse(text).evaluate(STATE, VARIABLES) == result


@pytest.mark.req("TPL-03", "TPL-06")
@pytest.mark.parametrize(
    "text",
    [
        "${}",
        "${now()}",
        "${state}",
        "${state.}",
        "${state.a[0]}",
        "${state.a..b}",
        "${state.1}",
        "${step}",
        "a${",
        "${a",
    ],
)
def test_what_is_no_placeholder_is_refused(text: str) -> None:
    with pytest.raises(TemplateError) as refused:
        parse(text)

    assert text[refused.value.start : refused.value.end].startswith("${")


@pytest.mark.req("TPL-04")
@pytest.mark.parametrize(
    "text",
    ["${state.nothing}", "${state.case.nothing.deep}", "${state.case}", "${state.case.items}", "${process_run_id}"],
)
def test_a_placeholder_without_one_plain_value_fails(text: str) -> None:
    with pytest.raises(TemplateMissingPath):
        parse(text).evaluate(STATE, VARIABLES)


@pytest.mark.req("TPL-05")
@pytest.mark.parametrize("text", ["", "${state.empty}"])
def test_an_empty_result_fails(text: str) -> None:
    with pytest.raises(TemplateEmpty):
        parse(text).evaluate({"empty": ""}, {})


def test_placeholders_know_their_place() -> None:
    (placeholder,) = parse("ab${state.x.y}").placeholders

    assert (placeholder.name, placeholder.path) == ("state.x.y", ("x", "y"))
    assert (placeholder.start, placeholder.end) == (2, 14)


@pytest.mark.parametrize(
    ("text", "expected"), [("a", True), ("a.b_2", True), ("a.", False), ("", False), ("a-b", False)]
)
def test_a_path_is_names_joined_by_dots(text: str, expected: bool) -> None:
    assert is_path(text) is expected


@pytest.mark.req("TPL-01")
@pytest.mark.parametrize("seed", range(200))
def test_any_text_comes_back_once_it_is_escaped(seed: int) -> None:
    text = "".join(Random(seed).choices("ab${}. é/=\n", k=1 + seed % 40))

    assert parse(text.replace("${", r"\${")).evaluate({}, {}) == text
