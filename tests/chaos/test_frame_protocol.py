"""The frame protocol searched to its end: every order of crashes, timeouts and lost words, and every hole found."""

import pytest

from tests.support.protocol import Rules
from tests.support.protocol_search import search

TRANSACTIONAL = Rules(retries=1)
EXTERNAL = Rules(mode="external", retries=1)
HELD = Rules(mode="external", on_unknown="hold")


@pytest.mark.req("JOB-01", "JOB-04", "JOB-05", "JOB-13", "X-06", "X-08", "EVO-01", "EVO-02", "EVO-03")
@pytest.mark.parametrize(
    ("rules", "at_least"),
    [(TRANSACTIONAL, 60_000), (EXTERNAL, 100_000), (HELD, 60_000)],
    ids=["transactional", "external", "held"],
)
def test_no_order_of_events_breaks_the_protocol_or_leaves_a_job_stuck(rules: Rules, at_least: int) -> None:
    found = search(rules)

    assert (found.broken, found.path) == (None, ())
    assert found.stuck == 0
    assert found.states > at_least  # a space that shrank would prove less


@pytest.mark.parametrize(
    "rules",
    [Rules(retries=1, times_out=False), Rules(mode="external", on_unknown="hold", times_out=False)],
    ids=["transactional", "held"],
)
def test_an_engine_that_never_times_a_job_out_leaves_no_claimed_job_stuck(rules: Rules) -> None:
    found = search(rules)

    assert (found.broken, found.path) == (None, ())
    assert found.stuck == 0


def test_without_a_sweep_an_engine_that_never_times_a_job_out_leaves_jobs_stuck() -> None:
    found = search(Rules(retries=1, times_out=False, sweeps=False))

    assert found.broken is None
    assert found.stuck > 0


@pytest.mark.long
@pytest.mark.parametrize(
    "rules",
    [
        Rules(),
        Rules(times_out=False),
        Rules(max_runs=3, in_flight=2),
        Rules(mode="external", in_flight=2),
        Rules(mode="external", on_unknown="hold", in_flight=2, resolves=2),
        Rules(retries=1, resolves=2),
    ],
    ids=["two retries", "no timeouts", "transactional", "external", "held", "resolved twice"],
)
@pytest.mark.timeout(1800)
def test_nor_does_any_in_a_larger_space(rules: Rules) -> None:
    found = search(rules)

    assert (found.broken, found.path) == (None, ())
    assert found.stuck == 0


# The way to a hole is shortest without the sweep, which has two of its own.
HOLES = [
    (Rules(hole="a verdict has no fence", sweeps=False), "EFFECT_TWICE"),
    (Rules(hole="the verb commits for itself", sweeps=False), "EFFECT_WITHOUT_RECORD"),
    (Rules(hole="told before it is stored", sweeps=False), "COMPLETED_WITHOUT_RECORD"),
    (Rules(hole="failed before it is stored", sweeps=False), "FAILED_WITHOUT_RECORD"),
    (Rules(hole="told when it is sent", sweeps=False), "RELEASED_BY_NOBODY"),
    (Rules(hole="a completed frame may be claimed", sweeps=False), "EFFECT_WITHOUT_RECORD"),
    (Rules(hole="activations have no order", sweeps=False), "RELEASED_BY_NOBODY"),
    (Rules(hole="runs are not counted", sweeps=False), "TOO_MANY_RUNS"),
    (Rules(hole="a verdict is fenced by state only", sweeps=False), "RECORDED_BY_A_ZOMBIE"),
    (Rules(hole="swept before it is stored"), "FAILED_WITHOUT_RECORD"),
    (Rules(mode="external", on_unknown="hold", hole="what is swept always runs again"), "CALLED_TWICE"),
    (Rules(mode="external", hole="a key per attempt", sweeps=False), "TWO_KEYS"),
    (Rules(mode="external", on_unknown="hold", hole="what is held runs again", sweeps=False), "CALLED_TWICE"),
]


@pytest.mark.parametrize(("rules", "broken"), HOLES, ids=[rules.hole for rules, _ in HOLES])
def test_a_hole_in_the_protocol_is_found_by_its_shortest_way(rules: Rules, broken: str) -> None:
    found = search(rules)

    assert found.broken == broken
    assert 0 < len(found.path) < 20


def test_a_protocol_without_takeover_leaves_jobs_stuck() -> None:
    found = search(Rules(retries=1, hole="nobody takes over", sweeps=False))

    assert found.broken is None
    assert found.stuck > 0
