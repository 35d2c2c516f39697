"""In a file with the Ameide extension every step can be reached, and no token is lost."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import is_used
from verblint.bpmn.element import AMEIDE
from verblint.bpmn.model import NodeKind
from verblint.flow.graph import reachable
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import NARROWED, Context, rule


@rule("AM719", "unreachable-node", Severity.ERROR, on=(AMEIDE, NARROWED))
def check(context: Context) -> Iterator[Finding]:
    """In a file with the Ameide extension every step can be reached, and no token is lost.

    A step that no token reaches is never executed. A start event or a gateway without an outgoing flow loses the token.

    Wrong:  <serviceTask id="ask"> with no flow that enters it
    Right:  a flow from the start to it
    """
    for process in context.model.processes if is_used(context) else ():
        for scope in process.scope.scopes():
            reached = reachable(scope)
            for node in scope.nodes:
                if node.id not in reached:
                    message = f"no token can reach the {describe(node.element)}"
                    yield context.at(node.element, message, hint="Draw a flow to it, or remove it", detail="in")
                if (node.kind is NodeKind.START_EVENT or node.kind.is_gateway) and not scope.outgoing(node):
                    message = f"the {describe(node.element)} leads nowhere"
                    yield context.at(node.element, message, hint="Draw a flow from it", detail="out")
