"""A boundary event has an outgoing flow."""

from collections.abc import Iterator

from verblint.bpmn.model import NodeKind
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB024", "boundary-leads-nowhere", Severity.ERROR, on=("boundaryEvent",))
def check(context: Context) -> Iterator[Finding]:
    """A boundary event has an outgoing flow.

    The event exists for what happens after the timer fires or the error is thrown. Engine 8.6 refuses a boundary event
    that nothing follows; later ones silently end the token there. The engine looks for an `outgoing` element, so the
    flow alone is not enough.

    Wrong:  <boundaryEvent id="late" attachedToRef="ask"> with no flow that leaves it
    Right:  <sequenceFlow sourceRef="late" targetRef="remind" />
    """
    for process in context.model.processes:
        for scope, node in process.walk(NodeKind.BOUNDARY_EVENT):
            is_boundary = not node.is_compensation_boundary
            if is_boundary and not scope.outgoing(node):
                message = f"nothing follows the {describe(node.element)}"
                yield context.at(node.element, message, hint="Draw a flow to what shall happen, or to an end event")
            elif is_boundary and node.element.find("outgoing") is None:
                message = f"the {describe(node.element)} does not list the flow that leaves it"
                hint = f"Add <outgoing>{scope.outgoing(node)[0].id}</outgoing> to it"
                yield context.at(node.element, message, hint=hint)
