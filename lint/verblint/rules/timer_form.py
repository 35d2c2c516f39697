"""A timer is an ISO 8601 literal, or one flag."""

from collections.abc import Iterator

from verblint.bpmn.element import Element
from verblint.bpmn.event_cause import TimerKind
from verblint.bpmn.expression import Expression
from verblint.flow.timer_text import EXAMPLES, is_literal
from verblint.report.finding import Edit, Finding, Fix, Severity
from verblint.rule import Context, rule
from verblint.startup.pattern import pattern

_QUOTED = pattern(r'=\s*"([^"]*)"\s*')


@rule("HB507", "timer-form", Severity.ERROR, on=tuple(TimerKind))
def check(context: Context) -> Iterator[Finding]:
    """A timer is an ISO 8601 literal, or one flag.

    Anything else is computed by the engine. When the time depends on the case, a sub-verb computes it and sets a flag.
    Cron expressions are not ISO 8601 and depend on the clock of the broker.

    Wrong:  <timeDuration>=duration("P" + string(days) + "D")</timeDuration>
    Right:  <timeDuration>P5D</timeDuration>, or <timeDuration>=orch_document_deadline</timeDuration>
    """
    for kind in TimerKind:
        for element in context.every(kind):
            value = Expression.of(element)
            text = value.text
            if not is_literal(kind, text) and not (value.is_feel and _is_flag(element, value)):
                message = f"the timer says {text[:40]!r}" if text else "the timer says nothing"
                hint = f"Write an ISO 8601 literal such as {EXAMPLES[kind]}, or =orch_<name>"
                yield context.at(value, message, hint=hint, detail=kind, fix=_fix(value, kind))


def _is_flag(element: Element, value: Expression) -> bool:
    from verblint.bpmn.places import WrittenText

    return bool(WrittenText(element, "", value).flag)


def _fix(value: Expression, kind: TimerKind) -> Fix | None:
    """Return the fix if the value is only a quoted string, which is a literal in disguise."""
    match = _QUOTED.fullmatch(value.text)
    if match is None or not is_literal(kind, match[1]):
        return None
    place = value.place
    return Fix("write the literal itself", (Edit(place.start, place.end, match[1].encode()),))
