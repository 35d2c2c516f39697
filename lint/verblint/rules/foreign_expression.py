"""An extension of another vendor holds no expressions."""

from collections.abc import Iterator

from verblint.bpmn.places import foreign_values
from verblint.report.finding import Finding, Severity
from verblint.rule import STRANGERS, Context, rule


@rule("HB122", "foreign-expression", Severity.ERROR, on=(STRANGERS,))
def check(context: Context) -> Iterator[Finding]:
    """An extension of another vendor holds no expressions.

    The engine ignores it today. A value that starts like an expression is meant to be evaluated by something, and that
    something is not a verb.

    Wrong:  <acme:rule when="${amount > 100}" />
    Right:  a flag that a sub-verb sets
    """
    for value in foreign_values(context, _looks_like_expression):
        message = f"an extension that is not the engine's holds the expression {value.text[:40]!r}"
        hint = "Remove it: what decides is a sub-verb and its flags"
        yield context.at(value, message, hint=hint, detail=value.text)


def _looks_like_expression(text: str) -> bool:
    return text.lstrip().startswith(("=", "${", "#{"))
