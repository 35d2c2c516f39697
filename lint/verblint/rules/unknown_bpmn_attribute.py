"""Every attribute of an element is one that BPMN defines for it."""

from collections.abc import Iterator

from verblint.bpmn.bpmn_schema import known_elements
from verblint.bpmn.element import name_of
from verblint.names import suggestion
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB007", "unknown-bpmn-attribute", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """Every attribute of an element is one that BPMN defines for it.

    An engine refuses a model with an attribute it does not expect. Otherwise a misspelt one would silently leave a
    default.

    Wrong:  <boundaryEvent id="late" attachedToRef="ask" cancelactivity="false">
    Right:  <boundaryEvent id="late" attachedToRef="ask" cancelActivity="false">
    """
    for content, elements in known_elements(context.elements):
        unknown = [key for key in elements.keys.difference(content.attributes) if not name_of(key)[0]]
        for element in elements if unknown else ():
            for local in element.values:
                attribute = element.attribute(local) if local in unknown else None
                if attribute is not None:
                    message = f"a {element.local} has no attribute {local}"
                    hint = suggestion(local, content.attributes)
                    yield context.at(attribute.whole, message, hint=hint, detail=local)
