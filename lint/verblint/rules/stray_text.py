"""Text stands only in elements that hold text."""

from collections.abc import Iterator

from verblint.bpmn_schema import content_of, own_text
from verblint.element import BPMN
from verblint.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB016", "stray-text", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """Text stands only in elements that hold text.

    Text between elements is a slip of an editor or of a merge. Engines refuse the model.

    Wrong:  <process id="kyc-open-case">TODO <startEvent id="start" /></process>
    Right:  <process id="kyc-open-case"><documentation>TODO</documentation><startEvent id="start" /></process>
    """
    for element in context.within(BPMN):
        content = content_of(element)
        if content is not None and not content.has_text and own_text(element).strip():
            message = f"the {element.local} holds the text {own_text(element).strip()[:40]!r}"
            yield context.at(element, message, hint="Remove it, or move it into documentation", detail=element.local)
