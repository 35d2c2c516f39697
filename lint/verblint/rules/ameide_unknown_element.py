"""Every element of the Ameide extension is one that the extension has."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import SHAPES
from verblint.bpmn.element import AMEIDE
from verblint.names import suggestion
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("AM701", "ameide-unknown-element", Severity.ERROR, on=(AMEIDE,))
def check(context: Context) -> Iterator[Finding]:
    """Every element of the Ameide extension is one that the extension has.

    The BPMN schema does not check extensions, so a misspelt element passes every validator and is then missing where it
    is needed.

    Wrong:  <ameide:taskDefinitoin type="kyc.request-documents" policyRef="patient" />
    Right:  <ameide:taskDefinition type="kyc.request-documents" policyRef="patient" />
    """
    for element in context.within(AMEIDE):
        if element.local not in SHAPES:
            message = f"the Ameide extension has no element {element.local}"
            yield context.at(element, message, hint=suggestion(element.local, SHAPES), detail=element.local)
