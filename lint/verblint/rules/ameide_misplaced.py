"""Every element of the Ameide extension is in the extensionElements of what it describes."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import SHAPES
from verblint.bpmn.element import AMEIDE
from verblint.names import extended_by
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("AM702", "ameide-misplaced", Severity.ERROR, on=(AMEIDE,))
def check(context: Context) -> Iterator[Finding]:
    """Every element of the Ameide extension is in the extensionElements of what it describes.

    A subscription belongs to the message, not to the event; a task definition belongs to the task. In any other place
    it describes nothing.

    Wrong:  <intermediateCatchEvent ...> with <ameide:subscription ... />
    Right:  <message id="docs" ...> with <ameide:subscription ... />
    """
    for element in context.within(AMEIDE):
        shape = SHAPES.get(element.local)
        parent = extended_by(element, "ameide")
        if shape is not None and parent not in shape.parents:
            where = " or ".join(shape.parents)
            message = f"{element.local} stands in {parent or 'no extensionElements'}, where it describes nothing"
            yield context.at(
                element, message, hint=f"Move it into the extensionElements of {where}", detail=element.local
            )
