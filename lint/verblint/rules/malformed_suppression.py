"""A suppression names one rule that can be suppressed, and is where it can be understood."""

from collections.abc import Iterator

from verblint.bpmn.element import VERBWORKER
from verblint.report.finding import Finding, Severity
from verblint.report.suppression import Suppression, suppressions
from verblint.rule import Context, rule
from verblint.rulebook.loader import find


@rule("HB904", "malformed-suppression", Severity.ERROR, on=(VERBWORKER,))
def check(context: Context) -> Iterator[Finding]:
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
        yield f"{suppression.rule} cannot be suppressed", "Mend the model instead"
    if not suppression.has_date:
        yield f"{suppression.until} is not a date", 'Write: until="2027-01-01"'
    if not suppression.is_placed:
        yield "the suppression stands where it covers nothing", "Put it into the extensionElements of the element"
    for local in suppression.strange_attributes:
        yield f"a suppression has no attribute {local}", "Write rule, reason and until, and no more"
