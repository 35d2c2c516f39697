"""Every element of the zeebe extension is where the engine looks for it."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.bpmn.zeebe_schema import known_elements
from verblint.names import describe, extended_by
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB120", "zeebe-out-of-place", Severity.ERROR, on=(ZEEBE,))
def check(context: Context) -> Iterator[Finding]:
    """Every element of the zeebe extension is where the engine looks for it.

    In any other place the engine ignores it, although it looks right. A subscription has its own rule, because it is
    misplaced so often.

    Wrong:  <exclusiveGateway id="decide"> with a <zeebe:taskDefinition type="kyc.request-documents" />
    Right:  the taskDefinition in the extensionElements of a serviceTask
    """
    for shape, elements in known_elements(context.elements):
        places = " or ".join(shape.parents) or "any element"
        for element in elements if elements[0].local != "subscription" else ():
            parent = extended_by(element, "zeebe")
            if parent and shape.may_stand_in(parent):
                continue
            where = parent or "not an extensionElements"
            message = f"the {describe(element)} has no effect where it stands, which is {where}"
            hint = f"Move it into the extensionElements of {places}"
            yield context.at(element, message, hint=hint, detail=element.local)
