"""Text is only in elements that hold text."""

from collections.abc import Iterator

from verblint.bpmn.bpmn_schema import content, known_elements, own_text
from verblint.bpmn.element import BPMN
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB016", "stray-text", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """Text is only in elements that hold text.

    Text between elements is a mistake of an editor or of a merge. Engines refuse the model.

    Wrong:  <process id="kyc-open-case">TODO <startEvent id="start" /></process>
    Right:  <process id="kyc-open-case"><documentation>TODO</documentation><startEvent id="start" /></process>
    """
    if not _may_stray(context):
        return
    for known, elements in known_elements(context.elements):
        for element in elements if not known.has_text else ():
            if element.first_chunk < element.last_chunk and (text := own_text(element).strip()):
                message = f"the {element.local} holds the text {text[:40]!r}"
                hint = "Remove it, or move it into documentation"
                yield context.at(element, message, hint=hint, detail=element.local)


def _may_stray(context: Context) -> bool:
    """Return False if all non-blank text is in elements that may contain text or are not BPMN."""
    chunks = context.root.document.chunks
    held: set[int] = set()
    for (namespace, local), alike in context.elements.items():
        known = content(local) if namespace == BPMN else None
        if known is None or known.has_text:
            held.update([element.first_chunk for element in alike if element.last_chunk > element.first_chunk])
            # Text is rarely in pieces.
            for element in [element for element in alike if element.last_chunk > element.first_chunk + 1]:
                held.update(range(element.first_chunk, element.last_chunk))
    return _solid("".join(chunks)) > _solid("".join([chunks[number] for number in held]))


def _solid(text: str) -> int:
    """Count the non-blank characters."""
    return len("".join(text.split()))
