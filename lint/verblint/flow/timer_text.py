"""The literals a timer may have: ISO 8601 durations, dates and cycles."""

from verblint.bpmn.event_cause import TimerKind
from verblint.startup.pattern import pattern

_DURATION = pattern(
    r"P(?=.)(?:[0-9]+Y)?(?:[0-9]+M)?(?:[0-9]+W)?(?:[0-9]+D)?"
    r"(?:T(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]+)?S)?)?"
)
_DATE = pattern(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[-+](?:0[0-9]|1[0-8]):[0-5][0-9])"
)
_REPETITION = pattern(r"R[0-9]*")
EXAMPLES = {
    TimerKind.DURATION: "P5D or PT30M",
    TimerKind.DATE: "2030-01-31T09:00:00Z",
    TimerKind.CYCLE: "R3/PT24H",
}


def is_literal(kind: TimerKind, text: str) -> bool:
    """Return whether a text is a valid literal for a timer of this kind."""
    if kind is TimerKind.DURATION:
        return _is_duration(text)
    if kind is TimerKind.DATE:
        return _is_date(text)
    repetition, _, interval = text.partition("/")
    begin, _, duration = interval.rpartition("/")
    is_begin = not begin or _is_date(begin)
    return _REPETITION.fullmatch(repetition) is not None and is_begin and _is_duration(duration)


def _is_duration(text: str) -> bool:
    # Nearly all durations are one number and one unit, which needs no compiled pattern.
    is_plain = text[:1] == "P" and text[1:-1].isdecimal() and text[-1] in "YMWD"
    return len(text) <= 64 and ((is_plain and text.isascii()) or _DURATION.fullmatch(text) is not None)


def _is_date(text: str) -> bool:
    if _DATE.fullmatch(text) is None:
        return False
    # Imported here because few models, and none meant to last, contain a date.
    from datetime import datetime

    try:
        datetime.fromisoformat(text[:19] if text[16] == ":" else text[:16])
    except ValueError:
        return False
    return True
