"""Every element of the zeebe extension is one that the engine of the profile knows."""

from collections.abc import Iterator

from verblint.element import ZEEBE
from verblint.finding import Finding, Severity
from verblint.naming import suggestion
from verblint.rule import Context, rule
from verblint.zeebe_schema import SHAPES


@rule("HB118", "unknown-zeebe-element", Severity.ERROR, on=(ZEEBE,))
def check(context: Context) -> Iterator[Finding]:
    """Every element of the zeebe extension is one that the engine of the profile knows.

    An engine ignores what it does not know: a misspelt element silently does nothing, and one from a later release
    begins to act on the day of the upgrade.

    Wrong:  <zeebe:taskDefinitoin type="kyc.request-documents" />
    Right:  <zeebe:taskDefinition type="kyc.request-documents" />
    """
    for element in context.within(ZEEBE):
        shape = SHAPES.get(element.local)
        if shape is None:
            message = f"the zeebe extension has no element {element.local}"
            yield context.at(element, message, hint=suggestion(element.local, SHAPES), detail=element.local)
        elif shape.since > context.settings.engine_version:
            since = ".".join(map(str, shape.since))
            message = f"the element {element.local} needs engine {since}, and the profile is {context.settings.engine}"
            yield context.at(element, message, hint=f"Remove it, or set the engine to {since}", detail=element.local)
