"""A template holds text and known placeholders."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import SHAPES, templates
from verblint.bpmn.element import AMEIDE
from verblint.contracts.templates import VARIABLES, TemplateError, parse
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule

# A required template that is empty counts as missing, which another rule reports.
_OPTIONAL = frozenset(name for shape in SHAPES.values() for name in shape.optional)


@rule("AM709", "template-grammar", Severity.ERROR, on=(AMEIDE,))
def check(context: Context) -> Iterator[Finding]:
    """A template holds text and known placeholders.

    A placeholder is process_instance_id, process_run_id, step_id, step_instance_id, or `state.` and a path of plain
    names. There are no functions, and the only escape is a backslash before `${`.

    Wrong:  workflowIdTemplate="kyc/${now()}"
    Right:  workflowIdTemplate="kyc/${state.entity_ref}"
    """
    for attribute in templates(context):
        try:
            parse(attribute.value)
        except TemplateError as error:
            place = attribute.part(error.start, error.end)
            hint = f"Write one of {', '.join(f'${{{name}}}' for name in VARIABLES)}, or ${{state.<path>}}"
            yield context.at(place, error.message, hint=hint, detail=attribute.local)
        if not attribute.value and attribute.local in _OPTIONAL:
            message = f"{attribute.local} is empty, which can be no key"
            yield context.at(attribute.whole, message, hint="Leave it out for the default", detail=attribute.local)
