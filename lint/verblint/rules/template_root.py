"""The identity of a workflow and a correlation key are made only of state."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import placeholders, templates
from verblint.bpmn.element import AMEIDE
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("AM710", "template-root", Severity.ERROR, on=(AMEIDE,))
def check(context: Context) -> Iterator[Finding]:
    """The identity of a workflow and a correlation key are made only of state.

    Both must be known before there is an instance or a step, and must be the same wherever they are computed.

    Wrong:  correlationKeyTemplate="${step_id}"
    Right:  correlationKeyTemplate="${state.case_id}"
    """
    for attribute in templates(context):
        if attribute.local == "idempotencyKeyTemplate":
            continue
        for placeholder in placeholders(attribute):
            if not placeholder.path:
                place = attribute.part(placeholder.start, placeholder.end)
                message = f"{attribute.local} uses {placeholder.name}, which is not state"
                yield context.at(
                    place, message, hint="Write ${state.<path>}", detail=f"{attribute.local} {placeholder.name}"
                )
