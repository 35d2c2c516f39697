"""No element comes from a template that carries a connector."""

from collections.abc import Iterator

from verblint.element import BPMN, ZEEBE
from verblint.finding import Finding, Severity
from verblint.naming import described
from verblint.rule import Context, rule

_MARKS = (
    *("modelerTemplate", "modelerTemplateVersion", "modelerTemplateIcon"),
    *("modelerConfigurationTemplate", "modelerConfigurationName"),
)


@rule("HB104", "element-template", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """No element comes from a template that carries a connector.

    A template can bring job types, inputs and properties that nobody typed, and an update of the template changes them.
    A hollow element has so little on it that a template saves no work.

    Wrong:  <serviceTask id="ask" zeebe:modelerTemplate="io.camunda.connectors.HttpJson.v2">
    Right:  <serviceTask id="ask">
    """
    for element in context.within(BPMN, ZEEBE):
        for namespace, local in element.values:
            if local in _MARKS and namespace == (ZEEBE if element.namespace == BPMN else ""):
                attribute = element.attribute(local, namespace)
                assert attribute is not None
                message = f"the {described(element)} comes from the template {attribute.value!r}"
                hint = "Unlink the template, and keep a taskDefinition that names a sub-verb"
                yield context.at(attribute.whole, message, hint=hint, detail=local)
