"""A suppression that suppresses nothing is removed."""

from collections.abc import Iterator

from verblint.bpmn.element import VERBWORKER, Element
from verblint.report.finding import Edit, Finding, Fix, Severity
from verblint.rulebook.rule import Context, rule


@rule("HB901", "unused-suppression", Severity.WARNING, on=(VERBWORKER,))
def check(context: Context) -> Iterator[Finding]:
    """A suppression that suppresses nothing is removed.

    The finding it spoke of is gone, or never stood at this element. Left in place it would silently cover the next
    one. It counts as unused only when its rule ran. The fix removes it.

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
            fix=Fix("remove the suppression", (_removal(suppression.element),)),
        )


def _removal(element: Element) -> Edit:
    """Return the edit that removes the element, and its line if nothing else is on it."""
    content = element.document.source.content
    start = element.start
    while content[start - 1 : start] in (b" ", b"\t"):
        start -= 1
    if content[element.end : element.end + 1] in (b"\r", b"\n") and content[start - 1 : start] == b"\n":
        start -= 2 if content[start - 2 : start] == b"\r\n" else 1
        return Edit(start, element.end, b"")
    return Edit(element.start, element.end, b"")
