"""A condition does not do arithmetic."""

from collections.abc import Iterator

from verblint.feel.syntax_errors import ARITHMETIC
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_conditions
from verblint.rule import Context, rule


@rule(ARITHMETIC, "condition-computes", Severity.ERROR, on=(ARITHMETIC,))
def check(context: Context) -> Iterator[Finding]:
    """A condition does not do arithmetic.

    Sums and differences compute over data, and a dash inside a name is a minus: `orch_risk-class` is the flag
    `orch_risk` minus the variable `class`, which is null.

    Wrong:  =orch_attempts + 1 > 3
    Right:  =orch_attempts >= 3
    """
    return refused_conditions(context)
