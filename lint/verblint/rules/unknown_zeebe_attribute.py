"""Every attribute of the zeebe extension is one that the engine knows."""

from collections.abc import Iterator

from verblint.bpmn.element import BPMN, ZEEBE, name_of
from verblint.bpmn.zeebe_schema import ATTRIBUTES, known_elements
from verblint.names import suggestion
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, attribute_mark, rule


@rule("HB119", "unknown-zeebe-attribute", Severity.ERROR, on=(ZEEBE, attribute_mark(ZEEBE)))
def check(context: Context) -> Iterator[Finding]:
    """Every attribute of the zeebe extension is one that the engine knows.

    The engine ignores a misspelt attribute, so a default applies that the author did not choose.

    Wrong:  <zeebe:taskDefinition type="kyc.request-documents" retires="5" />
    Right:  <zeebe:taskDefinition type="kyc.request-documents" retries="5" />
    """
    for shape, elements in known_elements(context.elements):
        unknown = [key for key in elements.keys.difference(shape.attributes) if not name_of(key)[0]]
        for attribute in (attribute for element in elements for attribute in element.attributes) if unknown else ():
            local = attribute.local
            if local in unknown and not attribute.namespace:
                message = f"the zeebe element {elements[0].local} has no attribute {local}"
                yield context.at(attribute.whole, message, hint=suggestion(local, shape.attributes), detail=local)
    for attribute in context.attributes_in(ZEEBE):
        local = attribute.local
        if attribute.element.namespace == BPMN and local not in ATTRIBUTES:
            message = f"the zeebe extension gives BPMN elements no attribute {local}"
            yield context.at(attribute.whole, message, hint="Remove it", detail=f"zeebe:{local}")
