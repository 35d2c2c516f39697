"""Findings that a parser already made: the reader's for a file, the grammar's for a condition."""

from collections.abc import Iterator

from verblint.report.finding import Finding
from verblint.rulebook.rule import Context


def refused_by_reader(context: Context) -> Iterator[Finding]:
    """Nothing: a file the reader refuses has no tree to look at, and the rulebook reports it under its code."""
    return iter(())


def refused_conditions(context: Context) -> Iterator[Finding]:
    """The conditions that the grammar refuses with the code of the rule that is running."""
    for branch in context.branches:
        error = branch.error
        if error is not None and context.rule is not None and error.code == context.rule.code:
            place = branch.condition.part(error.start, error.end)
            yield context.at(place, error.message, hint=error.hint)
