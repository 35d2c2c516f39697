"""The words a worker paces itself by: the adaptive limit, the load, and the pause before the next try."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verbworker.retrying import BACKPRESSURE, ENGINE, FEED, MESSAGE_SENDS, SERVICE, STORED, Pauses, backoff
from verbworker.work.feeds.feed import BUSY_RATE, IDLE_RATE, FeedLoad
from verbworker.work.feeds.slots import Limit

STEPS = st.lists(st.one_of(st.none(), st.integers(0, 500)), max_size=60)


def walked(ceiling: int, steps: list[int | None]) -> list[Limit]:
    """Every limit on the way: None is a complaint, a number is that many jobs without one."""
    limits = [Limit.of(ceiling)]
    for step in steps:
        limits.append(limits[-1].cut() if step is None else limits[-1].increase(step))
    return limits


@given(ceiling=st.integers(1, 10_000), steps=STEPS)
def test_a_limit_stays_between_one_and_its_ceiling(ceiling: int, steps: list[int | None]) -> None:
    granted = [limit.whole() for limit in walked(ceiling, steps)]

    assert all(1 <= each <= ceiling for each in granted)


@given(ceiling=st.integers(1, 10_000), steps=STEPS)
def test_a_limit_falls_on_complaints_only(ceiling: int, steps: list[int | None]) -> None:
    limits = walked(ceiling, steps)

    for before, after, step in zip(limits, limits[1:], steps, strict=False):
        assert (after.value <= before.value) if step is None else (after.value >= before.value)


@given(ceiling=st.integers(2, 10_000))
def test_a_complaint_halves_a_limit(ceiling: int) -> None:
    assert Limit.of(ceiling).cut().whole() == ceiling // 2


@given(ceiling=st.integers(4, 500))
def test_a_full_round_without_complaint_raises_a_limit_by_one(ceiling: int) -> None:
    limit = Limit.of(ceiling).cut()
    granted = limit.whole()

    assert limit.increase(granted).value - limit.value == pytest.approx(1, abs=0.5)
    assert limit.increase(granted).whole() in (granted, granted + 1)


@given(ceiling=st.integers(1, 100))
def test_a_limit_comes_back_to_its_ceiling(ceiling: int) -> None:
    limit = Limit(ceiling, 1.0)
    for _ in range(ceiling):
        limit = limit.increase(limit.whole())

    assert limit.whole() >= ceiling - 1
    assert limit.increase(10_000).whole() == ceiling


def test_asking_in_vain_changes_no_limit() -> None:
    limit = Limit.of(8).cut()

    assert limit.increase(0) == limit


# ---- load ----------------------------------------------------------------------------------------------------------


def after_seconds(load: FeedLoad, per_second: float, seconds: float) -> FeedLoad:
    """The load when jobs keep coming at a rate, looked at every 100 ms."""
    for tick in range(round(seconds * 10)):
        arrived = int(per_second * (tick + 1) / 10) - int(per_second * tick / 10)
        load = load.after(arrived, load.at + 0.1)
    return load


def test_nothing_is_idle() -> None:
    assert not after_seconds(FeedLoad(), 0, 5).is_busy


def test_many_jobs_are_busy() -> None:
    assert after_seconds(FeedLoad(), BUSY_RATE * 2, 5).is_busy


def test_a_handful_at_once_is_no_load() -> None:
    burst = FeedLoad().after(3, 0.1)

    assert not burst.is_busy


@pytest.mark.parametrize("was_busy", [True, False])
def test_between_the_thresholds_nothing_changes(was_busy: bool) -> None:
    between = (BUSY_RATE + IDLE_RATE) / 2
    load = after_seconds(FeedLoad(rate=between, is_busy=was_busy), between, 10)

    assert load.is_busy is was_busy


def test_a_load_that_falls_is_idle_again() -> None:
    busy = after_seconds(FeedLoad(), BUSY_RATE * 3, 5)

    assert busy.is_busy
    assert not after_seconds(busy, IDLE_RATE / 2, 10).is_busy


@given(st.lists(st.tuples(st.integers(0, 1000), st.floats(0, 10)), max_size=40))
def test_a_rate_is_never_negative_and_never_above_what_came(looks: list[tuple[int, float]]) -> None:
    load, highest = FeedLoad(), 0.0
    for jobs, elapsed in looks:
        highest = max(highest, jobs / max(elapsed, 1e-3))
        load = load.after(jobs, load.at + elapsed)

        assert 0 <= load.rate <= highest * 1.001


# ---- pause ---------------------------------------------------------------------------------------------------------


@given(failures=st.integers(0, 10_000), jitter=st.floats(0, 1))
def test_a_pause_is_capped_and_never_nothing(failures: int, jitter: float) -> None:
    pause = backoff(failures, jitter, first=0.05, cap=5.0)

    assert 0.025 <= pause <= 5.0


@given(failures=st.integers(0, 40), jitter=st.floats(0, 1))
def test_pauses_grow(failures: int, jitter: float) -> None:
    assert backoff(failures + 1, jitter) >= backoff(failures, jitter)


@pytest.mark.req("FAIL-06")
def test_a_pause_doubles_until_its_cap() -> None:
    pauses = [backoff(failures, 1.0, first=1, cap=6) for failures in range(5)]

    assert pauses == [1, 2, 4, 6, 6]


@pytest.mark.req("FAIL-06")
@pytest.mark.parametrize("policy", [ENGINE.pauses, BACKPRESSURE.pauses, FEED, SERVICE, MESSAGE_SENDS, STORED])
def test_workers_that_were_refused_together_do_not_come_back_together(policy: Pauses) -> None:
    pauses = {policy.after(3) for _ in range(50)}
    longest = min(policy.cap, policy.first * 4)

    assert len(pauses) > 25
    assert all(longest / 2 <= pause <= longest for pause in pauses)


@given(failures=st.integers(0, 40))
def test_jitter_spreads_the_second_half_of_a_pause(failures: int) -> None:
    assert backoff(failures, 0.0) == pytest.approx(backoff(failures, 1.0) / 2)
