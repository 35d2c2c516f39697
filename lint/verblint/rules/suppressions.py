"""Suppressions that are unused, expired, malformed or without a reason."""

from collections.abc import Iterator

from verblint.bpmn.element import VERBWORKER
from verblint.fixes.rewrites import remove
from verblint.report import Finding, Severity
from verblint.rule import Context, rule
from verblint.rules.index import find
from verblint.suppression import Suppression, current_date, suppressions


@rule("HB901", severity=Severity.WARNING, on=(VERBWORKER,))
def unused_suppression(context: Context) -> Iterator[Finding]:
    """A suppression that suppresses nothing is removed.

    The finding it covered is gone, or was never at this element. If it stays, it silently covers the next one. It
    counts as unused only when its rule ran. The fix removes it.

    Wrong:  <vw:ignore rule="HB601" reason="..."/> on a process of three tasks
    Right:  no vw:ignore
    """
    for suppression in context.unused:
        message = f"nothing is found here by {suppression.rule}, so the suppression is of no use"
        fix = remove(suppression.element, "remove the suppression")
        hint = "Remove the vw:ignore element"
        yield context.at(suppression.element, message, hint=hint, detail=suppression.rule, fix=fix)


@rule("HB902", on=(VERBWORKER,))
def expired_suppression(context: Context) -> Iterator[Finding]:
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
            hint = "Fix what it covered, or give a later day and a reason"
            yield context.at(until.place, message, hint=hint, detail=suppression.rule)


@rule("HB903", on=(VERBWORKER,))
def suppression_without_reason(context: Context) -> Iterator[Finding]:
    """A suppression gives its reason.

    The next reader has to decide whether it still holds, and cannot ask. Without a reason it covers nothing.

    Wrong:  <vw:ignore rule="HB601"/>
    Right:  <vw:ignore rule="HB601" reason="one letter per country; the list is fixed by law"/>
    """
    for suppression in suppressions(context.root):
        if not suppression.reason.strip():
            message = f"the suppression of {suppression.rule or 'a rule'} gives no reason"
            yield context.at(suppression.element, message, hint='Write: reason="..."', detail=suppression.rule)


@rule("HB904", on=(VERBWORKER,))
def malformed_suppression(context: Context) -> Iterator[Finding]:
    """A suppression names one rule that can be suppressed, and is where it can be understood.

    It belongs in the extensionElements of the element it is about. File safety (HB0xx) and suppressions themselves
    (HB9xx) cannot be suppressed. A misspelt one would otherwise look like an answer and cover nothing.

    Wrong:  <vw:ignore rule="HB6o1" until="soon"/>
    Right:  <vw:ignore rule="HB601" reason="..." until="2027-01-01"/>
    """
    for suppression in suppressions(context.root):
        for message, hint in _faults(suppression):
            yield context.at(suppression.element, message, hint=hint, detail=f"{suppression.rule} {message}")
    for element in context.within(VERBWORKER):
        if element.local != "ignore":
            message = f"verbworker knows no element called {element.local}"
            yield context.at(element, message, hint="Write vw:ignore, or remove it", detail=element.local)


def _faults(suppression: Suppression) -> Iterator[tuple[str, str]]:
    named = find(suppression.rule)
    if not suppression.rule:
        yield "the suppression names no rule", 'Write: rule="HB..."'
    elif named is None:
        yield f"no rule is called {suppression.rule}", "See verblint rules for codes and names"
    elif not named.is_suppressible:
        yield f"{suppression.rule} cannot be suppressed", "Fix the model instead"
    if not suppression.has_date:
        yield f"{suppression.until} is not a date", 'Write: until="2027-01-01"'
    if not suppression.is_placed:
        yield "the suppression covers nothing in this place", "Put it into the extensionElements of the element"
    for local in suppression.strange_attributes:
        yield f"a suppression has no attribute {local}", "Write rule, reason and until, and no more"
