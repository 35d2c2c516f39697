"""What somebody typed: whole or not, an order or a verb, and what may follow."""

import pytest

from tests.support.talking import make_shapes
from verbworker.contract.invocation import Invocation
from verbworker.errors import InvocationInvalid
from verbworker.repl.completer import SessionNames, shape_at, suggest, suggest_answer
from verbworker.repl.lines import Order, is_open, read
from verbworker.repl.shapes import VerbShape

KNOWN = SessionNames(
    {"gates": "what waits", "decide": "decide", "runbook": "entries"},
    numbers=("2", "1"),
    gates={"1": ("approve", "reject"), "2/review": ()},
)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, VerbShape]:
    return make_shapes(tmp_path_factory.mktemp("contracts"))


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("(kyc.open-case", True),
        ("(kyc.open-case)", False),
        ('(kyc.open-case :entity ")', True),
        ('(kyc.open-case :entity ")")', False),
        ('(kyc.open-case :entity "\\")', True),
        ("(a (b)", True),
        ("(a) (b", False),
        (")", False),
        ("decide 1 approve (as agreed", False),
        ("", False),
        ("(" * 5000, True),
    ],
)
def test_only_a_verb_with_an_open_half_goes_over_several_lines(text: str, waits: bool) -> None:
    assert is_open(text) is waits


def test_a_verb_may_be_said_with_and_without_parentheses() -> None:
    wanted = Invocation("kyc.open-case", {"entity": "Acme"})

    assert read('(kyc.open-case :entity "Acme")', {"kyc.open-case"}) == wanted
    assert read("kyc.open-case :entity Acme", {"kyc.open-case"}) == wanted


def test_an_order_keeps_the_rest_of_its_line_as_it_is() -> None:
    order = read("Decide 1 approve  all is (well)", ())

    assert isinstance(order, Order)
    assert (order.word, order.words(3)) == ("decide", ["1", "approve", "all is (well)"])


def test_a_verb_that_goes_on_otherwise_is_refused_with_the_place() -> None:
    with pytest.raises(InvocationInvalid, match="character 16: an argument begins with its name"):
        read("kyc.open-case Acme", {"kyc.open-case"})


@pytest.mark.parametrize(
    ("text", "following"),
    [
        ("", ["gates", "decide", "runbook", "kyc.open-case", "shop.charge", "shop.refund"]),
        ("(", ["kyc.open-case", "shop.charge", "shop.refund"]),
        ("(shop.", ["shop.charge", "shop.refund"]),
        ("ru", ["runbook"]),
        ("(kyc.open-case ", [":entity", ":case-type", ":pages", ":score", ":urgent"]),
        ("kyc.open-case :e", [":entity"]),
        ("(kyc.open-case :entity Acme :", [":case-type", ":pages", ":score", ":urgent"]),
        ("(kyc.open-case :case-type ", ["onboarding", "periodic-review", '"two words"']),
        ('(kyc.open-case :case-type "p', ['"periodic-review"']),
        ("(kyc.open-case :urgent ", ["true", "false"]),
        ("(kyc.open-case :entity ", []),
        ("(kyc.open-case) ", []),
        ("(no.such-verb ", []),
        ("(kyc.open-case :nonsense ", []),
        ("decide ", ["1", "2/review"]),
        ("decide 1 ", ["approve", "reject"]),
        ("decide 1 a", ["approve"]),
        ("decide 1 approve ", []),
        ("runbook ", ["2", "1"]),
        ("verbs k", ["kyc.open-case"]),
    ],
)
def test_what_may_follow_is_suggested(shapes: dict[str, VerbShape], text: str, following: list[str]) -> None:
    assert [found.text for found in suggest(text, shapes, KNOWN)] == following


def test_a_suggestion_replaces_what_was_begun_and_explains_itself(shapes: dict[str, VerbShape]) -> None:
    (found,) = suggest("(kyc.open-case :ent", shapes, KNOWN)

    assert (found.replaces, found.meta) == (4, "text, required: The registered name")


def test_a_question_suggests_its_answers(shapes: dict[str, VerbShape]) -> None:
    kind, urgent = (shapes["kyc.open-case"].slot(name) for name in ("case-type", "urgent"))
    assert kind is not None
    assert urgent is not None

    assert [found.text for found in suggest_answer("Per", kind)] == ["periodic-review"]
    assert [found.text for found in suggest_answer("", urgent)] == ["yes", "no"]


@pytest.mark.parametrize(
    ("text", "verb"), [("(shop.charge :a", "shop.charge"), ("shop.charge", "shop.charge"), ("", None), ("gates", None)]
)
def test_hints_are_those_of_the_verb_that_is_written(shapes: dict[str, VerbShape], text: str, verb: str | None) -> None:
    shape = shape_at(text, shapes)

    assert (shape and shape.name) == verb
