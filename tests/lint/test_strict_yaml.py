"""Strict YAML: plain values with their places, and nothing that two tools could read in two ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verblint.bpmn.source import Position
from verblint.contracts.contract import Steps
from verblint.contracts.strict_yaml import MAX_DEPTH, MAX_SIZE, ContractFault, Value, YamlError, load, name_of


def refused(content: bytes) -> ContractFault:
    with pytest.raises(YamlError) as caught:
        load(content, "verb.yaml")
    return caught.value.fault


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"", None),
        (b"# only a comment\n", None),
        (b"a: 1\nb: -0\nc: 9007199254740991", {"a": 1, "b": 0, "c": 9007199254740991}),
        (b"a: 2.50\nb: -0.5", {"a": 2.5, "b": -0.5}),
        (b"[true, false, null, ~, ]", [True, False, None, None]),
        (b"a:\nb: x", {"a": None, "b": "x"}),
        (b"a: 'no'\nb: \"012\"\nc: 'true'\nd: ''", {"a": "no", "b": "012", "c": "true", "d": ""}),
        (b"a: |\n  two\n  lines\nb: >\n  one\n  line\n", {"a": "two\nlines\n", "b": "one line\n"}),
        (b"- {a: [1, [2]]}\n- plain words here", [{"a": [1, [2]]}, "plain words here"]),
        (b"v: 1.2.3\nw: v1\nx: P5D\ny: kyc.open-case", {"v": "1.2.3", "w": "v1", "x": "P5D", "y": "kyc.open-case"}),
        ("\ufeffname: Zoë 𝄞".encode(), {"name": "Zoë 𝄞"}),
        (b"%YAML 1.2\n---\na: 1\n...\n", {"a": 1}),
        (b'"no": 1', {"no": 1}),
    ],
)
def test_plain_values_come_back_plain(content: bytes, value: Value) -> None:
    assert load(content).value == value


@pytest.mark.parametrize(
    "word",
    [
        *(
            "no",
            "No",
            "yes",
            "on",
            "off",
            "True",
            "FALSE",
            "Null",
            "012",
            "0o17",
            "0x1F",
            "0b11",
            "1_000",
            "+1",
            "1:30",
        ),
        *("1e3", "1.", ".5", ".inf", "-.INF", ".nan", "2026-01-01", "2026-01-01T10:00:00Z", "=", "1.5e-3", "-01"),
    ],
)
def test_a_word_that_tools_read_differently_must_be_quoted(word: str) -> None:
    error = refused(f"a: {word}".encode())

    assert f'write "{word}" for text' in error.message
    assert error.field == "a"
    assert load(f"a: '{word}'".encode()).value == {"a": word}


@pytest.mark.parametrize(
    ("content", "place", "path", "words"),
    [
        (b"a: &x 1", (1, 4), ("a",), "anchors"),
        (b"a: 1\nb: *x", (2, 4), ("b",), "anchors"),
        (b"a: &x [1]", (1, 4), ("a",), "anchors"),
        (b"a: !!str 1", (1, 4), ("a",), "tags"),
        (b"a: ! x", (1, 4), ("a",), "tags"),
        (b"a: !!python/object:os.system {}", (1, 4), ("a",), "tags"),
        (b"a: 1\nb: 2\na: 3", (3, 1), ("a",), "already given in line 1"),
        (b"f: {x: 1, x: 2}", (1, 11), ("f", "x"), "already given"),
        (b"<<: {a: 1}", (1, 1), (), "write"),
        (b"1: a", (1, 1), (), "the key 1 is not text"),
        (b"true: a", (1, 1), (), "the key true is not text"),
        (b"no: a", (1, 1), (), "write"),
        (b"? [a]\n: b", (1, 3), (), "a key must be text"),
        (b"a: 1\n---\nb: 2", (2, 1), (), "more than one document"),
        (b"a: [1, 99999999999999999999]", (1, 8), ("a", 1), "too large"),
        (b"a: -9007199254740992", (1, 4), ("a",), "too large"),
        (b"a: " + b"1" * 400 + b".0", (1, 4), ("a",), "for text"),
        (b'a: "\\ud800"', (1, 4), ("a",), "surrogate"),
        (b"[" * 100, (1, MAX_DEPTH + 1), (0,) * MAX_DEPTH, "deep"),
        (b"a: [", (1, 5), (), "not YAML"),
        (b"a: b: c", (1, 5), (), "not YAML"),
        (b"a:\n\t- b", (2, 1), (), "not YAML"),
        (b"a: %", (1, 4), (), "not YAML"),
        (b"a: 1\nb: \x01", (2, 4), (), "not YAML"),
        (b'a: "\\UFFFFFFFF"', (1, 1), (), "escape"),
        (b"a: \xff", (1, 4), (), "not UTF-8"),
        (b"a: 1\nb: \xc3", (2, 4), (), "not UTF-8"),
        (b"\xef\xbb\xbfa: \xff", (1, 4), (), "not UTF-8"),
        (b"\xef\xbb\xbf\xc3\xa4\xc3\xa4\xc3\xa4\xff", (1, 4), (), "not UTF-8"),
        (b"\xef\xbb\xbfa: 1\nb: \xc3\xa4\xff", (2, 5), (), "not UTF-8"),
        (b"\xef\xbb", (1, 1), (), "not UTF-8"),
        (b"#" * (MAX_SIZE + 1), (1, 1), (), "262,145 bytes"),
    ],
)
def test_what_is_not_plain_is_refused_with_field_and_place(
    content: bytes, place: tuple[int, int], path: Steps, words: str
) -> None:
    error = refused(content)

    assert words in error.message
    assert ((error.line, error.column), error.field) == (place, name_of(path))


def test_an_error_names_file_line_and_column() -> None:
    assert str(refused(b"a: 1\na: 2")) == "verb.yaml:2:1: a: the key a was already given in line 1"


def test_every_part_knows_where_it_was_written() -> None:
    document = load(b"flags:\n  orch_x: {type: enum,\n    values: [a, b]}\n", "verb.yaml")

    assert document.origin.position == Position(1, 1)
    assert document.origin.at("flags").position == Position(1, 1)
    assert document.origin.at("flags", "orch_x").position == Position(2, 3)
    assert document.origin.at("flags", "orch_x", "values").position == Position(3, 5)
    assert document.origin.at("flags", "orch_x", "values", 1).position == Position(3, 17)


def test_a_missing_part_is_looked_for_where_it_should_be() -> None:
    document = load(b"a: 1\nflags:\n  orch_x:\n    type: enum\n")

    assert document.origin.at("flags", "orch_x", "initial").position == Position(3, 3)
    assert document.origin.at("nothing", 3, "here").position == Position(1, 1)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ((), ""),
        (("flags",), "flags"),
        (("flags", "orch_x", "values", 2), "flags.orch_x.values[2]"),
        ((0, "a"), "[0].a"),
    ],
)
def test_a_path_reads_as_people_write_it(path: Steps, name: str) -> None:
    assert name_of(path) == name


@given(
    st.one_of(
        st.binary(max_size=200), st.text(alphabet="ab:-[]{},&*!|>'\"%@`#?~<=.0123 \n\t\\", max_size=80).map(str.encode)
    )
)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_any_bytes_are_read_or_refused(mark: bytes, content: bytes) -> None:
    try:
        document = load(mark + content, "any.yaml")
    except YamlError as error:
        where = Position(error.fault.line, error.fault.column)
    else:
        where = document.origin.position

    assert min(where) >= 1
