"""A condition does not compute: no functions, no `if`, `for`, `some` or `every`, no dates."""

from collections.abc import Iterator

from verblint.feel.syntax_errors import CALL
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_conditions
from verblint.rule import Context, rule


@rule(CALL, "condition-calls", Severity.ERROR, on=(CALL,))
def check(context: Context) -> Iterator[Finding]:
    """A condition does not compute: no functions, no `if`, `for`, `some` or `every`, no dates.

    A computed answer is a decision of the domain. A sub-verb makes it, where it is tested and typed, and passes the
    answer to the gateway as a flag.

    Wrong:  =count(orders) > 0
    Right:  =orch_has_orders = true
    """
    return refused_conditions(context)
