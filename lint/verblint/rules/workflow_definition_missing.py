"""In a file with the Ameide extension every executable process has a workflow definition."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import extensions, is_used
from verblint.bpmn.element import AMEIDE
from verblint.report.finding import Finding, Severity
from verblint.rule import NARROWED, Context, rule


@rule("AM705", "workflow-definition-missing", Severity.ERROR, on=(AMEIDE, NARROWED))
def check(context: Context) -> Iterator[Finding]:
    """In a file with the Ameide extension every executable process has a workflow definition.

    It names the definition and the template that identifies its instances. Without it nothing can be compiled.

    Wrong:  <process ...> without <ameide:workflowDefinition>
    Right:  <ameide:workflowDefinition definitionId="kyc-open-case/1" workflowIdTemplate="kyc/${state.entity_ref}" />
    """
    for process in context.model.executable if is_used(context) else ():
        if not extensions(process.element, "workflowDefinition"):
            message = f"the process {process.id} has no workflowDefinition"
            hint = "Add an ameide:workflowDefinition to its extensionElements"
            yield context.at(process.element, message, hint=hint)
