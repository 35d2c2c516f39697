"""In a file with the Ameide extension every automated step has a task definition."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import extensions, is_used
from verblint.bpmn.element import AMEIDE
from verblint.flow.job_nodes import jobs
from verblint.names import COMPENSATE, describe
from verblint.report.finding import Finding, Severity
from verblint.rule import NARROWED, Context, rule


@rule("AM706", "task-definition-missing", Severity.ERROR, on=(AMEIDE, NARROWED))
def check(context: Context) -> Iterator[Finding]:
    """In a file with the Ameide extension every automated step has a task definition.

    Service tasks, send tasks and events that throw a message name their verb and the policy that bounds it.

    Wrong:  <serviceTask id="ask"> with a zeebe:taskDefinition only
    Right:  <serviceTask id="ask"> with an ameide:taskDefinition beside it
    """
    for process in context.model.processes if is_used(context) else ():
        for _, node in jobs(process):
            # The task that undoes the case belongs to the runtime and has no contract.
            if node.binding.job_type != COMPENSATE and not extensions(node.element, "taskDefinition"):
                message = f"the {describe(node.element)} has no taskDefinition of the Ameide extension"
                hint = 'Add <ameide:taskDefinition type="..." policyRef="..." />'
                yield context.at(node.element, message, hint=hint)
