"""Findings from parsers: the reader's for a file, the grammar's for a condition."""

from collections.abc import Iterator

from verblint.report.finding import Finding
from verblint.rule import Context


def refused_by_reader(context: Context) -> Iterator[Finding]:
    """Yield nothing: a rejected file has no tree to check, and `inspect` reports it under the reader's code."""
    return iter(())


def refused_conditions(context: Context) -> Iterator[Finding]:
    """Yield the conditions that the grammar rejects with the code of the running rule."""
    for branch in context.branches:
        error = branch.error
        if error is not None and context.rule is not None and error.code == context.rule.code:
            place = branch.condition.part(error.start, error.end)
            yield context.at(place, error.message, hint=error.hint)
