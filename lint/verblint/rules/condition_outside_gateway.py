"""A condition is on a flow that leaves an exclusive or inclusive gateway."""

from collections.abc import Iterator

from verblint.flow.branching import BRANCHING
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB221", "condition-outside-gateway", Severity.ERROR, on=("conditionExpression",))
def check(context: Context) -> Iterator[Finding]:
    """A condition is on a flow that leaves an exclusive or inclusive gateway.

    The engine refuses it on any other flow. A choice that is drawn without a gateway is easily overlooked.

    Wrong:  a serviceTask whose outgoing flow has a condition
    Right:  the task, then an exclusiveGateway, then the flow with the condition
    """
    for branch in context.branches:
        node = branch.gateway
        if node is None or node.kind in BRANCHING:
            continue
        message = f"the flow leaves the {node.element.local} {node.id}, where conditions are not allowed"
        yield context.at(branch.condition, message, hint=f"Draw an exclusiveGateway behind {node.id}")
