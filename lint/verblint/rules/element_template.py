"""No element comes from a template that carries a connector."""

from collections.abc import Iterator

from verblint.bpmn.element import BPMN, ZEEBE, Attribute
from verblint.names import OWN_TEMPLATES, describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule

_LINK = ("modelerTemplate", "modelerTemplateVersion")
_MARKS = (*_LINK, "modelerTemplateIcon", "modelerConfigurationTemplate", "modelerConfigurationName")


@rule("HB104", "element-template", Severity.ERROR, on=tuple(_MARKS))
def check(context: Context) -> Iterator[Finding]:
    """No element comes from a template that carries a connector.

    A template can bring job types, inputs and properties that the author did not write, and an update of the template
    changes them. A hollow element has so little on it that a template saves no work. The templates that `verbworker
    verbs templates` makes bring only a verb's name, so they may stay; what they wrote is checked like anything else.

    Wrong:  <serviceTask id="ask" zeebe:modelerTemplate="io.camunda.connectors.HttpJson.v2">
    Right:  <serviceTask id="ask">
    """
    on_bpmn = (attribute for attribute in context.attributes_in(ZEEBE) if attribute.element.namespace == BPMN)
    on_zeebe = (attribute for element in context.within(ZEEBE) for attribute in element.attributes)
    for attribute in (*on_bpmn, *on_zeebe):
        expected = ZEEBE if attribute.element.namespace == BPMN else ""
        if attribute.local in _MARKS and attribute.namespace == expected and not _is_own(attribute):
            message = f"the {describe(attribute.element)} comes from the template {attribute.value!r}"
            hint = "Unlink the template, and keep a taskDefinition that names a sub-verb"
            yield context.at(attribute.whole, message, hint=hint, detail=attribute.local)


def _is_own(attribute: Attribute) -> bool:
    """Return whether the element's template was generated from a registry of verbs."""
    template = attribute.element.get("modelerTemplate", ZEEBE) or ""
    return attribute.local in _LINK and template.startswith(OWN_TEMPLATES)
