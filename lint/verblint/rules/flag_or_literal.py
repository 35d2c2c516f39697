"""A place that takes a flag evaluates one flag and nothing else."""

from collections.abc import Iterator

from verblint.bpmn.places import EvaluationPolicy, places
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB310", "flag-or-literal", Severity.ERROR, on=("assignmentDefinition", "taskSchedule", "priorityDefinition"))
def check(context: Context) -> Iterator[Finding]:
    """A place that takes a flag evaluates one flag and nothing else.

    Assignees, due dates and priorities may depend on the case. Then a sub-verb decides and sets a flag, and the place
    reads only that flag.

    Wrong:  <zeebe:assignmentDefinition assignee="=reviewer.name" />
    Right:  <zeebe:assignmentDefinition assignee="=orch_reviewer" />
    """
    for written in places(context, EvaluationPolicy.FLAG_OR_LITERAL):
        if written.value.text.startswith("=") and not written.flag:
            message = (
                f"{written.attribute} of {describe(written.element)} is more than one flag: {written.value.text[:40]}"
            )
            detail = f"{written.element.local} {written.attribute}"
            yield context.at(written.value, message, hint="Write a literal, or =orch_<name>", detail=detail)
