"""A gateway that branches has a default flow."""

from collections.abc import Iterator

from verblint.flow.branching import decisions_without_default
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB216", "gateway-without-default", Severity.ERROR, on=("exclusiveGateway", "inclusiveGateway"))
def check(context: Context) -> Iterator[Finding]:
    """A gateway that branches has a default flow.

    When no condition holds and there is no default flow, the instance stops with an incident. A gateway needs none only
    where the contract shows that its conditions cover every value of the flags they read.

    Wrong:  <exclusiveGateway id="decide">, and the one flow that leaves it: =orch_outcome = "approved"
    Right:  <exclusiveGateway id="decide" default="flow_rejected">
    """
    for decision in decisions_without_default(context):
        verb = context.contracts.of_process(decision.process.id)
        if decision.find_gaps(verb) is None:
            hint = "Draw one more flow, or take a flow's condition away, and name it in the gateway's default attribute"
            yield context.at(decision.gateway.element, "the gateway has no default flow", hint=hint)
