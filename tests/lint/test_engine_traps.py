"""Why the grammar is strict: what the broker's own FEEL engine makes of conditions that look innocent.

Every row is refused by our grammar or means what the row says. Should an engine change its mind, this test tells.
"""

import pytest

from tests.support.feel_oracle import FeelOracle, Question
from verblint.feel.grammar import ConditionError, parse

SET = {"orch_x": "a", "orch_y": True, "orch_f": True, "orch_n": 3, "domain_payload": "NEW"}
UNSET: dict[str, object] = {}

TRAPS: tuple[tuple[str, dict[str, object], object, str], ...] = (
    ('orch_x = "b" orch_y', SET, None, "orch_x ch_y"),
    ("not orch_y", SET, None, "not ch_y"),
    ('orch_x="a"andorch_f', SET, True, "orch_x orch_f"),
    ('orch_x in ["a","b"] and orch_y = true', SET, False, "orch_x orch_y"),
    ('orch_x in ("a","b") and orch_y = true', SET, True, "orch_x orch_y"),
    ('orch_x in "a" and orch_y', SET, False, "orch_x orch_y"),
    ("orch_n in (4, true)", SET, True, "orch_n"),
    ('orch_x != "a"', UNSET, True, "orch_x"),
    ("orch_f = true", UNSET, False, "orch_f"),
    ("orch_f", UNSET, None, "orch_f"),
    ("not(orch_f)", UNSET, None, "orch_f"),
    ("orch_n > 2", UNSET, None, "orch_n"),
    ('orch_n = "3"', SET, None, "orch_n"),
    ("{a: domain_payload, domain_payload: 1}.a", SET, "NEW", "domain_payload"),
    ('`domain_payload` = "NEW"', SET, True, "domain_payload"),
    ('orch_x\u200b = "a"', SET, True, "orch_x"),
    ('\u043erch_x = "a"', SET, False, "\u043erch_x"),
    ('orch_x = "\\u0061"', SET, False, "orch_x"),
    ("1 ordomain_payload", SET, None, "domain_payload"),
)

REJECTED = ('first name = "Al"', 'orch_x == "a"', "orch_x = 'a'", 'orch_x = "a" && orch_y', "${orch_x}")


@pytest.mark.req("LNT-03", "LNT-09")
def test_the_traps_are_real(oracle: FeelOracle) -> None:
    verdicts = oracle.judge(Question(expression, [values]) for expression, values, _, _ in TRAPS)

    answers = [(verdict.values, verdict.variables) for verdict in verdicts]
    assert answers == [((value,), frozenset(names.split())) for _, _, value, names in TRAPS]


def test_other_languages_do_not_deploy(oracle: FeelOracle) -> None:
    assert [verdict.ok for verdict in oracle.judge(map(Question, REJECTED))] == [False] * len(REJECTED)


@pytest.mark.parametrize("expression", [*REJECTED, *(row[0] for row in TRAPS if row[3].split()[0] == "domain_payload")])
def test_our_grammar_refuses_what_is_foreign_or_reads_the_payload(expression: str) -> None:
    with pytest.raises(ConditionError):
        parse(f"={expression}")
