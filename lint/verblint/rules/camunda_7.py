"""A model contains nothing of Camunda 7."""

from collections.abc import Iterator

from verblint.bpmn.element import CAMUNDA_7
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, attribute_mark, rule

_HINT = "Remove it, and say it with a verb or a flag"


@rule("HB110", "camunda-7", Severity.ERROR, on=(CAMUNDA_7, attribute_mark(CAMUNDA_7)))
def check(context: Context) -> Iterator[Finding]:
    """A model contains nothing of Camunda 7.

    The engine ignores its elements and attributes, so they have no effect. Often they matter: a class to run, a form,
    an assignee.

    Wrong:  <serviceTask id="ask" camunda:class="org.example.Ask">
    Right:  <serviceTask id="ask"> with <zeebe:taskDefinition type="kyc.request-documents" />
    """
    for element in context.within(CAMUNDA_7):
        message = f"the element {element.local} is Camunda 7, which the engine ignores"
        yield context.at(element, message, hint=_HINT, detail=element.local)
    for attribute in context.attributes_in(CAMUNDA_7):
        message = f"the attribute {attribute.local} is Camunda 7, which the engine ignores"
        yield context.at(attribute.whole, message, hint=_HINT, detail=f"@{attribute.local}")
