"""Decisions based on variables: a gateway's flow, a timer's due time, a subscription's key."""

from datetime import datetime

from verblint.feel.condition import Test, evaluate
from verblint.feel.plain_condition import PathValues
from verbworker.engine.embedded.kernel.definition import Node, TimerWait
from verbworker.engine.embedded.kernel.expressions import Variables
from verbworker.model import schedule


class Stuck(Exception):
    """A token cannot continue because a variable's value is not valid here."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def one_way(node: Node, variables: Variables) -> list[str]:
    """Return the flow an exclusive gateway takes: one whose condition holds, otherwise its default.

    Like Zeebe, checks the flows from the last in the document to the first.
    """
    for flow in reversed(node.outgoing):
        if flow.id != node.default and _holds(node, flow.test, variables):
            return [flow.id]
    return _default(node)


def every_way(node: Node, variables: Variables) -> list[str]:
    """Return the flows an inclusive gateway takes: all whose conditions hold, otherwise its default."""
    held = [flow.id for flow in node.outgoing if flow.id != node.default and _holds(node, flow.test, variables)]
    return held or _default(node)


def _default(node: Node) -> list[str]:
    if not node.default:
        raise Stuck("CONDITION_ERROR", "no condition holds, and there is no default flow")
    return [node.default]


def _holds(node: Node, test: Test | None, variables: Variables) -> bool:
    if test is None:
        return len(node.outgoing) == 1
    truth = evaluate(test, PathValues(variables))
    if truth is None:
        raise Stuck("EXTRACT_VALUE_ERROR", "a condition is neither true nor false")
    return truth


def due(timer: TimerWait, variables: Variables, now: datetime) -> tuple[schedule.DueTime, str]:
    """Return when a timer set `now` is due, and the text that defines it."""
    text = PathValues(variables)[timer.variable] if timer.variable else timer.text
    try:
        return schedule.first(timer.kind, text, now), str(text)
    except schedule.ScheduleInvalid as error:
        raise Stuck("EXTRACT_VALUE_ERROR", f"{timer.variable or timer.text}: {error}") from error


def correlation_key(variable: str, variables: Variables) -> str:
    """Return the key a message must carry; a number is truncated to an integer, as on the broker."""
    value = PathValues(variables)[variable]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Stuck("EXTRACT_VALUE_ERROR", f"the correlation key {variable} is neither a text nor a number")
    return value if isinstance(value, str) else str(int(value))
