"""A process has one start event that is entered, and so does each subprocess."""

from collections.abc import Iterator

from verblint.bpmn.model import FlowNode, NodeKind, Scope
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB020", "start-events", Severity.ERROR, on=("process",))
def check(context: Context) -> Iterator[Finding]:
    """A process has one start event that is entered, and so does each subprocess.

    An engine must know where a token starts. A subprocess starts without an event definition, an event subprocess with
    exactly one.

    Wrong:  <process id="kyc-open-case" isExecutable="true"> with two plain start events
    Right:  one startEvent, and gateways behind it
    """
    for process in context.model.processes:
        starts = _starts(process.scope)
        if not starts:
            yield context.at(process.element, "the process has no start event", hint="Draw a startEvent")
        for extra in [start for start in starts if not start.events][1:]:
            message = "the process has a second start event without a definition"
            yield context.at(extra.element, message, hint="Keep one, and branch behind it")
        for _, node in process.walk(NodeKind.SUB_PROCESS, NodeKind.TRANSACTION):
            if node.scope is not None:
                yield from _inside(context, node, _starts(node.scope))


def _starts(scope: Scope) -> list[FlowNode]:
    return [node for node in scope.nodes if node.kind is NodeKind.START_EVENT]


def _inside(context: Context, node: FlowNode, starts: list[FlowNode]) -> Iterator[Finding]:
    if len(starts) != 1:
        message = f"the {node.kind} has {len(starts)} start events"
        yield context.at(node.element, message, hint="Draw exactly one startEvent inside", detail="count")
    for start in starts:
        if node.is_event_sub_process and not start.events:
            hint = "Write what starts it: a message, a timer, an error or an escalation"
            yield context.at(start.element, "nothing says what starts the event subprocess", hint=hint)
        if not node.is_event_sub_process and start.events:
            message = "a subprocess is entered by its flow, not by an event"
            yield context.at(start.element, message, hint="Remove the event definition")
