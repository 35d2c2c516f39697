"""A list after `in` holds strings only or integers only."""

from collections.abc import Iterator

from verblint.feel.syntax_errors import MIXED_LIST
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_conditions
from verblint.rule import Context, rule


@rule(MIXED_LIST, "condition-mixed-list", Severity.ERROR, on=(MIXED_LIST,))
def check(context: Context) -> Iterator[Finding]:
    """A list after `in` holds strings only or integers only.

    `true` in such a list is not a value to compare with but a test that always passes: `orch_n in (4, true)` is true
    for every number. Values of two types can never all match one flag.

    Wrong:  =orch_attempts in (4, true)
    Right:  =orch_attempts in (4, 5)
    """
    return refused_conditions(context)
