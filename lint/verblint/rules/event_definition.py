"""An event has the definitions that its kind can have."""

from collections.abc import Iterator

from verblint.bpmn.model import EVENTS, NodeKind
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule

_ALLOWED: dict[NodeKind, tuple[int, tuple[str, ...]]] = {
    NodeKind.START_EVENT: (0, ("message", "timer", "error", "escalation", "signal", "conditional")),
    NodeKind.END_EVENT: (0, ("error", "message", "terminate", "signal", "escalation", "compensate", "cancel")),
    NodeKind.CATCH_EVENT: (1, ("message", "timer", "link", "signal", "conditional")),
    NodeKind.THROW_EVENT: (0, ("message", "link", "signal", "escalation", "compensate")),
    NodeKind.BOUNDARY_EVENT: (
        1,
        ("timer", "message", "error", "escalation", "compensate", "signal", "conditional", "cancel"),
    ),
}


@rule("HB021", "event-definition", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """An event has the definitions that its kind can have.

    A catching event needs exactly one, and not every kind of event can catch or throw everything. Engines refuse a
    model with an event they cannot wait for.

    Wrong:  <intermediateCatchEvent id="wait" />
    Right:  <intermediateCatchEvent id="wait"><timerEventDefinition>...</timerEventDefinition></intermediateCatchEvent>
    """
    for process in context.model.processes:
        for _, node in process.walk(*EVENTS):
            least, allowed = _ALLOWED.get(node.kind, (0, ()))
            if not least <= len(node.events) <= 1:
                wanted = "exactly one" if least else "at most one"
                message = f"the {node.kind} has {len(node.events)} event definitions; {wanted} is allowed"
                yield context.at(node.element, message, hint=f"Write one of: {', '.join(allowed)}", detail="count")
            for event in node.events:
                name = event.element.local.removesuffix("EventDefinition")
                if name not in allowed:
                    message = f"a {node.kind} cannot have a {event.element.local}"
                    yield context.at(event.element, message, hint=f"Write one of: {', '.join(allowed)}", detail=name)
