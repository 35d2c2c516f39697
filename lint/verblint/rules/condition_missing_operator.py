"""Two tests have `and` or `or` between them, and `not` has parentheses."""

from collections.abc import Iterator

from verblint.feel.syntax_errors import MISSING_OPERATOR
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_conditions
from verblint.rule import Context, rule


@rule(MISSING_OPERATOR, "condition-missing-operator", Severity.ERROR, on=(MISSING_OPERATOR,))
def check(context: Context) -> Iterator[Finding]:
    """Two tests have `and` or `or` between them, and `not` has parentheses.

    The engine reads keywords without checking where the word ends. As every flag starts with `or`, a forgotten operator
    deploys and means something else: `orch_x = "a" orch_y` is `orch_x = "a" or ch_y`.

    Wrong:  =orch_x = "a" orch_y = true
    Right:  =orch_x = "a" and orch_y = true
    """
    return refused_conditions(context)
