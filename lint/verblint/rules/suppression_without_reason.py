"""A suppression gives its reason."""

from collections.abc import Iterator

from verblint.bpmn.element import VERBWORKER
from verblint.report.finding import Finding, Severity
from verblint.report.suppression import suppressions
from verblint.rule import Context, rule


@rule("HB903", "suppression-without-reason", Severity.ERROR, on=(VERBWORKER,))
def check(context: Context) -> Iterator[Finding]:
    """A suppression gives its reason.

    The next reader has to decide whether it still holds, and cannot ask. Without a reason it covers nothing.

    Wrong:  <vw:ignore rule="HB601"/>
    Right:  <vw:ignore rule="HB601" reason="one letter per country; the list is fixed by law"/>
    """
    for suppression in suppressions(context.root):
        if not suppression.reason.strip():
            message = f"the suppression of {suppression.rule or 'a rule'} gives no reason"
            yield context.at(suppression.element, message, hint='Write: reason="..."', detail=suppression.rule)
