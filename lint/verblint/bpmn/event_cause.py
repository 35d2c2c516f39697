"""Event definitions: why an event happens."""

from enum import StrEnum

from verblint.bpmn.element import BPMN, Element
from verblint.bpmn.expression import Expression
from verblint.startup.value import value


class TimerKind(StrEnum):
    """How a timer defines its time; the values are the names of the BPMN elements."""

    DATE = "timeDate"
    DURATION = "timeDuration"
    CYCLE = "timeCycle"


@value(guarded=False)
class Timer:
    """A point in time is reached. `kind` and `when` are None if the model does not define them."""

    kind: TimerKind | None
    when: Expression | None
    element: Element


@value(guarded=False)
class MessageEvent:
    """A message is received or sent; `ref` is the id of the message."""

    ref: str
    element: Element


@value
class Error:
    """A business error is thrown or caught; without `ref` every error is caught."""

    ref: str
    element: Element


@value
class Escalation:
    """An escalation is thrown or caught; without `ref` every escalation is caught."""

    ref: str
    element: Element


@value
class SignalEvent:
    """A signal is broadcast or received."""

    ref: str
    element: Element


@value
class Terminate:
    """The scope ends immediately, with every token in it."""

    element: Element


@value
class Compensate:
    """Completed work is undone: that of one activity, or without `ref` of the whole scope."""

    ref: str
    element: Element


@value
class Link:
    """A jump within one scope from the throwing to the catching event of the same name."""

    name: str
    element: Element


@value
class Conditional:
    """A condition on variables became true."""

    condition: Expression | None
    element: Element


@value
class UnknownEvent:
    """An unknown event definition; rules and engines reject it by name."""

    element: Element


EventDefinition = (
    Timer | MessageEvent | Error | Escalation | SignalEvent | Terminate | Compensate | Link | Conditional | UnknownEvent
)


def event_definitions(element: Element) -> tuple[EventDefinition, ...]:
    """Return the event definitions in an event, in document order."""
    return tuple(
        _event_definition(child)
        for child in element.children
        if child.namespace == BPMN and child.local.endswith("EventDefinition")
    )


def _event_definition(element: Element) -> EventDefinition:
    match element.local:
        case "timerEventDefinition":
            return _timer(element)
        case "messageEventDefinition":
            return MessageEvent(element.get("messageRef") or "", element)
        case "errorEventDefinition":
            return Error(element.get("errorRef") or "", element)
        case "escalationEventDefinition":
            return Escalation(element.get("escalationRef") or "", element)
        case "signalEventDefinition":
            return SignalEvent(element.get("signalRef") or "", element)
        case "terminateEventDefinition":
            return Terminate(element)
        case "compensateEventDefinition":
            return Compensate(element.get("activityRef") or "", element)
        case "linkEventDefinition":
            return Link(element.get("name") or "", element)
        case "conditionalEventDefinition":
            condition = element.find("condition")
            return Conditional(Expression.of(condition) if condition is not None else None, element)
        case _:
            return UnknownEvent(element)


def _timer(element: Element) -> Timer:
    for kind in TimerKind:
        when = element.find(kind)
        if when is not None:
            return Timer(kind, Expression.of(when), element)
    return Timer(None, None, element)
