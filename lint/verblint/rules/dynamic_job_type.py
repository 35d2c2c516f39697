"""A job type is a literal."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE, Attribute
from verblint.report.finding import Edit, Finding, Fix, Severity
from verblint.rule import Context, rule
from verblint.startup.pattern import pattern

_QUOTED = pattern(r'=\s*"([a-z0-9.-]+)"\s*')


@rule("HB402", "dynamic-job-type", Severity.ERROR, on=("taskDefinition",))
def check(context: Context) -> Iterator[Finding]:
    """A job type is a literal.

    An expression would choose at run time which verb runs. The allow-list could then not be checked, and the diagram
    would no longer show what it calls.

    Wrong:  <zeebe:taskDefinition type="=orch_next_verb" />
    Right:  an exclusiveGateway on the flag, and one serviceTask for each verb
    """
    for element in context.every("taskDefinition", namespace=ZEEBE):
        attribute = element.attribute("type") if element.values.get("type", "").startswith("=") else None
        if attribute is not None:
            message = f"the job type is computed: {attribute.value[:40]}"
            hint = "Name one sub-verb; branch with a gateway where there is a choice"
            yield context.at(attribute.place, message, hint=hint, fix=_fix(attribute))


def _fix(attribute: Attribute) -> Fix | None:
    """Return the fix if the value is only a quoted string, which is a literal in disguise."""
    match = _QUOTED.fullmatch(attribute.value)
    if match is None:
        return None
    return Fix("write the job type itself", (Edit(attribute.start, attribute.end, match[1].encode()),))
