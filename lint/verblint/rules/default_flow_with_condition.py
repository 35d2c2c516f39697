"""The default flow of a gateway has no condition."""

from collections.abc import Iterator

from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB223", "default-flow-with-condition", Severity.ERROR, on=("conditionExpression",))
def check(context: Context) -> Iterator[Finding]:
    """The default flow of a gateway has no condition.

    The default flow is taken when no other condition holds, so its own condition never decides. It misleads a reader.

    Wrong:  <exclusiveGateway default="f1">, and f1 has the condition =orch_x = "a"
    Right:  f1 without a condition, or another flow as the default
    """
    for branch in context.branches:
        if branch.gateway is not None and branch.flow.id and branch.gateway.default == branch.flow.id:
            message = f"this is the default flow of {branch.gateway.id}, so its condition decides nothing"
            yield context.at(
                branch.condition, message, hint="Remove the condition, or name another flow as the default"
            )
