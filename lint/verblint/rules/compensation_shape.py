"""A compensation boundary event leads to one handler, and a handler has no boundary events."""

from collections.abc import Iterator

from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB028", "compensation-shape", Severity.ERROR, on=("compensateEventDefinition", "isForCompensation"))
def check(context: Context) -> Iterator[Finding]:
    """A compensation boundary event leads to one handler, and a handler has no boundary events.

    The event and its handler are joined by an association, not by a flow. The handler is marked isForCompensation and
    has no boundary events of its own.

    Wrong:  <boundaryEvent ...><compensateEventDefinition /></boundaryEvent> without an association
    Right:  <association sourceRef="undo" targetRef="withdraw" /> to a task with isForCompensation="true"
    """
    for process in context.model.processes:
        for scope, node in process.walk():
            if node.is_compensation_boundary:
                handler = scope.compensation_handler(node)
                if handler is None or not handler.is_for_compensation:
                    message = f"the {describe(node.element)} leads to no compensation handler"
                    hint = 'Draw an association to an activity with isForCompensation="true"'
                    yield context.at(node.element, message, hint=hint)
            if node.is_for_compensation and scope.boundaries(node):
                message = f"the compensation handler {node.id} has a boundary event"
                yield context.at(node.element, message, hint="Remove the boundary event", detail="boundary")
    for element in context.every("compensateEventDefinition"):
        if (element.get("waitForCompletion") or "true").strip() not in ("true", "1"):
            message = "an engine always waits until the handlers are done"
            yield context.at(element, message, hint="Remove waitForCompletion", detail="waitForCompletion")
