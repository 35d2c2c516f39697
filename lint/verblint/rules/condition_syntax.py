"""A condition follows the grammar of conditions."""

from collections.abc import Iterator

from verblint.feel.syntax_errors import SYNTAX
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_conditions
from verblint.rule import Context, rule


@rule(SYNTAX, "condition-syntax", Severity.ERROR, on=(SYNTAX,))
def check(context: Context) -> Iterator[Finding]:
    """A condition follows the grammar of conditions.

    A condition joins tests of flags with `and`, `or`, `not(...)` and parentheses. A test compares one flag with one
    literal, or looks it up in a list. Everything else is refused, because a text that two parsers read differently
    becomes an unintended branch: `==`, single quotes and escapes have other meanings in other languages.

    Wrong:  =orch_outcome == 'approved'
    Right:  =orch_outcome = "approved"
    """
    return refused_conditions(context)
