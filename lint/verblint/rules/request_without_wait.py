"""A request to the outside is followed by a wait for its answer."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import is_used
from verblint.bpmn.element import AMEIDE
from verblint.bpmn.event_cause import MessageEvent
from verblint.bpmn.model import FlowNode, NodeKind, Scope
from verblint.flow.job_nodes import jobs
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule
from verblint.startup.pattern import pattern

_REQUEST = pattern(r"\.request\.v[0-9]+$")


@rule("AM723", "request-without-wait", Severity.ERROR, on=(AMEIDE,))
def check(context: Context) -> Iterator[Finding]:
    """A request to the outside is followed by a wait for its answer.

    A verb whose type ends in `.request.v` and a number only asks. The answer comes as a message, and the next step of
    the process must wait for it.

    Wrong:  a serviceTask of type scoring.request.v1, then a serviceTask
    Right:  a serviceTask of type scoring.request.v1, then a receiveTask
    """
    for process in context.model.processes if is_used(context) else ():
        for scope, node in jobs(process):
            if _REQUEST.search(node.binding.job_type) and not any(_waits(step) for step in _next(scope, node)):
                message = f"nothing waits for the answer to {node.binding.job_type}"
                yield context.at(node.element, message, hint="Draw a receiveTask or a message event behind it")


def _next(scope: Scope, node: FlowNode) -> Iterator[FlowNode]:
    """Return the first nodes after a node that are not gateways."""
    pending = [node]
    seen: set[str] = set()
    while pending:
        for flow in scope.outgoing(pending.pop()):
            step = scope.by_id.get(flow.target)
            if step is None or step.id in seen:
                continue
            seen.add(step.id)
            if step.kind.is_gateway:
                pending.append(step)
            else:
                yield step


def _waits(node: FlowNode) -> bool:
    return node.kind is NodeKind.RECEIVE_TASK or (
        node.kind is NodeKind.CATCH_EVENT and isinstance(node.event, MessageEvent)
    )
