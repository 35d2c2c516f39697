"""A condition has at most 1,000 characters, and parentheses at most 16 deep."""

from collections.abc import Iterator

from verblint.feel.syntax_errors import OVER_LIMIT
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_conditions
from verblint.rule import Context, rule


@rule(OVER_LIMIT, "condition-over-limit", Severity.ERROR, on=(OVER_LIMIT,))
def check(context: Context) -> Iterator[Finding]:
    """A condition has at most 1,000 characters, and parentheses at most 16 deep.

    A few hundred nested parentheses overflow the stack of the engine's parser. The broker stops, and stops again at
    every restart, because the deployment is replayed. This limit is about safety, not style.

    Wrong:  =((((((((((((((((((orch_x = "a"))))))))))))))))))
    Right:  =orch_x = "a"
    """
    return refused_conditions(context)
