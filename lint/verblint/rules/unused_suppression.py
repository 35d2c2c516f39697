"""A suppression that suppresses nothing is removed."""

from collections.abc import Iterator

from verblint.bpmn.element import VERBWORKER
from verblint.fixes.rewrites import remove
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB901", "unused-suppression", Severity.WARNING, on=(VERBWORKER,))
def check(context: Context) -> Iterator[Finding]:
    """A suppression that suppresses nothing is removed.

    The finding it covered is gone, or was never at this element. If it stays, it silently covers the next one. It
    counts as unused only when its rule ran. The fix removes it.

    Wrong:  <vw:ignore rule="HB601" reason="..."/> on a process of three tasks
    Right:  no vw:ignore
    """
    for suppression in context.unused:
        message = f"nothing is found here by {suppression.rule}, so the suppression is of no use"
        yield context.at(
            suppression.element,
            message,
            hint="Remove the vw:ignore element",
            detail=suppression.rule,
            fix=remove(suppression.element, "remove the suppression"),
        )
