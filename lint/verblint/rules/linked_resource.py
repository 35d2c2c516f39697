"""A task links no resources."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB111", "linked-resource", Severity.ERROR, on=("linkedResources", "linkedResource"))
def check(context: Context) -> Iterator[Finding]:
    """A task links no resources.

    A linked resource is a robot script or another file that a foreign worker runs. What runs is a verb.

    Wrong:  <zeebe:linkedResource resourceId="fill-form" resourceType="RPA" ... />
    Right:  <zeebe:taskDefinition type="kyc.fill-form" />
    """
    for element in context.every("linkedResources", "linkedResource", namespace=ZEEBE):
        message = f"the {describe(element)} hands work to something that is not a verb"
        hint = "Remove it, and name a sub-verb as the job type"
        yield context.at(element, message, hint=hint, detail=f"{element.local} {element.get('resourceId') or ''}")
