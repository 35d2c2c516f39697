"""An event that needs a message, an error or an escalation names it."""

from collections.abc import Iterator

from verblint.bpmn.event_cause import Error, Escalation, EventDefinition, MessageEvent
from verblint.bpmn.model import EVENTFUL, FlowNode, NodeKind
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule

_THROWING = (NodeKind.THROW_EVENT, NodeKind.END_EVENT)


@rule(
    "HB029",
    "missing-reference",
    Severity.ERROR,
    on=("receiveTask", "messageEventDefinition", "errorEventDefinition", "escalationEventDefinition"),
)
def check(context: Context) -> Iterator[Finding]:
    """An event that needs a message, an error or an escalation names it.

    A message without a name cannot be waited for, and an error that is thrown needs a code.

    Wrong:  <receiveTask id="wait" />
    Right:  <receiveTask id="wait" messageRef="docs" />
    """
    for process in context.model.processes:
        for _, node in process.walk(NodeKind.RECEIVE_TASK, *EVENTFUL):
            if node.kind is NodeKind.RECEIVE_TASK and not node.message:
                yield context.at(
                    node.element, f"{node.id} waits for no message", hint="Write messageRef", detail="message"
                )
            for event in node.events:
                lacking = _lacking(node, event, context)
                if lacking:
                    message = f"the {describe(node.element)} needs {lacking}"
                    yield context.at(event.element, message, hint=f"Name {lacking}", detail=event.element.local)


def _lacking(node: FlowNode, event: EventDefinition, context: Context) -> str:
    is_thrown = node.kind in _THROWING
    match event:
        case MessageEvent(ref="") if not is_thrown:
            return "a message, by messageRef"
        case Error(ref=ref) if is_thrown:
            error = context.model.errors.get(ref)
            return "" if error is not None and error.code else "an error with an errorCode, by errorRef"
        case Escalation(ref=ref) if is_thrown:
            escalation = context.model.escalations.get(ref)
            return "" if escalation is not None and escalation.code else "an escalation with a code, by escalationRef"
        case _:
            return ""
