"""The frame protocol searched to its end: every order of crashes, timeouts and lost words, and every hole found."""

import pytest

from tests.support.protocol import Rules
from tests.support.protocol_search import search

TRANSACTIONAL = Rules()
EXTERNAL = Rules(mode="external", retries=1)
HELD = Rules(mode="external", on_unknown="hold")


@pytest.mark.req("JOB-01", "JOB-04", "JOB-05", "JOB-13", "X-06", "X-08", "EVO-01", "EVO-02", "EVO-03")
@pytest.mark.parametrize(
    ("rules", "at_least"),
    [(TRANSACTIONAL, 80_000), (EXTERNAL, 40_000), (HELD, 20_000)],
    ids=["transactional", "external", "held"],
)
def test_no_order_of_events_breaks_the_protocol_or_leaves_a_job_stuck(rules: Rules, at_least: int) -> None:
    found = search(rules)

    assert (found.broken, found.path) == (None, ())
    assert found.stuck == 0
    assert found.states > at_least  # a space that shrank would prove less


@pytest.mark.long
@pytest.mark.parametrize(
    "rules",
    [
        Rules(max_runs=3, in_flight=2),
        Rules(mode="external", in_flight=2),
        Rules(mode="external", on_unknown="hold", in_flight=2, resolves=2),
        Rules(retries=1, resolves=2),
    ],
    ids=["transactional", "external", "held", "resolved twice"],
)
@pytest.mark.timeout(1800)
def test_nor_does_any_in_a_larger_space(rules: Rules) -> None:
    found = search(rules)

    assert (found.broken, found.path) == (None, ())
    assert found.stuck == 0


HOLES = [
    (Rules(hole="a verdict has no fence"), "EFFECT_TWICE"),
    (Rules(hole="the verb commits for itself"), "EFFECT_WITHOUT_RECORD"),
    (Rules(hole="told before it is stored"), "COMPLETED_WITHOUT_RECORD"),
    (Rules(hole="failed before it is stored"), "FAILED_WITHOUT_RECORD"),
    (Rules(hole="told when it is sent"), "RELEASED_BY_NOBODY"),
    (Rules(hole="a completed frame may be claimed"), "EFFECT_WITHOUT_RECORD"),
    (Rules(hole="activations have no order"), "RELEASED_BY_NOBODY"),
    (Rules(hole="runs are not counted"), "TOO_MANY_RUNS"),
    (Rules(hole="a verdict is fenced by state only"), "RECORDED_BY_A_ZOMBIE"),
    (Rules(mode="external", hole="a key per attempt"), "TWO_KEYS"),
    (Rules(mode="external", on_unknown="hold", hole="what is held runs again"), "CALLED_TWICE"),
]


@pytest.mark.parametrize(("rules", "broken"), HOLES, ids=[rules.hole for rules, _ in HOLES])
def test_a_hole_in_the_protocol_is_found_by_its_shortest_way(rules: Rules, broken: str) -> None:
    found = search(rules)

    assert found.broken == broken
    assert 0 < len(found.path) < 20


def test_a_protocol_without_takeover_leaves_jobs_stuck() -> None:
    found = search(Rules(retries=1, hole="nobody takes over"))

    assert found.broken is None
    assert found.stuck > 0
