"""No event waits for a condition over variables."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB115", "conditional-event", Severity.ERROR, on=("conditionalEventDefinition", "conditionalFilter"))
def check(context: Context) -> Iterator[Finding]:
    """No event waits for a condition over variables.

    The engine would evaluate the condition at every change of a variable, in every instance. Variables change only when
    a sub-verb ends, and there a gateway can look.

    Wrong:  <conditionalEventDefinition><condition>=orch_x = "a"</condition></conditionalEventDefinition>
    Right:  an exclusiveGateway behind the task that sets orch_x
    """
    for element in (*context.every("conditionalEventDefinition"), *context.every("conditionalFilter", namespace=ZEEBE)):
        message = f"the {describe(element)} waits for a change of variables"
        hint = "Write a gateway behind the task that sets the flag, or wait for a message"
        yield context.at(element, message, hint=hint, detail=element.local)
