"""An element of the zeebe extension occurs once in its place."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.bpmn.zeebe_schema import known_elements
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB121", "zeebe-twice", Severity.ERROR, on=(ZEEBE,))
def check(context: Context) -> Iterator[Finding]:
    """An element of the zeebe extension occurs once in its place.

    The engine takes one of two bindings, or refuses the model. A reader cannot know which.

    Wrong:  two <zeebe:taskDefinition> in one serviceTask
    Right:  one
    """
    for shape, elements in known_elements(context.elements):
        seen: dict[int, int] = {}
        for element in elements if not shape.is_repeatable else ():
            place = element.parent.start if element.parent is not None else -1
            count = seen[place] = seen.get(place, 0) + 1
            if count > 1:
                message = f"the {describe(element)} is written once more"
                yield context.at(element, message, hint="Keep one of them", detail=f"{element.local} {count}")
