"""Invocations: what people type is what a verb is given, and what is shown reads back."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verbworker.contract.invocation import Invocation, parse
from verbworker.errors import InvocationInvalid


@pytest.mark.req("REG-01")
def test_a_verb_and_its_arguments_are_read_as_they_are_said() -> None:
    said = (
        '(kyc.open-case :entity "Allianz GmbH" :case-type periodic-review :risk 3 :score -1.5e1 :pep true :note null)'
    )

    asked = parse(said)

    assert asked == Invocation(
        "kyc.open-case",
        {
            "entity": "Allianz GmbH",
            "case-type": "periodic-review",
            "risk": 3,
            "score": -15.0,
            "pep": True,
            "note": None,
        },
    )


def test_blanks_and_lines_between_the_parts_mean_nothing() -> None:
    assert parse('  ( kyc.open-case\n\t:entity "x"  )\n') == Invocation("kyc.open-case", {"entity": "x"})
    assert parse("(kyc.list)") == Invocation("kyc.list", {})


def test_a_text_holds_what_json_lets_it_hold() -> None:
    assert parse(r'(a.b :t "q\" \\ \u00e9 \n (:x)")').args == {"t": 'q" \\ é \n (:x)'}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "invocation, character 1: it begins with an opening parenthesis"),
        ("kyc.open-case", "invocation, character 1: it begins with an opening parenthesis"),
        ("()", "invocation, character 2: the name of a verb follows the opening parenthesis"),
        ('("a.b")', "invocation, character 2: the name of a verb follows the opening parenthesis"),
        ("(a.b", "invocation, character 5: a closing parenthesis is missing"),
        ("(a.b x)", "invocation, character 6: an argument begins with its name, like :entity"),
        ("(a.b :x)", "invocation, character 8: a value follows :x"),
        ("(a.b :x :y 1)", "invocation, character 9: a value follows :x"),
        ("(a.b :x (c.d))", "invocation, character 9: a value follows :x"),
        ("(a.b :x 1 :x 2)", "invocation, character 11: the argument x is given twice"),
        ("(a.b) (c.d)", "invocation, character 7: nothing follows the closing parenthesis"),
        ('(a.b :x "open)', "invocation, character 9: a text ends with a quotation mark"),
        (r'(a.b :x "\q")', "invocation, character 9: this text has an escape that means nothing"),
        (r'(a.b :x "\ud800")', "invocation, character 9: this text has an escape that means nothing"),
        ("(a.b : 1)", "invocation, character 6: ':' has no meaning"),
    ],
)
def test_what_cannot_be_read_is_refused_where_it_stops_making_sense(text: str, sentence: str) -> None:
    with pytest.raises(InvocationInvalid) as refused:
        parse(text)

    assert str(refused.value) == sentence


def test_a_text_without_end_is_refused_by_its_length() -> None:
    with pytest.raises(InvocationInvalid, match="at most 65536 characters"):
        parse("(" * 70_000)


_NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True)
_VALUES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.booleans(),
    st.none(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not number.is_integer()),
)


@given(st.dictionaries(_NAMES, _VALUES, max_size=5))
def test_what_is_written_reads_back_as_it_was(args: dict[str, str | bool | int | float | None]) -> None:
    asked = Invocation("kyc.open-case", args)

    assert parse(str(asked)) == asked


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InvocationInvalid):
        assert isinstance(parse(text), Invocation)
