"""In a file with the Ameide extension every message that a process waits for has a subscription."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import extensions, is_used
from verblint.bpmn.element import AMEIDE
from verblint.flow.message_waits import waits
from verblint.report.finding import Finding, Severity
from verblint.rule import NARROWED, Context, rule


@rule("AM707", "subscription-missing", Severity.ERROR, on=(AMEIDE, NARROWED))
def check(context: Context) -> Iterator[Finding]:
    """In a file with the Ameide extension every message that a process waits for has a subscription.

    The subscription defines from which state the correlation key is made, and that deliveries are identified by their
    `message_id`.

    Wrong:  <message id="docs" name="documents-received"> with a zeebe:subscription only
    Right:  <ameide:subscription correlationKeyTemplate="${state.case_id}" messageIdPath="message_id" /> beside it
    """
    reported: set[str] = set()
    for wait in waits(context) if is_used(context) else ():
        message = wait.message
        if (
            message is None
            or not wait.needs_key
            or message.id in reported
            or extensions(message.element, "subscription")
        ):
            continue
        reported.add(message.id)
        text = f"the message {message.name or message.id} has no subscription of the Ameide extension"
        hint = 'Add <ameide:subscription correlationKeyTemplate="..." messageIdPath="message_id" />'
        yield context.at(message.element, text, hint=hint)
