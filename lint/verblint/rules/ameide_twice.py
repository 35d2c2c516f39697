"""An element of the Ameide extension occurs once in its place."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import SHAPES
from verblint.bpmn.element import AMEIDE
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("AM704", "ameide-twice", Severity.ERROR, on=(AMEIDE,))
def check(context: Context) -> Iterator[Finding]:
    """An element of the Ameide extension occurs once in its place.

    Two task definitions on one task are two contracts for one step, and it is unclear which of them applies.

    Wrong:  two <ameide:taskDefinition> in one serviceTask
    Right:  one
    """
    seen: dict[tuple[int, str], int] = {}
    for element in context.within(AMEIDE):
        shape = SHAPES.get(element.local)
        if shape is None or shape.is_repeatable or element.parent is None:
            continue
        place = (element.parent.start, element.local)
        count = seen[place] = seen.get(place, 0) + 1
        if count > 1:
            message = f"{element.local} is written once more"
            yield context.at(element, message, hint="Keep one of them", detail=f"{element.local} {count}")
