"""Every element has the attributes and children that it needs."""

from collections.abc import Iterator

from verblint.bpmn.bpmn_schema import IDENTIFIED, Content, known_elements
from verblint.bpmn.element import BPMN, Element
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB008", "missing-part", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """Every element has the attributes and children that it needs.

    A flow needs two ends, a boundary event something it is attached to, a file a target namespace. Engines refuse a
    model without them, and every node, flow and message without an id.

    Wrong:  <definitions> without targetNamespace
    Right:  <definitions targetNamespace="https://example.com/kyc">
    """
    for content, elements in known_elements(context.elements):
        needed = (*content.required, "id") if elements[0].local in IDENTIFIED else content.required
        if not content.required_slots and all(map(elements.all_have, needed)):
            continue
        for element in elements:
            for part in _missing(element, content):
                yield context.at(element, f"the {element.local} lacks {part}", hint=f"Add {part}", detail=part)


def _missing(element: Element, content: Content) -> Iterator[str]:
    yield from (f"the attribute {name}" for name in content.required if not element.get(name))
    if content.required_slots:
        names = {child.local for child in element.children if child.namespace == BPMN}
        yield from (f"a {min(slot.names)}" for slot in content.required_slots if not slot.names & names)
    if element.local in IDENTIFIED and not element.id:
        yield "an id"
