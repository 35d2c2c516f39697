"""The Ameide extension and the rest of a model do not mix."""

from collections.abc import Iterator

from verblint.bpmn.bpmn_schema import own_text
from verblint.bpmn.element import AMEIDE
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, attribute_mark, rule


@rule("AM725", "ameide-foreign", Severity.ERROR, on=(AMEIDE, attribute_mark(AMEIDE)))
def check(context: Context) -> Iterator[Finding]:
    """The Ameide extension and the rest of a model do not mix.

    An element of the extension contains no text and no element of another namespace, and the extension has no
    attributes for other elements. Content that no tool reads only looks like a contract.

    Wrong:  <ameide:taskHeaders><zeebe:header key="letter" value="reminder" /></ameide:taskHeaders>
    Right:  <ameide:taskHeaders><ameide:header key="letter" value="reminder" /></ameide:taskHeaders>
    """
    for element in context.within(AMEIDE):
        for number, child in enumerate(element.children):
            if child.namespace != AMEIDE:
                message = f"{child.local} stands in {element.local}, where only the Ameide extension has a say"
                detail = f"{element.local} {number} {child.local}"
                yield context.at(child, message, hint=f"Write ameide:{child.local}, or remove it", detail=detail)
        if element.first_chunk < element.last_chunk and (text := own_text(element).strip()):
            message = f"{element.local} holds the text {text[:40]!r}"
            yield context.at(element, message, hint="Remove it", detail=f"{element.local} text")
    for attribute in context.attributes_in(AMEIDE):
        message = f"the Ameide extension has no attribute for {attribute.element.local}"
        hint = "Write it in an element of the extension, or remove it"
        yield context.at(attribute.whole, message, hint=hint, detail=f"@{attribute.local}")
