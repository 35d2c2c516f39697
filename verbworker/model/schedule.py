"""Due times of timers: ISO 8601 durations, dates and cycles."""

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from verblint.bpmn.event_cause import TimerKind
from verblint.flow.timer_text import is_literal

_PARTS = re.compile(
    r"P(?:(?P<years>-?\d+)Y)?(?:(?P<months>-?\d+)M)?(?:(?P<weeks>-?\d+)W)?(?:(?P<days>-?\d+)D)?"
    r"(?:T(?:(?P<hours>-?\d+)H)?(?:(?P<minutes>-?\d+)M)?(?:(?P<seconds>-?\d+(?:\.\d+)?)S)?)?"
)
# The years of a datetime end with 9999: a time this far can still be moved without an overflow.
_FARTHEST = datetime(9000, 1, 1, tzinfo=UTC)


class ScheduleInvalid(ValueError):
    """A text that is not a valid time."""


@dataclass(frozen=True, slots=True)
class DueTime:
    """The next time of a timer, and how often it repeats afterwards; None is forever."""

    at: datetime
    again: int | None


def first(kind: TimerKind, text: object, now: datetime) -> DueTime:
    """Return when a timer set `now` is first due; raise `ScheduleInvalid`."""
    # A flag may contain a negative duration, which a model may not: the engine accepts it as already due.
    if not isinstance(text, str) or not is_literal(kind, text.replace("-", "") if kind is TimerKind.DURATION else text):
        raise ScheduleInvalid(f"{kind.value} is not an ISO 8601 time")
    if kind is TimerKind.DURATION:
        return DueTime(_later(now, text), 0)
    if kind is TimerKind.DATE:
        return DueTime(datetime.fromisoformat(text), 0)
    repetition, _, interval = text.partition("/")
    begin, _, duration = interval.rpartition("/")
    times = int(repetition[1:]) if len(repetition) > 1 else None
    at = datetime.fromisoformat(begin) if begin else _later(now, duration)
    return DueTime(at, None if times is None else times - 1)


def next_due(text: str, before: DueTime, now: datetime) -> DueTime | None:
    """Return a cycle's next time after `before`, or None when that was the last. Missed times are skipped."""
    if before.again == 0:
        return None
    interval = text.rpartition("/")[2]
    at = _later(before.at, interval)
    return DueTime(at if at > now else _later(now, interval), None if before.again is None else before.again - 1)


def _later(now: datetime, duration: str) -> datetime:
    found = _PARTS.fullmatch(duration)
    if found is None:
        raise ScheduleInvalid("not an ISO 8601 duration")
    part = {name: float(value or 0) for name, value in found.groupdict().items()}
    try:
        moved = _by_months(now, int(part["years"]) * 12 + int(part["months"]))
        return min(
            _FARTHEST,
            moved
            + timedelta(
                weeks=part["weeks"],
                days=part["days"],
                hours=part["hours"],
                minutes=part["minutes"],
                seconds=part["seconds"],
            ),
        )
    except (OverflowError, ValueError):
        # Beyond what a date can hold, on either side.
        return _FARTHEST if sum(part.values()) >= 0 else now


def _by_months(now: datetime, months: int) -> datetime:
    if not months:
        return now
    index = now.year * 12 + now.month - 1 + months
    year, month = divmod(index, 12)
    if year >= _FARTHEST.year:
        return _FARTHEST
    return now.replace(year=year, month=month + 1, day=min(now.day, monthrange(year, month + 1)[1]))
