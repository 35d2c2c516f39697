"""A process has no business rule task."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB102", "business-rule-task", Severity.ERROR, on=("businessRuleTask", "calledDecision"))
def check(context: Context) -> Iterator[Finding]:
    """A process has no business rule task.

    A decision table is domain knowledge inside the engine, and it reads domain data to decide. A sub-verb decides, sets
    a flag, and the gateway branches on the flag.

    Wrong:  <businessRuleTask id="decide"> with <zeebe:calledDecision decisionId="risk" ... />
    Right:  <serviceTask id="decide"> with <zeebe:taskDefinition type="kyc.rate-risk" />, then a gateway on orch_risk
    """
    for element in (*context.every("businessRuleTask"), *context.every("calledDecision", namespace=ZEEBE)):
        message = f"the {describe(element)} decides over domain data inside the engine"
        hint = "Let a serviceTask call a sub-verb that decides and sets a flag"
        yield context.at(element, message, hint=hint, detail=element.local)
