"""A model stays within the size, the depth and the number of elements that the settings allow."""

from collections.abc import Iterator

from verblint.bpmn.reader import OVER_LIMIT
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_by_reader
from verblint.rule import Context, rule


@rule(OVER_LIMIT, "over-limit", Severity.ERROR, on=(OVER_LIMIT,))
def check(context: Context) -> Iterator[Finding]:
    """A model stays within the size, the depth and the number of elements that the settings allow.

    People do not draw models of two megabytes or a hundred levels. A larger one was generated or is hostile, and a
    linter that runs on every change must answer quickly.

    Wrong:  100,000 nested subProcess elements
    Right:  several processes that hand over by message
    """
    return refused_by_reader(context)
