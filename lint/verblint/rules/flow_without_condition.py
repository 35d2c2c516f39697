"""A flow that leaves a branching gateway has a condition or is the default."""

from collections.abc import Iterator

from verblint.flow.branching import BRANCHING
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB222", "flow-without-condition", Severity.ERROR, on=("exclusiveGateway", "inclusiveGateway"))
def check(context: Context) -> Iterator[Finding]:
    """A flow that leaves a branching gateway has a condition or is the default.

    With two or more flows the engine must know when to take each, and refuses the model when it does not.

    Wrong:  an exclusiveGateway with two flows, one of them without a condition and no default
    Right:  <exclusiveGateway id="decide" default="flow_without_condition">
    """
    for process in context.model.processes:
        for scope, node in process.walk(*BRANCHING):
            flows = scope.outgoing(node)
            if len(flows) < 2:
                continue
            for flow in flows:
                if flow.condition is None and flow.id != node.default:
                    message = f"the flow leaves {node.id} without a condition and is not its default"
                    hint = f'Write a condition, or default="{flow.id}" on the gateway'
                    yield context.at(flow.element, message, hint=hint)
