"""A condition reads flags; a flag's name is `orch_` and lower-case words."""

from collections.abc import Iterator

from verblint.feel.syntax_errors import NOT_A_FLAG
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_conditions
from verblint.rule import Context, rule


@rule(NOT_A_FLAG, "condition-not-a-flag", Severity.ERROR, on=(NOT_A_FLAG,))
def check(context: Context) -> Iterator[Finding]:
    """A condition reads flags; a flag's name is `orch_` and lower-case words.

    Flags are the whole contract between verbs and gateways. Any other variable is domain knowledge in the diagram, a
    correlation key, or a misspelt name that is always null.

    Wrong:  =customer_type = "vip"
    Right:  =orch_customer_type = "vip"     (set by a sub-verb, declared in the verb's flags)
    """
    return refused_conditions(context)
