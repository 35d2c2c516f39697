"""A subscription is on the message, not on the event or task that waits."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.names import extended_by
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB504", "subscription-on-event", Severity.ERROR, on=("subscription",))
def check(context: Context) -> Iterator[Finding]:
    """A subscription is on the message, not on the event or task that waits.

    The engine reads the correlation key only from the message. On an event it is ignored, and the model is refused
    because the message has none.

    Wrong:  <intermediateCatchEvent ...> with <zeebe:subscription correlationKey="=corr_documents" />
    Right:  <message id="docs" ...> with <zeebe:subscription correlationKey="=corr_documents" />
    """
    for element in context.every("subscription", namespace=ZEEBE):
        parent = extended_by(element, "zeebe")
        if parent != "message":
            message = f"the engine ignores a subscription in {parent or 'this place'}"
            hint = "Move it into the extensionElements of the message"
            yield context.at(element, message, hint=hint)
