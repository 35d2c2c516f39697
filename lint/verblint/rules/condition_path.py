"""A condition has no paths, filters, lists, ranges or contexts."""

from collections.abc import Iterator

from verblint.feel.syntax_errors import PATH_OR_FILTER
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_conditions
from verblint.rule import Context, rule


@rule(PATH_OR_FILTER, "condition-path", Severity.ERROR, on=(PATH_OR_FILTER,))
def check(context: Context) -> Iterator[Finding]:
    """A condition has no paths, filters, lists, ranges or contexts.

    Flags are flat. A dot or a bracket looks into a structure, and a structure in a process variable is domain data
    that the engine must not know. Contexts can even hide what they read from the engine's own analysis.

    Wrong:  =orch.outcome = "approved"
    Right:  =orch_outcome = "approved"
    """
    return refused_conditions(context)
