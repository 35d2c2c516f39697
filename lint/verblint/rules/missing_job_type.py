"""Service tasks, send tasks and events that throw a message name the verb that performs them."""

from collections.abc import Iterator

from verblint.flow.job_nodes import jobs
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB409", "missing-job-type", Severity.ERROR, on=("serviceTask", "sendTask", "messageEventDefinition"))
def check(context: Context) -> Iterator[Finding]:
    """Service tasks, send tasks and events that throw a message name the verb that performs them.

    Without a job type there is nothing to do at that step, and the engine refuses the model.

    Wrong:  <serviceTask id="ask" />
    Right:  <serviceTask id="ask"> with <zeebe:taskDefinition type="kyc.request-documents" />
    """
    for process in context.model.processes:
        for _, node in jobs(process):
            if node.binding.type is None or not node.binding.type.text:
                message = f"the {describe(node.element)} names no verb"
                hint = "Add a zeebe:taskDefinition with a type to its extensionElements"
                yield context.at(node.element, message, hint=hint)
