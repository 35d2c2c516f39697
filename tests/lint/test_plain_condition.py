"""Expressions of plain models: the part of FEEL that the embedded engine runs means what the broker's FEEL means."""

import pytest

from tests.support.condition_strings import ConditionStrings
from tests.support.feel_oracle import FeelOracle, Question
from verblint.feel.condition import FlagRead, Literal, Test, evaluate
from verblint.feel.grammar import ConditionError
from verblint.feel.plain_condition import PathValues, parse_plain, parse_value

SEED = 20261118
COUNT = 3000
ORDER = {"id": "o-1", "amount": 7, "lines": [{"price": 1}, {"price": 2}, 3], "country": None}
VALUES = {"order": ORDER, "amount": 7.0, "limit": 5, "paid": True, "country": "DE", "text": "b", "items": [1, 2]}


def truth(text: str) -> bool | None:
    return evaluate(parse_plain(text), PathValues(VALUES))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("=paid", True),
        ("=not(paid)", False),
        ("=amount > limit", True),
        ("=order.amount = amount", True),
        ("=order.amount >= 7.5", False),
        ("=order.amount > -7.5", True),
        ("=7.5 >= order.amount", True),
        ("=5 < amount and 5 <= limit and 5 = limit", True),
        ('="DE" != country', False),
        ('=text > "a"', True),
        ('=country in ("AT", "DE")', True),
        ('=(order.id = "o-1" or nothing) and amount in (7, 8)', True),
        ("=amount in (1.5, 7)", True),
        ("=order.country = null", True),
        ("=nothing.at.all = null", True),
        ("=text.more = null", True),
        ("=nothing > 1", None),
        ("=country > 1", None),
        ("=amount", None),
        ("=order = order", True),
        ("=items = order.lines", False),
    ],
)
def test_a_condition_reads_variables_paths_and_constants(text: str, expected: bool | None) -> None:
    assert truth(text) is expected


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("=order.amount", FlagRead("order.amount", 1, 13)),
        ("= order . amount ", FlagRead("order.amount", 2, 16)),
        ("=-1.5", Literal(-1.5, 1, 5)),
        ("=3", Literal(3, 1, 2)),
        ('="a b"', Literal("a b", 1, 6)),
        ("=null", Literal(None, 1, 5)),
    ],
)
def test_a_value_is_a_path_or_a_constant(text: str, found: object) -> None:
    assert parse_value(text) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("price > 1", "does not begin with an equals sign"),
        ("=sum(items) > 1", "calls sum(...)"),
        ("=amount > sum(items)", "calls sum(...)"),
        ("=order.amount * 2 > 1", "computes `amount * ...`"),
        ("=items[1] > 1", "a filter on `items`"),
        ("=if paid then true else false", "computes with `if`"),
        ("=1 < 2", "compares no variable"),
        ("=true", "compares no variable"),
        ("=order.", "stops at its dot"),
        ("=order.in > 1", "stops at its dot"),
        ("=amount >", "stops too early"),
        ("=amount > [1]", "is compared with a list"),
        ("=amount > 1 limit", "an operator is missing"),
        ('=country = "Österreich"', "U+00D6"),
        ('=amount in (1.5, "2")', "mixes strings and numbers"),
    ],
)
def test_anything_else_is_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(ConditionError) as refused:
        parse_plain(text)

    assert why in refused.value.message


@pytest.mark.parametrize("text", ["=a + b", "=a.b.c * 2", "=count(a)", "=a b", "=[1]", "=", "=not(a)", "a", "=1 = 1"])
def test_what_is_more_than_one_value_is_refused(text: str) -> None:
    with pytest.raises(ConditionError):
        parse_value(text)


def test_variables_by_path_are_a_mapping() -> None:
    values = PathValues({"a": {"b": 1}})

    assert (len(values), list(values), values["a.b"], values.get("c.d")) == (1, ["a"], 1, None)


class PlainConditions(ConditionStrings):
    """Conditions over variables, some of them damaged, and variables for them."""

    def _comparison(self, flag: str) -> list[str]:
        pick = self._random.choice
        paths = (["a"], ["b"], ["c"], ["c", ".", "d"], ["c", ".", "e", ".", "f"], ["l", ".", "d"])
        constants = ("1", "-1", "1.5", "-0.5", '"a"', '"b"', "true", "false", "null")
        # The order of two lists stops the engine as a whole, and so is an incident whatever else holds.
        operators = ("=", "!=", "<", "<=", ">", ">=")
        left = pick(paths)
        operator = pick(operators[:2] if left[0] == "l" else operators)
        match pick(("bare", "constant", "constant", "first", "both", "in")):
            case "bare":
                return left
            case "constant":
                return [*left, operator, pick(constants)]
            case "first":
                return [pick(constants), operator, *left]
            case "both":
                return [*left, operator, *pick(paths[:-1])]
            case _:
                return [*left, "in", "(", *self._list(pick((('"a"', '"b"'), ("1", "1.5", "-1")))), ")"]

    def variables(self) -> dict[str, object]:
        """Some of the variables, with values of any type."""
        pool: tuple[object, ...] = (None, True, False, 0, 1, -1, 1.5, "a", "b", "", {"d": 1})
        inner = {"d": self._random.choice(pool), "e": self._random.choice((*pool, {"f": 1}, {"f": "a"}))}
        found = {
            "a": self._random.choice(pool),
            "b": self._random.choice(pool),
            "c": self._random.choice((*pool, inner)),
        }
        found["l"] = [{"d": self._random.choice(pool)}, {}, 1][: self._random.randint(0, 3)]
        return {name: value for name, value in found.items() if self._random.random() < 0.85}


@pytest.mark.timeout(1200)
def test_what_is_accepted_the_engine_evaluates_alike(oracle: FeelOracle) -> None:
    source = PlainConditions(SEED)
    parsed = [(text, test) for text in dict.fromkeys(source.take(COUNT)) if (test := _parsed(text)) is not None]
    questions = [Question(text[1:], [{}, *(source.variables() for _ in range(5))]) for text, _ in parsed]
    verdicts = oracle.judge(questions)

    mismatches = []
    for (text, test), question, verdict in zip(parsed, questions, verdicts, strict=True):
        theirs = [value if isinstance(value, bool) else None for value in verdict.values]
        ours = [evaluate(test, PathValues(context)) for context in question.contexts]
        if not verdict.ok or ours != theirs:
            mismatches.append((text, question.contexts, ours, theirs, verdict.error))
    assert mismatches == []
    assert len(parsed) > COUNT // 4


def _parsed(text: str) -> Test | None:
    try:
        return parse_plain(text)
    except ConditionError:
        return None
