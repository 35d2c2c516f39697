"""A loop contains something that waits or works."""

from collections.abc import Iterator

from verblint.flow.loops import restless_loops
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule(
    "HB030",
    "endless-loop",
    Severity.ERROR,
    on=(
        "task",
        "manualTask",
        "exclusiveGateway",
        "inclusiveGateway",
        "parallelGateway",
        "intermediateThrowEvent",
        "intermediateCatchEvent",
    ),
)
def check(context: Context) -> Iterator[Finding]:
    """A loop contains something that waits or works.

    A token in a circle of gateways, empty tasks and passing events never rests, and can bring the broker down. Engines
    refuse such loops when they find them.

    Wrong:  an exclusiveGateway that leads back to itself through a manualTask
    Right:  a loop with a serviceTask, a userTask or a timer in it
    """
    for process in context.model.processes:
        for loop in restless_loops(process):
            path = " > ".join(node.id for node in loop)
            message = f"a token that enters the loop {path} never rests"
            yield context.at(loop[0].element, message, hint="Put a task or a timer into the loop")
