"""What somebody at a terminal knows of a verb: its arguments, its questions and its sentence."""

import pytest

from tests.support.talking import make_shapes
from verbworker.repl.shapes import ArgumentSlot, VerbShape


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, VerbShape]:
    return make_shapes(tmp_path_factory.mktemp("contracts"))


def slot_of(shape: VerbShape, name: str) -> ArgumentSlot:
    slot = shape.slot(name)
    assert slot is not None
    return slot


@pytest.mark.req("REG-01", "REG-17", "REG-20")
def test_nobody_can_tell_how_a_verb_is_carried_out(shapes: dict[str, VerbShape]) -> None:
    kinds = {name: {slot.name: slot.kind for slot in shape.slots} for name, shape in shapes.items()}

    bill = {"customer": "string", "amount": "integer", "colour": "enum", "paid-by": "string", "lines": "other"}
    case = {"entity": "string", "case-type": "enum", "pages": "integer", "score": "number", "urgent": "boolean"}
    assert kinds == {"kyc.open-case": case, "shop.charge": bill, "shop.refund": bill}


def test_an_argument_is_hinted_with_its_type_its_need_and_its_meaning(shapes: dict[str, VerbShape]) -> None:
    case, bill = shapes["kyc.open-case"], shapes["shop.refund"]

    assert slot_of(case, "entity").hint == "text, required: The registered name"
    assert slot_of(case, "case-type").hint == "onboarding | periodic-review | two words, required"
    assert slot_of(case, "urgent").hint == "true or false, optional"
    assert slot_of(bill, "amount").hint == "whole number, required: In cents"
    assert slot_of(bill, "colour").hint == "red | blue, optional"


def test_the_line_of_hints_begins_with_what_must_be_there(shapes: dict[str, VerbShape]) -> None:
    assert shapes["shop.refund"].hint == (
        ":customer text  :amount whole number  :colour red | blue (optional)"
        "  :paid-by text (optional)  :lines value (optional)"
    )


def test_a_verb_is_summed_up_by_its_contract_else_by_its_sentence_without_arguments(
    shapes: dict[str, VerbShape],
) -> None:
    assert [shape.summary for shape in shapes.values()] == [
        "Opens a case",
        "Charge amount to customer",
        "Pay a bill back.",
    ]


@pytest.mark.req("REG-03")
def test_questions_come_from_the_contract_else_from_what_is_known(shapes: dict[str, VerbShape]) -> None:
    asked = [
        slot_of(shapes["kyc.open-case"], "case-type").question,
        slot_of(shapes["kyc.open-case"], "pages").question,
        slot_of(shapes["shop.charge"], "customer").question,
        slot_of(shapes["shop.charge"], "amount").question,
    ]

    assert asked == ["Why is it opened?", "Which pages?", "Who pays?", "Which amount (In cents)?"]


@pytest.mark.req("REG-01")
@pytest.mark.parametrize(
    ("verb", "args", "said"),
    [
        ("kyc.open-case", {"entity": "Acme", "urgent": True}, "Open a case for Acme (urgent true)"),
        ("kyc.open-case", {"entity": "Acme"}, "Open a case for Acme"),
        ("shop.charge", {"amount": 12, "customer": "Ann"}, "Charge 12 to Ann"),
        ("shop.refund", {"amount": 12, "paid-by": None}, "Pay a bill back (amount 12, paid-by nothing)"),
    ],
)
def test_what_is_about_to_happen_is_a_sentence_with_every_argument(
    shapes: dict[str, VerbShape], verb: str, args: dict[str, object], said: str
) -> None:
    assert shapes[verb].playback(args) == said


@pytest.mark.parametrize(
    ("verb", "name", "value", "misfit"),
    [
        ("kyc.open-case", "pages", "many", "must be of type integer"),
        ("kyc.open-case", "case-type", "other", "must be one of onboarding, periodic-review, two words"),
        ("kyc.open-case", "pages", 3, None),
        ("shop.refund", "amount", 0, "does not fit: input should be greater than 0"),
        ("shop.refund", "colour", "green", "does not fit: input should be 'red' or 'blue'"),
        ("shop.refund", "colour", "blue", None),
        ("shop.refund", "paid-by", "00000000-0000-0000-0000-000000000001", None),
    ],
)
def test_a_value_is_held_to_its_argument(
    shapes: dict[str, VerbShape], verb: str, name: str, value: object, misfit: str | None
) -> None:
    assert slot_of(shapes[verb], name).misfit(value) == misfit
