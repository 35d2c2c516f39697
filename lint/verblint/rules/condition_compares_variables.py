"""A condition compares a flag with a literal, never with another variable."""

from collections.abc import Iterator

from verblint.feel.syntax_errors import FLAG_AGAINST_VARIABLE
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_conditions
from verblint.rule import Context, rule


@rule(FLAG_AGAINST_VARIABLE, "condition-compares-variables", Severity.ERROR, on=(FLAG_AGAINST_VARIABLE,))
def check(context: Context) -> Iterator[Finding]:
    """A condition compares a flag with a literal, never with another variable.

    Comparing two variables relates data, which is a sub-verb's work. It also cannot be checked: no linter knows which
    values are compared at run time.

    Wrong:  =orch_score > orch_limit
    Right:  =orch_score_over_limit = true
    """
    return refused_conditions(context)
