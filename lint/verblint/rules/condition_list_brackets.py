"""The list after `in` is in parentheses."""

from collections.abc import Iterator

from verblint.feel.syntax_errors import LIST_WITHOUT_PARENTHESES
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_conditions
from verblint.rule import Context, rule


@rule(LIST_WITHOUT_PARENTHESES, "condition-list-brackets", Severity.ERROR, on=(LIST_WITHOUT_PARENTHESES,))
def check(context: Context) -> Iterator[Finding]:
    """The list after `in` is in parentheses.

    After `in [` and `in "a"` the engine reads everything that follows as the list: the condition `orch_x in ["a", "b"]
    and orch_y = true` is false when both parts are true. With parentheses the list ends where they close.

    Wrong:  =orch_x in ["a", "b"] and orch_y = true
    Right:  =orch_x in ("a", "b") and orch_y = true
    """
    return refused_conditions(context)
