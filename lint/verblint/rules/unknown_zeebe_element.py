"""Every element of the zeebe extension is one that the engine of the profile knows."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.bpmn.zeebe_schema import SHAPES
from verblint.names import suggestion
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB118", "unknown-zeebe-element", Severity.ERROR, on=(ZEEBE,))
def check(context: Context) -> Iterator[Finding]:
    """Every element of the zeebe extension is one that the engine of the profile knows.

    An engine ignores what it does not know: a misspelt element silently does nothing, and one from a later release
    starts to act on the day of the upgrade.

    Wrong:  <zeebe:taskDefinitoin type="kyc.request-documents" />
    Right:  <zeebe:taskDefinition type="kyc.request-documents" />
    """
    engine, version = context.settings.engine, context.settings.engine_version
    for local in [local for namespace, local in context.elements if namespace == ZEEBE]:
        shape = SHAPES.get(local)
        if shape is None:
            message, hint = f"the zeebe extension has no element {local}", suggestion(local, SHAPES)
        elif shape.since > version:
            since = ".".join(map(str, shape.since))
            message = f"the element {local} needs engine {since}, and the profile is {engine}"
            hint = f"Remove it, or set the engine to {since}"
        else:
            continue
        for element in context.every(local, namespace=ZEEBE):
            yield context.at(element, message, hint=hint, detail=local)
