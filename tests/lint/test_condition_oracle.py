"""The engine is the oracle: what our conditions mean is what the broker's own FEEL engine makes of them."""

import os
from functools import cache
from typing import TypeVar

import pytest

from tests.support.condition_strings import ConditionStrings
from tests.support.feel_oracle import OLDEST, FeelOracle, Question, Verdict
from verblint.feel.condition import Test, evaluate, variables
from verblint.feel.grammar import ConditionError, parse
from verblint.feel.tokenizer import names

Item = TypeVar("Item")

SEED = int(os.environ.get("VERBLINT_FUZZ_SEED", "20261116"))
COUNT = int(os.environ.get("VERBLINT_FUZZ", "20000"))
CONTEXTS = 8

pytestmark = pytest.mark.timeout(1200)


@cache
def strings() -> tuple[str, ...]:
    return tuple(ConditionStrings(SEED).take(COUNT))


@cache
def accepted() -> tuple[tuple[str, Test], ...]:
    parsed = ((text, _parsed(text)) for text in dict.fromkeys(strings()))
    return tuple((text, test) for text, test in parsed if test is not None)


def _parsed(text: str) -> Test | None:
    try:
        return parse(text)
    except ConditionError:
        return None


def share(oracle: FeelOracle, items: tuple[Item, ...]) -> tuple[Item, ...]:
    """All of them for the oldest version; of the newest a part shows the same, unless more was asked for."""
    return items if oracle.version == OLDEST or COUNT > 20_000 else items[: len(items) // 5]


def _meaning(value: object) -> bool | None:
    # Outside a comparison a flag that is no boolean is an incident, whatever it holds.
    return value if isinstance(value, bool) else None


@pytest.mark.req("ORC-04", "LNT-03")
def test_what_we_accept_the_engine_parses_reads_and_evaluates_alike(oracle: FeelOracle) -> None:
    source, parsed = ConditionStrings(SEED + 1), share(oracle, accepted())
    questions = [
        Question(text[1:], [{}, *(source.values(variables(test)) for _ in range(CONTEXTS - 1))])
        for text, test in parsed
    ]
    verdicts = oracle.judge(questions)

    mismatches = [
        (question, verdict)
        for (_, test), question, verdict in zip(parsed, questions, verdicts, strict=True)
        if not _agrees(test, question, verdict)
    ]
    assert mismatches == []
    assert len(accepted()) > COUNT // 4  # a fuzzer that is always refused proves nothing


def _agrees(test: Test, question: Question, verdict: Verdict) -> bool:
    ours = [evaluate(test, context) for context in question.contexts]  # type: ignore[arg-type]  # JSON values
    theirs = [_meaning(value) for value in verdict.values]
    return verdict.ok and verdict.variables == variables(test) and ours == theirs


@pytest.mark.req("LNT-02")
def test_the_tokenizer_names_every_variable_the_engine_reads(oracle: FeelOracle) -> None:
    expressions = [text[1:] for text in share(oracle, tuple(dict.fromkeys(strings())))]
    verdicts = oracle.judge(Question(expression) for expression in expressions)

    missed = [
        (expression, verdict.variables - names(expression))
        for expression, verdict in zip(expressions, verdicts, strict=True)
        if not verdict.variables <= names(expression)
    ]
    assert missed == []
    assert sum(verdict.ok for verdict in verdicts) > len(expressions) // 4
