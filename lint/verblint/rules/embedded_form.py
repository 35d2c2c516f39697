"""A model embeds no forms."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB124", "embedded-form", Severity.ERROR, on=("userTaskForm", "formDefinition"))
def check(context: Context) -> Iterator[Finding]:
    """A model embeds no forms.

    An embedded form is JSON with expressions that read and write process variables by name. A form is a separate
    resource, found by its id, or the gate shows what its contract declares.

    Wrong:  <zeebe:userTaskForm id="form">{"components": [...]}</zeebe:userTaskForm>
    Right:  <zeebe:formDefinition formId="review" />
    """
    for element in context.every("userTaskForm", namespace=ZEEBE):
        message = "the form is embedded in the model"
        yield context.at(element, message, hint="Deploy it as a form, and name it by formId", detail=element.id)
    for element in context.every("formDefinition", namespace=ZEEBE):
        key = element.attribute("formKey")
        if key is not None:
            yield context.at(key.whole, "the form is named by a key", hint="Name it by formId", detail="formKey")
