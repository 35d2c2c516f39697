"""A process has no connectors."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.names import FOREIGN_JOBS
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB103", "connector", Severity.ERROR, words=(FOREIGN_JOBS, "inbound."))
def check(context: Context) -> Iterator[Finding]:
    """A process has no connectors.

    A connector calls the outside world without the runtime: no frame, no idempotency key, no audit. A call to a
    database, an API or a queue is a verb. Properties called `inbound.` start processes in the same way, from outside.

    Wrong:  <zeebe:taskDefinition type="io.camunda:http-json:1" />
    Right:  <zeebe:taskDefinition type="kyc.screen-entity" />
    """
    for element in context.every("taskDefinition", "executionListener", "taskListener", namespace=ZEEBE):
        written = element.attribute("type")
        if written is not None and written.value.startswith(FOREIGN_JOBS):
            message = f"the job type {written.value} belongs to a connector"
            yield context.at(written.place, message, hint="Name a sub-verb, which calls the outside itself")
    for element in context.every("property", namespace=ZEEBE):
        written = element.attribute("name")
        if written is not None and written.value.startswith("inbound."):
            message = f"the property {written.value} configures an inbound connector"
            yield context.at(written.place, message, hint="Receive a message through the ingress", detail=written.value)
