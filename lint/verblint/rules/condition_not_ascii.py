"""A condition is written in plain ASCII."""

from collections.abc import Iterator

from verblint.feel.syntax_errors import NOT_ASCII
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_conditions
from verblint.rule import Context, rule


@rule(NOT_ASCII, "condition-not-ascii", Severity.ERROR, on=(NOT_ASCII,))
def check(context: Context) -> Iterator[Finding]:
    """A condition is written in plain ASCII.

    A Cyrillic `o` makes another variable, which is null. A zero width space is invisible and is skipped by the engine.
    What is invisible cannot be reviewed.

    Wrong:  =orch_x<U+200B> = "a"
    Right:  =orch_x = "a"
    """
    return refused_conditions(context)
