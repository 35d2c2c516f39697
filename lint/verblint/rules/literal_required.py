"""Where a literal is required, nothing is evaluated."""

from collections.abc import Iterator

from verblint.bpmn.places import POLICIES, EvaluationPolicy, WrittenText, places
from verblint.names import describe
from verblint.report.finding import Edit, Finding, Fix, Severity
from verblint.rule import Context, rule
from verblint.startup.pattern import pattern

_QUOTED = pattern(r'=\s*"([A-Za-z0-9 _.:/-]+)"\s*')


@rule(
    "HB309",
    "literal-required",
    Severity.ERROR,
    on=tuple(dict.fromkeys(local for (local, _), policy in POLICIES.items() if policy is EvaluationPolicy.LITERAL)),
)
def check(context: Context) -> Iterator[Finding]:
    """Where a literal is required, nothing is evaluated.

    Workers and tools read headers, properties, forms, priorities and codes as they are written. The engine or a
    connector would evaluate a few of them, and an expression there reads variables that no contract declares.

    Wrong:  <zeebe:header key="limit" value="=order.total" />
    Right:  <zeebe:header key="limit" value="100" />
    """
    for written in places(context, EvaluationPolicy.LITERAL):
        if written.value.text.lstrip().startswith("="):
            message = f"{written.attribute} of {describe(written.element)} is an expression: {written.value.text[:40]}"
            detail = f"{written.element.local} {written.attribute} {written.value.text}"
            yield context.at(written.value, message, hint="Write a literal", detail=detail, fix=_fix(written))


def _fix(written: WrittenText) -> Fix | None:
    """Return the fix if the value is only a quoted string, which is a literal in disguise."""
    match = _QUOTED.fullmatch(written.value.text)
    if match is None:
        return None
    place = written.value.place
    return Fix("write the literal itself", (Edit(place.start, place.end, match[1].encode()),))
