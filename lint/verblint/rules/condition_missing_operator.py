"""Two tests stand apart, with `and` or `or` between them, and `not` has parentheses."""

from collections.abc import Iterator

from verblint.finding import Finding, Severity
from verblint.reason import MISSING_OPERATOR
from verblint.refusal import refused_conditions
from verblint.rule import Context, rule


@rule(MISSING_OPERATOR, "condition-missing-operator", Severity.ERROR, on=(MISSING_OPERATOR,))
def check(context: Context) -> Iterator[Finding]:
    """Two tests stand apart, with `and` or `or` between them, and `not` has parentheses.

    The engine reads keywords without looking where the word ends. As every flag begins with `or`, a forgotten
    operator deploys and means something else: `orch_x = "a" orch_y` is `orch_x = "a" or ch_y`.

    Wrong:  =orch_x = "a" orch_y = true
    Right:  =orch_x = "a" and orch_y = true
    """
    return refused_conditions(context)
