"""A suppression holds until its date and no longer."""

from collections.abc import Iterator

from verblint.bpmn.element import VERBWORKER
from verblint.report.finding import Finding, Severity
from verblint.report.suppression import current_date, suppressions
from verblint.rule import Context, rule


@rule("HB902", "expired-suppression", Severity.ERROR, on=(VERBWORKER,))
def check(context: Context) -> Iterator[Finding]:
    """A suppression holds until its date and no longer.

    The author planned to look again by that date. The finding it covered is reported again, and this one explains why.

    Wrong:  <vw:ignore rule="HB601" reason="split with release 4" until="2024-06-30"/> in the year after
    Right:  the process, split; or a new day with a new reason
    """
    today = context.today or current_date()
    for suppression in suppressions(context.root):
        if suppression.is_expired(today):
            until = suppression.element.attribute("until")
            assert until is not None, "a suppression without a last day does not expire"
            message = f"the suppression of {suppression.rule} ended on {suppression.until}"
            hint = "Mend what it covered, or give a later day and a reason"
            yield context.at(until.place, message, hint=hint, detail=suppression.rule)
