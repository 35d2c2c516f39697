"""The form of a decision: what may be filled in, how it is stored, and what is said of what does not fit."""

from typing import Any

import pytest

from verblint.contracts.contract import Choice, Gate, GateInput
from verbworker.errors import InvocationInvalid
from verbworker.runbook.decision_form import choices_of, form_of, inputs_of, read_inputs

GATE = Gate(
    "approval",
    "approve",
    ("approve", "reject"),
    choices=(Choice("approve", "Pay it", "positive", "Pay for good?"),),
    inputs={
        "limit": GateInput("limit", "amount", "Limit", True, (), 1, 5000, None, "EUR", ("approve",)),
        "note": GateInput("note", "comment", max_length=10),
        "day": GateInput("day", "date"),
        "why": GateInput("why", "choice", values=("fraud", "late")),
        "sure": GateInput("sure", "yes/no"),
    },
)
DETAIL: dict[str, Any] = {"decisions": list(GATE.decisions), **form_of(GATE)}


def test_a_form_is_stored_with_the_gate_and_read_back() -> None:
    assert inputs_of(DETAIL) == GATE.inputs
    assert choices_of(DETAIL) == [*GATE.choices, Choice("reject")]
    assert DETAIL["inputs"][1] == {"name": "note", "type": "comment", "max_length": 10}
    assert form_of(Gate("a", "a", ("yes",))) == {}
    assert (choices_of({}), inputs_of({})) == ([], {})


def test_what_fits_is_stored_in_one_form() -> None:
    given = {"limit": " 1250.50 ", "note": "ok", "day": "2030-01-31", "why": "late", "sure": "Yes"}

    assert read_inputs(DETAIL, "approve", given) == {
        "limit": "1250.50",
        "note": "ok",
        "day": "2030-01-31",
        "why": "late",
        "sure": True,
    }
    assert read_inputs(DETAIL, "approve", {"limit": 7, "sure": False}) == {"limit": "7", "sure": False}
    assert read_inputs(DETAIL, "approve", {"limit": 0.1 + 1})["limit"] == "1.1"


def test_what_is_empty_is_not_filled_in() -> None:
    assert read_inputs(DETAIL, "reject", {"limit": "", "note": "", "day": None}) == {}


@pytest.mark.parametrize(
    ("decision", "given", "words"),
    [
        ("approve", {}, "the input limit is missing"),
        ("approve", {"limit": ""}, "the input limit is missing"),
        ("reject", {"limit": "5"}, "the input limit is for approve only"),
        ("reject", {"nota": "x"}, "there is no input 'nota' (did you mean note?)"),
        ("reject", {"\u202ex": "x"}, "there is no input '\\\\u202ex'"),
        ("approve", {"limit": "5,00"}, "the input limit must be an amount, like 1250.00"),
        ("approve", {"limit": "1e3"}, "the input limit must be an amount, like 1250.00"),
        ("approve", {"limit": "NaN"}, "the input limit must be an amount, like 1250.00"),
        ("approve", {"limit": True}, "the input limit must be an amount, like 1250.00"),
        ("approve", {"limit": 1e300}, "the input limit must be an amount, like 1250.00"),
        ("approve", {"limit": float("inf")}, "the input limit must be an amount, like 1250.00"),
        ("approve", {"limit": "٣"}, "the input limit must be an amount, like 1250.00"),
        ("approve", {"limit": [5]}, "the input limit must be an amount, like 1250.00"),
        ("approve", {"limit": "0.99"}, "the input limit must be at least 1"),
        ("approve", {"limit": "5000.000001"}, "the input limit must be at most 5000"),
        ("reject", {"note": "x" * 11}, "the input note is longer than 10 characters"),
        ("reject", {"note": "a\0b"}, "the input note holds characters that cannot be kept"),
        ("reject", {"note": "  "}, "the input note is empty"),
        ("reject", {"note": 5}, "the input note must be a text"),
        ("reject", {"day": "31.1.2030"}, "the input day must be a date, like 2030-01-31"),
        ("reject", {"day": "2030-02-30"}, "the input day must be a date, like 2030-01-31"),
        ("reject", {"day": 20300131}, "the input day must be a date, like 2030-01-31"),
        ("reject", {"why": "other"}, "the input why must be one of fraud, late"),
        ("reject", {"sure": "perhaps"}, "the input sure must be yes or no"),
        ("reject", {"sure": 1}, "the input sure must be yes or no"),
        ("reject", dict.fromkeys(map(str, range(101)), "x"), "more than 20 inputs are given"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(decision: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvocationInvalid) as caught:
        read_inputs(DETAIL, decision, given)

    assert str(caught.value) == words


def test_a_gate_without_inputs_takes_none() -> None:
    assert read_inputs({"decisions": []}, "yes", {}) == {}
    with pytest.raises(InvocationInvalid, match="there is no input 'x'"):
        read_inputs({"decisions": []}, "yes", {"x": 1})
