"""A timer has one time, of a kind that fits its event."""

from collections.abc import Iterator

from verblint.bpmn.event_cause import Timer, TimerKind
from verblint.bpmn.model import EVENTFUL, FlowNode, NodeKind
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule

_ONE = "Write one of timeDate, timeDuration and timeCycle"


@rule("HB025", "timer-shape", Severity.ERROR, on=("timerEventDefinition",))
def check(context: Context) -> Iterator[Finding]:
    """A timer has one time, of a kind that fits its event.

    A timer has exactly one of timeDate, timeDuration and timeCycle. An interrupting event fires once, so it cannot have
    a cycle, and neither can an event that a token waits at.

    Wrong:  <boundaryEvent ...> that interrupts, with <timeCycle>R3/PT24H</timeCycle>
    Right:  the same with <timeDuration>PT24H</timeDuration>, or with cancelActivity="false"
    """
    for process in context.model.processes:
        for scope, node in process.walk(*EVENTFUL):
            for event in node.events:
                if not isinstance(event, Timer):
                    continue
                count = sum(1 for kind in TimerKind for _ in event.element.find_all(kind))
                if count != 1:
                    message = f"the timer says {count} times"
                    yield context.at(event.element, message, hint=_ONE, detail="count")
                elif event.kind is TimerKind.CYCLE and not _may_repeat(node, scope is process.scope):
                    message = f"the {describe(node.element)} fires once and cannot have a cycle"
                    yield context.at(
                        event.element, message, hint="Write timeDuration, or let it not interrupt", detail="cycle"
                    )


def _may_repeat(node: FlowNode, is_of_process: bool) -> bool:
    if node.kind is NodeKind.START_EVENT and is_of_process:
        return True
    return node.kind is not NodeKind.CATCH_EVENT and not node.is_interrupting
