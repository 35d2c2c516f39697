"""Every element of the zeebe extension stands where the engine looks for it."""

from collections.abc import Iterator

from verblint.element import ZEEBE
from verblint.finding import Finding, Severity
from verblint.naming import described
from verblint.rule import Context, rule
from verblint.zeebe_schema import SHAPES, parent_of


@rule("HB120", "zeebe-out-of-place", Severity.ERROR, on=(ZEEBE,))
def check(context: Context) -> Iterator[Finding]:
    """Every element of the zeebe extension stands where the engine looks for it.

    Somewhere else the engine ignores it, although it looks right. A subscription has a rule of its own, because it is
    misplaced so often.

    Wrong:  <exclusiveGateway id="decide"> with a <zeebe:taskDefinition type="kyc.request-documents" />
    Right:  the taskDefinition in the extensionElements of a serviceTask
    """
    for element in context.within(ZEEBE):
        shape = SHAPES.get(element.local)
        parent = parent_of(element)
        if shape is None or element.local == "subscription" or (parent and shape.may_stand_in(parent)):
            continue
        message = (
            f"the {described(element)} has no effect where it stands, which is {parent or 'not an extensionElements'}"
        )
        places = " or ".join(shape.parents) or "any element"
        yield context.at(element, message, hint=f"Move it into the extensionElements of {places}", detail=element.local)
