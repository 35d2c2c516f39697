"""Flows enter and leave where tokens can."""

from collections.abc import Iterator

from verblint.bpmn.model import NodeKind
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule

_FIRST = (NodeKind.START_EVENT, NodeKind.BOUNDARY_EVENT)
_ENDS = (*_FIRST, NodeKind.END_EVENT)


@rule("HB022", "flow-direction", Severity.ERROR, on=("sequenceFlow",))
def check(context: Context) -> Iterator[Finding]:
    """Flows enter and leave where tokens can.

    Nothing leaves an end event and nothing enters a start or boundary event. A compensation handler is called only by
    its boundary event.

    Wrong:  <sequenceFlow sourceRef="end" targetRef="ask" />
    Right:  <sequenceFlow sourceRef="ask" targetRef="end" />
    """
    for process in context.model.processes:
        for scope, node in process.walk():
            if node.kind not in _ENDS and not node.is_for_compensation and not node.is_event_sub_process:
                continue
            is_last = node.kind is NodeKind.END_EVENT or node.is_for_compensation or node.is_compensation_boundary
            for flow in scope.outgoing(node) if is_last else ():
                message = f"a flow leaves the {describe(node.element)}"
                yield context.at(flow.element, message, hint="Remove the flow", detail="out")
            is_first = node.kind in _FIRST or node.is_event_sub_process
            for flow in scope.incoming(node) if is_first or node.is_for_compensation else ():
                message = f"a flow enters the {describe(node.element)}"
                yield context.at(flow.element, message, hint="Remove the flow", detail="in")
