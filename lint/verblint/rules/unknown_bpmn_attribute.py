"""Every attribute of an element is one that BPMN gives it."""

from collections.abc import Iterator

from verblint.bpmn_schema import content_of
from verblint.element import BPMN
from verblint.finding import Finding, Severity
from verblint.naming import suggestion
from verblint.rule import Context, rule


@rule("HB007", "unknown-bpmn-attribute", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """Every attribute of an element is one that BPMN gives it.

    An engine refuses a model with an attribute it does not expect. A misspelt one would else silently leave a default.

    Wrong:  <boundaryEvent id="late" attachedToRef="ask" cancelactivity="false">
    Right:  <boundaryEvent id="late" attachedToRef="ask" cancelActivity="false">
    """
    for element in context.within(BPMN):
        content = content_of(element)
        for namespace, local in element.values if content is not None else ():
            if content is not None and not namespace and local not in content.attributes:
                attribute = element.attribute(local)
                assert attribute is not None
                message = f"a {element.local} has no attribute {local}"
                yield context.at(attribute.whole, message, hint=suggestion(local, content.attributes), detail=local)
