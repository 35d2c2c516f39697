"""The engine repeats no activity."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule(
    "HB107",
    "multi-instance",
    Severity.ERROR,
    on=("multiInstanceLoopCharacteristics", "standardLoopCharacteristics", "loopCharacteristics"),
)
def check(context: Context) -> Iterator[Finding]:
    """The engine repeats no activity.

    A collection to iterate over is domain data, and each round would need its own payload. A verb works through the
    items itself; rounds that wait for people or messages are separate entries.

    Wrong:  <multiInstanceLoopCharacteristics> with <zeebe:loopCharacteristics inputCollection="=documents" />
    Right:  one serviceTask whose verb handles all documents
    """
    loops = context.every("multiInstanceLoopCharacteristics", "standardLoopCharacteristics")
    for element in (*loops, *context.every("loopCharacteristics", namespace=ZEEBE)):
        message = f"the {describe(element)} repeats its activity over data"
        hint = "Let one sub-verb handle all items, or loop through a gateway on a flag"
        yield context.at(element, message, hint=hint, detail=element.local)
