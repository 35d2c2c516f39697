"""A step with the Ameide extension declares what it takes and what it returns."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import extensions
from verblint.bpmn.element import AMEIDE
from verblint.contracts.profiles import profile_of
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("AM722", "io-mapping-recommended", Severity.WARNING, on=(AMEIDE,))
def check(context: Context) -> Iterator[Finding]:
    """A step with the Ameide extension declares what it takes and what it returns.

    Without an ioMapping the verb gets the whole state. That works, and hides what the step depends on.

    Wrong:  <serviceTask id="ask"> with an ameide:taskDefinition only
    Right:  an ameide:ioMapping beside it
    """
    profile = profile_of(context)
    for process in context.model.processes:
        for _, node in process.walk():
            if not profile.may_have("ioMapping", node.kind):
                continue
            if extensions(node.element, "taskDefinition") and not extensions(node.element, "ioMapping"):
                message = f"the {describe(node.element)} does not say what it takes and gives"
                yield context.at(node.element, message, hint="Add an ameide:ioMapping")
