"""Attributes of BPMN and zeebe elements are written without a prefix."""

from collections.abc import Iterator

from verblint.bpmn.element import BPMN, ZEEBE
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, attribute_mark, rule


@rule("HB014", "qualified-attribute", Severity.ERROR, on=(attribute_mark(BPMN), attribute_mark(ZEEBE)))
def check(context: Context) -> Iterator[Finding]:
    """Attributes of BPMN and zeebe elements are written without a prefix.

    The engine reads only the plain attribute. `zeebe:type="..."` beside or instead of it is ignored, which misleads a
    reader.

    Wrong:  <zeebe:taskDefinition zeebe:type="kyc.request-documents" />
    Right:  <zeebe:taskDefinition type="kyc.request-documents" />
    """
    for attribute in context.attributes_in(BPMN, ZEEBE):
        local = attribute.local
        if attribute.namespace == ZEEBE and attribute.element.namespace == BPMN:
            # On BPMN elements the extension has its own attributes.
            continue
        message = f"the engine ignores {local} when it has a prefix"
        yield context.at(attribute.whole, message, hint=f"Write {local} without a prefix", detail=local)
