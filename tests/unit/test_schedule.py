"""When a timer is due, by what its model says."""

from datetime import UTC, datetime

import pytest

from verblint.bpmn.event_cause import TimerKind
from verbworker.model import schedule

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (TimerKind.DURATION, "a while", "timeDuration is not an ISO 8601 time"),
        (TimerKind.DURATION, "P1-D", "not an ISO 8601 duration"),
        (TimerKind.DATE, 7, "timeDate is not an ISO 8601 time"),
        (TimerKind.CYCLE, "R3/2026-02-31T00:00:00Z/PT1H", "timeCycle is not an ISO 8601 time"),
    ],
)
def test_a_text_that_is_no_time_is_refused(kind: TimerKind, text: object, words: str) -> None:
    with pytest.raises(schedule.ScheduleInvalid, match=words):
        schedule.first(kind, text, NOW)


def test_a_cycle_begins_at_its_date() -> None:
    due = schedule.first(TimerKind.CYCLE, "R3/2026-04-01T00:00:00Z/PT1H", NOW)

    assert due == schedule.DueTime(datetime(2026, 4, 1, tzinfo=UTC), 2)
