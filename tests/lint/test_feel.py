"""The tokenizer of FEEL finds every name, however it is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verblint.feel.tokenizer import TokenKind, mentions, names, single_name, tokenize


def kinds(expression: str) -> list[tuple[str, str]]:
    return [(token.kind.value, token.text) for token in tokenize(expression)]


def test_tokens_have_a_kind_a_text_and_a_place() -> None:
    tokens = list(tokenize('a >= `b c` + "d\\"e" ** 1.5'))

    assert [(t.kind.value, t.text) for t in tokens] == [
        ("name", "a"),
        ("operator", ">="),
        ("quoted", "`b c`"),
        ("operator", "+"),
        ("string", '"d\\"e"'),
        ("operator", "**"),
        ("number", "1.5"),
    ]
    assert [(t.start, t.end) for t in tokens][:3] == [(0, 1), (2, 4), (5, 10)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("", []),
        (" \t\n", []),
        (".5", [("number", ".5")]),
        ("3.x", [("number", "3"), ("operator", "."), ("name", "x")]),
        ("1..2", [("number", "1"), ("operator", ".."), ("number", "2")]),
        ("3abc", [("number", "3"), ("name", "abc")]),
        ("a//b\nc", [("name", "a"), ("comment", "//b"), ("name", "c")]),
        ("a/*b\n*/c", [("name", "a"), ("comment", "/*b\n*/"), ("name", "c")]),
        ("/*a", [("operator", "/"), ("operator", "*"), ("name", "a")]),
        ('"a', [("unknown", '"'), ("name", "a")]),
        ("`a", [("unknown", "`"), ("name", "a")]),
        ('"a\\\\"b', [("string", '"a\\\\"'), ("name", "b")]),
        ("groß", [("name", "groß")]),
        ("$x_1", [("name", "$x_1")]),
        ("a\u200bb", [("name", "a"), ("name", "b")]),
        ("a\u200cb", [("name", "a\u200cb")]),
        ("a & b", [("name", "a"), ("unknown", "&"), ("name", "b")]),
        ('@"x"', [("operator", "@"), ("string", '"x"')]),
    ],
)
def test_every_text_has_tokens(expression: str, expected: list[tuple[str, str]]) -> None:
    assert kinds(expression) == expected


@given(st.text())
def test_tokens_cover_the_text_in_order_and_never_overlap(expression: str) -> None:
    end = 0
    for token in tokenize(expression):
        assert token.start >= end
        assert expression[token.start : token.end] == token.text != ""
        assert isinstance(token.kind, TokenKind)
        end = token.end


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a.b[c > 1]", {"a", "b", "c"}),
        ("`a b` + `c`", {"a b", "c"}),
        ('"a" = "b"', set()),
        ("true and null", set()),
        ("{x: orch_y}", {"x", "orch_y", "ch_y"}),
        ("a /* b */ // c", {"a"}),
    ],
)
def test_names_are_what_could_be_read(expression: str, expected: set[str]) -> None:
    assert names(expression) == expected


@pytest.mark.parametrize(
    ("expression", "read"),
    [
        ('orch_x = "a" orch_y', "ch_y"),
        ("1 ordomain_payload", "domain_payload"),
        ("if a thendomain_payload else b", "domain_payload"),
        ("inifnotx", "x"),
    ],
)
def test_a_keyword_glued_to_a_name_hides_nothing(expression: str, read: str) -> None:
    assert read in names(expression)


def test_a_very_long_word_is_named_whole() -> None:
    word = "or" * 100_000 + "x"

    found = names(word)
    assert word in found
    assert "x" in found
    assert len(found) < 200


@pytest.mark.req("LNT-02", "LNT-08")
@pytest.mark.parametrize(
    "expression",
    [
        "domain_payload",
        "`domain_payload`",
        "` domain_payload `",
        "domain_payload.data.x",
        "{a: domain_payload, domain_payload: 1}.a",
        "{a: {b: [1, {c: domain_payload}]}}",
        "orders[domain_payload > 1]",
        "domain_\u200cpayload",
        "`domain\u200b_payload`",
        "domain_payload\u200b",
        "domain\u00ad_payload",
        "count(domain_payload)",
        "1 ordomain_payload",
        "x // domain_payload",
        "/* domain_payload */ x",
        '"\\"" + domain_payload',
        '"unclosed domain_payload',
    ],
)
def test_the_payload_is_mentioned_however_it_is_written(expression: str) -> None:
    assert mentions(expression, "domain_payload")


@pytest.mark.parametrize(
    "expression", ["orch_x", '"domain_payload"', "domain_payload_hash", "my_domain_payload", "domain.payload", "// x"]
)
def test_other_names_are_not_the_payload(expression: str) -> None:
    assert not mentions(expression, "domain_payload")


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("orch_due", "orch_due"),
        (" corr_case\n", "corr_case"),
        ("", None),
        ("a b", None),
        ("a.b", None),
        ("`a`", None),
        ('"a"', None),
        ("3", None),
        ("true", None),
        ("a // b", None),
        ("groß", None),
        ("a\u200b", None),
        ("$a", None),
    ],
)
def test_a_single_name_is_one_plain_name_and_nothing_else(expression: str, name: str | None) -> None:
    assert single_name(expression) == name
