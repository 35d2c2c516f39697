"""Slot filling: which arguments are asked for, and what an answer stands for."""

from uuid import uuid4

import pytest

from tests.support.talking import make_shapes
from verbworker.errors import InvocationInvalid, NotFound
from verbworker.repl.argument_slots import fill, open_slots, read_answer
from verbworker.repl.shapes import ArgumentSlot, VerbShape
from verbworker.repl.short_ids import ShortIds


@pytest.fixture(scope="module")
def shape(tmp_path_factory: pytest.TempPathFactory) -> VerbShape:
    return make_shapes(tmp_path_factory.mktemp("contracts"))["kyc.open-case"]


def slot_of(shape: VerbShape, name: str) -> ArgumentSlot:
    slot = shape.slot(name)
    assert slot is not None
    return slot


@pytest.mark.req("REG-23")
def test_what_must_be_there_and_is_not_is_asked_for_in_order(shape: VerbShape) -> None:
    asked = [(slot.name, problem) for slot, problem in open_slots(shape, {"case-type": "onboarding"})]

    assert asked == [("entity", None), ("pages", None)]


def test_what_does_not_fit_is_asked_for_again_with_the_reason(shape: VerbShape) -> None:
    given = {"entity": "Acme", "case_type": "onboarding", "pages": 1, "urgent": "soon"}

    assert [(slot.name, problem) for slot, problem in open_slots(shape, given)] == [
        ("urgent", "urgent must be of type boolean")
    ]


def test_an_answer_takes_the_place_of_what_did_not_fit(shape: VerbShape) -> None:
    assert fill({"case_type": "nonsense", "pages": 1}, slot_of(shape, "case-type"), "onboarding") == {
        "pages": 1,
        "case-type": "onboarding",
    }


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("entity", " Allianz GmbH ", "Allianz GmbH"),
        ("entity", '"cancel"', "cancel"),
        ("entity", '"', '"'),
        ("entity", '"a" and "b"', '"a" and "b"'),
        ("entity", "12", "12"),
        ("case-type", "Periodic-Review", "periodic-review"),
        ("case-type", '"two words"', "two words"),
        ("pages", "12", 12),
        ("pages", "-3", -3),
        ("score", "0.5", 0.5),
        ("score", "2", 2),
        ("urgent", "Yes", True),
        ("urgent", "false", False),
    ],
)
def test_an_answer_becomes_a_value_of_its_type(shape: VerbShape, name: str, text: str, value: object) -> None:
    answer = read_answer(slot_of(shape, name), text)

    assert (answer, type(answer)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("entity", "  ", "entity is required; type cancel to leave"),
        ("case-type", "other", "case-type must be one of onboarding, periodic-review, two words"),
        ("pages", "many", "pages must be a whole number, like 12"),
        ("pages", "1.5", "pages must be of type integer"),
        ("pages", "1 :entity x", "pages must be a whole number, like 12"),
        ("pages", "9" * 5000, "pages must be of type integer"),
        ("pages", "9007199254740993", "pages is beyond 2^53-1"),
        ("pages", "true", "pages must be a whole number, like 12"),
        ("score", "much", "score must be a number, like 12 or 0.5"),
        ("score", "1e999", "score must be of type number"),
        ("urgent", "perhaps", "urgent must be yes or no"),
    ],
)
def test_an_answer_that_does_not_fit_is_told_in_one_sentence(
    shape: VerbShape, name: str, text: str, sentence: str
) -> None:
    with pytest.raises(InvocationInvalid) as caught:
        read_answer(slot_of(shape, name), text)

    assert str(caught.value) == sentence


def test_an_entry_keeps_its_number_and_is_found_by_it_or_by_its_id() -> None:
    numbers, first, second = ShortIds(), uuid4(), uuid4()

    assert [numbers(first), numbers(second), numbers(first)] == [1, 2, 1]
    assert numbers.newest_first == ["2", "1"]
    assert (numbers.find("2"), numbers.find(str(second))) == (second, second)


@pytest.mark.parametrize("text", ["0", "3", "-1", "one", "9" * 5000, "\u0661", "1.0", ""])
def test_what_is_no_number_of_this_session_is_told(text: str) -> None:
    numbers = ShortIds()
    numbers(uuid4())

    with pytest.raises(NotFound, match="for the numbers: runbook or gates"):
        numbers.find(text)
