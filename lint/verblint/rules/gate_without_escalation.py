"""A gate has a timer that fires when no decision is made."""

from collections.abc import Iterator

from verblint.bpmn.event_cause import Timer
from verblint.bpmn.model import FlowNode, NodeKind, Scope
from verblint.contracts.profiles import profile_of
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB513", "gate-without-escalation", Severity.WARNING, on=("userTask",))
def check(context: Context) -> Iterator[Finding]:
    """A gate has a timer that fires when no decision is made.

    People are away, and an unanswered question waits for ever. A boundary timer on the user task or on a subprocess
    around it, or an event subprocess that starts by a timer, takes the case to another person.

    Wrong:  <userTask id="Review" /> alone
    Right:  <userTask id="Review" />, and a boundaryEvent attached to it with a timerEventDefinition
    """
    # Without boundary events, a profile leaves no way to comply.
    for process in context.model.processes if profile_of(context).has("boundaryEvent") else ():
        for gate in _find_tasks_without_timer(process.scope):
            message = f"nothing happens when nobody decides at {gate.id}"
            hint = f"Attach a boundaryEvent with a timerEventDefinition to {gate.id}"
            yield context.at(gate.element, message, hint=hint)


def _find_tasks_without_timer(scope: Scope) -> Iterator[FlowNode]:
    """Yield the user tasks that no timer watches, on the task or around it."""
    if any(node.is_event_sub_process and _starts_by_timer(node) for node in scope.nodes):
        return
    for node in scope.nodes:
        if node.kind is not NodeKind.USER_TASK and node.scope is None:
            continue
        if any(isinstance(boundary.event, Timer) for boundary in scope.boundaries(node)):
            continue
        if node.scope is None:
            yield node
        else:
            yield from _find_tasks_without_timer(node.scope)


def _starts_by_timer(node: FlowNode) -> bool:
    return node.scope is not None and any(
        inner.kind is NodeKind.START_EVENT and isinstance(inner.event, Timer) for inner in node.scope.nodes
    )
