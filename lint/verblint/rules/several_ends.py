"""In a file with the Ameide extension a process has one end."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import is_used
from verblint.bpmn.element import AMEIDE
from verblint.bpmn.model import NodeKind
from verblint.report.finding import Finding, Severity
from verblint.rule import NARROWED, Context, rule


@rule("AM720", "several-ends", Severity.WARNING, on=(AMEIDE, NARROWED))
def check(context: Context) -> Iterator[Finding]:
    """In a file with the Ameide extension a process has one end.

    One end makes it clear what a finished case is. Several may be intended, where the outcomes differ.

    Wrong:  <endEvent id="done" /> and <endEvent id="done-too" />
    Right:  one endEvent behind an exclusiveGateway that joins
    """
    for process in context.model.processes if is_used(context) else ():
        ends = [node for node in process.scope.nodes if node.kind is NodeKind.END_EVENT]
        for extra in ends[1:]:
            message = f"the process has {len(ends)} ends"
            yield context.at(extra.element, message, hint=f"Lead the flow to {ends[0].id}")
