"""A process has no script task."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB101", "script-task", Severity.ERROR, on=("scriptTask", "script"))
def check(context: Context) -> Iterator[Finding]:
    """A process has no script task.

    A script is code that no test reaches and no review expects, and it reads every variable. A computation belongs in a
    verb, typed and tested, which a service task calls.

    Wrong:  <scriptTask id="score"> with <zeebe:script expression="=domain_payload.score * 2" ... />
    Right:  <serviceTask id="score"> with <zeebe:taskDefinition type="kyc.score-case" />
    """
    for element in (*context.every("scriptTask"), *context.every("script", namespace=ZEEBE)):
        message = f"the {describe(element)} computes inside the engine"
        yield context.at(
            element, message, hint="Let a serviceTask call a sub-verb that computes it", detail=element.local
        )
