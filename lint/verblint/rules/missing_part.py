"""Every element has the attributes and children it cannot be without."""

from collections.abc import Iterator

from verblint.bpmn_schema import IDENTIFIED, content_of
from verblint.element import BPMN
from verblint.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB008", "missing-part", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """Every element has the attributes and children it cannot be without.

    A flow needs two ends, a boundary event something it is attached to, a file a target namespace. Engines refuse a
    model without them, and every node, flow and message without an id.

    Wrong:  <definitions> without targetNamespace
    Right:  <definitions targetNamespace="https://example.com/kyc">
    """
    for element in context.within(BPMN):
        content = content_of(element)
        if content is None:
            continue
        names = {child.local for child in element.children if child.namespace == BPMN}
        missing = [f"the attribute {name}" for name in content.required if not element.get(name)]
        missing += [f"a {min(slot.names)}" for slot in content.slots if slot.is_required and not slot.names & names]
        if element.local in IDENTIFIED and not element.id:
            missing.append("an id")
        for part in missing:
            yield context.at(element, f"the {element.local} lacks {part}", hint=f"Add {part}", detail=part)
