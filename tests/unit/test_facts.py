"""The facts of a task: how each format writes a value, and what is said of a value that is not there."""

from typing import Any

import pytest

from verblint.contracts.contract import GateFact
from verbworker.runbook.facts import HIDDEN, MISSING, Item, facts_of, show_fact, show_facts


def texts(value: object, format: str = "text", currency: str | None = None) -> list[str]:
    return [item.text for item in show_fact(GateFact("x", "X", format, currency), value).items]


@pytest.mark.parametrize(
    ("format", "value", "text"),
    [
        ("text", "Müller & Söhne", "Müller & Söhne"),
        ("text", 7, "7"),
        ("text", True, "Yes"),
        ("number", 1234567, "1,234,567"),
        ("number", 0.5, "0.5"),
        ("number", "-1234.50", "-1,234.50"),
        ("number", "many", "many"),
        ("number", "1e400000", "1e400000"),
        ("number", "NaN", "NaN"),
        ("date", "2030-01-31", "31 January 2030"),
        ("date", "2030-01-31T10:00:00Z", "31 January 2030"),
        ("date", "soon", "soon"),
        ("date", 20300131, "20300131"),
        ("datetime", "2030-01-31T12:30:00+02:00", "31 January 2030, 10:30 UTC"),
        ("datetime", "2030-01-31T12:30", "31 January 2030, 12:30"),
        ("datetime", "later", "later"),
        ("datetime", 5, "5"),
        ("yes/no", False, "No"),
        ("yes/no", "perhaps", "perhaps"),
    ],
)
def test_a_value_is_written_in_its_format_or_as_it_is(format: str, value: object, text: str) -> None:
    assert texts(value, format) == [text]


@pytest.mark.parametrize(
    ("value", "currency", "text"),
    [
        (900, "EUR", "900.00 EUR"),
        ("1250000.5", "EUR", "1,250,000.50 EUR"),
        ("0.125", "EUR", "0.125 EUR"),
        (12000, "JPY", "12,000 JPY"),
        (5, None, "5.00"),
        ({"amount": "12.5", "currency": "USD"}, "EUR", "12.50 USD"),
        ({"amount": "12.5"}, "EUR", "12.50 EUR"),
        ({"amount": "much"}, "EUR", "amount: much"),
        (True, "EUR", "Yes"),
    ],
)
def test_money_has_its_currency_and_is_never_rounded(value: object, currency: str | None, text: str) -> None:
    assert texts(value, "money", currency) == [text]


@pytest.mark.parametrize("value", [None, "", {}])
def test_what_is_missing_is_said_plainly(value: object) -> None:
    fact = show_fact(GateFact("x", "X", "money"), value)

    assert (fact.items, fact.note) == ((), MISSING)


def test_an_empty_list_has_none() -> None:
    assert show_fact(GateFact("x", "X", "list"), []).note == "None"


def test_a_list_is_a_list_of_values_in_the_format_of_the_fact() -> None:
    assert texts(["2030-01-31", "2030-02-01"], "date") == ["31 January 2030", "1 February 2030"]
    assert show_fact(GateFact("x", "X", "list"), ["a", "b"]).is_list
    assert show_fact(GateFact("x", "X", "list"), "only one").is_list


def test_a_long_list_is_cut_and_says_by_how_many() -> None:
    fact = show_fact(GateFact("x", "X", "list"), list(range(1500)))

    assert (len(fact.items), fact.note) == (100, "and 1,400 more")


def test_an_object_is_written_as_names_and_values_and_never_as_json() -> None:
    value: dict[str, Any] = {"given_name": "Ada", "born": None, "at": {"town": "Köln", "tags": ["a", True]}}

    assert texts(value) == ["given name: Ada", f"born: {MISSING}", "at: town: Köln, tags: a, Yes"]
    assert texts([value])[0].startswith("given name: Ada, born")
    assert texts({"a": {"b": {"c": {"d": {"e": 1}}}}}) == ["a: b: c: d: 1 fields"]


@pytest.mark.parametrize(
    "address",
    [
        "http://x.example/a",
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "//x.example",
        "https:///nowhere",
        "https://user:pw@x.example",
        "https://x.example/\u202etxt",
        "https://x.example\\@evil.example",
        "https://x.example/a b",
        "https://[x",
        "https://x.example:99999/",
        7,
    ],
)
def test_only_an_https_address_becomes_a_link(address: object) -> None:
    (item,) = show_fact(GateFact("x", "X", "link"), address).items

    assert item == Item(str(address), None)


def test_an_https_address_becomes_a_link() -> None:
    address = "https://papers.example/a?b=c#d"

    assert show_fact(GateFact("x", "X", "link"), [address]).items == (Item(address, address),)
    assert show_fact(GateFact("x", "X"), address).items == (Item(address),)


def test_of_a_field_that_may_not_be_shown_only_the_label_is() -> None:
    facts = facts_of({"show": [{"field": "a.b", "label": "B"}, {"field": "c", "label": "C", "format": "number"}]})
    data = {"a": {"b": "seen"}, "c": 3}

    assert [fact.note for fact in show_facts(facts, data, ("a",))] == ["", HIDDEN]
    assert [fact.note for fact in show_facts(facts, data, ("a.b.x", "cc"))] == [HIDDEN, HIDDEN]
    assert [item.text for fact in show_facts(facts, data) for item in fact.items] == ["seen", "3"]
    assert [fact.note for fact in show_facts(facts, {"a": 1})] == [MISSING, MISSING]
