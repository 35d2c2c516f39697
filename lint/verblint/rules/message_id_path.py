"""Deliveries are identified by `message_id`."""

from collections.abc import Iterator

from verblint.bpmn.element import AMEIDE
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("AM708", "message-id-path", Severity.ERROR, on=(AMEIDE,))
def check(context: Context) -> Iterator[Finding]:
    """Deliveries are identified by `message_id`.

    The envelope of every inbound message has that field, and no other can be chosen.

    Wrong:  messageIdPath="id"
    Right:  messageIdPath="message_id"
    """
    for element in context.every("subscription", namespace=AMEIDE):
        path = element.attribute("messageIdPath")
        if path is not None and path.value.strip() and path.value != "message_id":
            yield context.at(path.whole, f"messageIdPath is {path.value!r}", hint='Write messageIdPath="message_id"')
