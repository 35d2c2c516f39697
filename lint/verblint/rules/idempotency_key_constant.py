"""A key differs from instance to instance."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import is_template, placeholders, templates
from verblint.bpmn.element import AMEIDE
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule

_OF_INSTANCE = ("process_instance_id", "process_run_id", "step_instance_id")


@rule("AM711", "idempotency-key-constant", Severity.ERROR, on=(AMEIDE,))
def check(context: Context) -> Iterator[Finding]:
    """A key differs from instance to instance.

    A key that contains nothing of the instance is the same for all of them: the second case would be mistaken for a
    repetition of the first.

    Wrong:  idempotencyKeyTemplate="send-letter/${step_id}"
    Right:  idempotencyKeyTemplate="send-letter/${process_instance_id}/${step_id}"
    """
    for attribute in templates(context):
        found = placeholders(attribute)
        varies = any(placeholder.path or placeholder.name in _OF_INSTANCE for placeholder in found)
        if attribute.value and not varies and is_template(attribute):
            message = f"{attribute.local} is the same for every instance"
            yield context.at(
                attribute.place, message, hint="Add ${process_instance_id} or ${state.<path>}", detail=attribute.local
            )
