"""A condition starts with an equals sign."""

from collections.abc import Iterator

from verblint.feel.syntax_errors import NOT_FEEL
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_conditions
from verblint.rule import Context, rule


@rule(NOT_FEEL, "condition-not-feel", Severity.ERROR, on=(NOT_FEEL,))
def check(context: Context) -> Iterator[Finding]:
    """A condition starts with an equals sign.

    The engine evaluates FEEL only, and reads a text as FEEL only if its first character is `=`. A condition in another
    language, or an empty one, is refused when the model is deployed.

    Wrong:  <conditionExpression>${approved}</conditionExpression>
    Right:  <conditionExpression>=orch_approved = true</conditionExpression>
    """
    return refused_conditions(context)
