"""No element counts its own retries."""

from collections.abc import Iterator

from verblint.bpmn.element import BPMN, ZEEBE
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB126", "retry-counter", Severity.ERROR, on=("retryCounter",))
def check(context: Context) -> Iterator[Finding]:
    """No element counts its own retries.

    The policy of the sub-verb defines how often it is tried, and the runtime keeps the count in its frame.

    Wrong:  <serviceTask id="ask" zeebe:retryCounter="3">
    Right:  policies: {kyc.request-documents: patient} in the verb's contract
    """
    for attribute in context.attributes_in(ZEEBE):
        if attribute.local == "retryCounter" and attribute.element.namespace == BPMN:
            message = "the retries of a sub-verb are its policy's"
            yield context.at(attribute.whole, message, hint="Remove the attribute, and name a policy in the contract")
