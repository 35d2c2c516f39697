"""Waits: where a process waits for a message."""

from collections.abc import Iterator

from verblint.bpmn.event_cause import MessageEvent
from verblint.bpmn.expression import Expression
from verblint.bpmn.model import FlowNode, MessageDeclaration, NodeKind, Process, Scope
from verblint.contracts.contract import WorkflowVerbFields
from verblint.contracts.syntax import KEY_NAME
from verblint.feel.tokenizer import single_name
from verblint.rule import Context
from verblint.startup.value import value

CATCHING = (NodeKind.CATCH_EVENT, NodeKind.BOUNDARY_EVENT, NodeKind.START_EVENT)


@value(eq=False)
class MessageWaitPoint:
    """A node that waits for a message; the message is None if the model does not declare it."""

    process: Process
    verb: WorkflowVerbFields | None
    node: FlowNode
    message: MessageDeclaration | None
    needs_key: bool


def waits(context: Context) -> Iterator[MessageWaitPoint]:
    """Yield every node of every process that waits for a message."""
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        for scope, node in process.walk(NodeKind.RECEIVE_TASK, *CATCHING):
            for reference in message_refs(node):
                message = context.model.messages.get(reference)
                yield MessageWaitPoint(
                    process, verb, node, message, needs_key=not _starts_process(process, scope, node)
                )


def correlation_name(key: Expression) -> str | None:
    """Return the variable in a correlation key if it is a single valid name, otherwise None."""
    name = single_name(key.feel) if key.is_feel else None
    return name if name is not None and KEY_NAME.fits(name) else None


def message_refs(node: FlowNode) -> Iterator[str]:
    """Yield the ids of the messages that a node waits for."""
    if node.kind is NodeKind.RECEIVE_TASK:
        yield node.message
    elif node.kind in CATCHING:
        yield from (event.ref for event in node.events if isinstance(event, MessageEvent))


def _starts_process(process: Process, scope: Scope, node: FlowNode) -> bool:
    # No instance exists yet that a key could select.
    return scope is process.scope and node.kind is NodeKind.START_EVENT
