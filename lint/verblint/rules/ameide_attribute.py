"""Every element of the Ameide extension has the attributes it needs, and no others."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import SHAPES
from verblint.bpmn.element import AMEIDE
from verblint.names import suggestion
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("AM703", "ameide-attribute", Severity.ERROR, on=(AMEIDE,))
def check(context: Context) -> Iterator[Finding]:
    """Every element of the Ameide extension has the attributes it needs, and no others.

    A task definition needs `type` and `policyRef`; `implementation` is forbidden, because there is only one way to
    perform a task. An attribute with a prefix is a different attribute.

    Wrong:  <ameide:taskDefinition type="kyc.request-documents" implementation="delegate" />
    Right:  <ameide:taskDefinition type="kyc.request-documents" policyRef="patient" />
    """
    for element in context.within(AMEIDE):
        shape = SHAPES.get(element.local)
        if shape is None:
            continue
        for name in shape.required:
            if not (element.get(name) or "").strip():
                message = f"{element.local} has no {name}"
                yield context.at(element, message, hint=f'Write {name}="..."', detail=f"-{name}")
        known = (*shape.required, *shape.optional)
        for attribute in element.attributes:
            if attribute.local not in known or attribute.namespace:
                message = f"{element.local} may not have the attribute {attribute.local}"
                hint = suggestion(attribute.local, known)
                yield context.at(attribute.whole, message, hint=hint, detail=f"+{attribute.namespace}{attribute.local}")
