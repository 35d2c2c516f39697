"""Jobs: the nodes of a process at which the engine asks a worker to do something."""

from collections.abc import Iterator
from itertools import chain

from verblint.bpmn.event_cause import MessageEvent
from verblint.bpmn.model import FlowNode, NodeKind, Process, Scope

_TASKS = (NodeKind.SERVICE_TASK, NodeKind.SEND_TASK)
_THROWING = (NodeKind.THROW_EVENT, NodeKind.END_EVENT)


def is_job(node: FlowNode) -> bool:
    """True for service and send tasks and for events that throw a message."""
    if node.kind in _TASKS:
        return True
    return node.kind in _THROWING and any(isinstance(event, MessageEvent) for event in node.events)


def jobs(process: Process) -> Iterator[tuple[Scope, FlowNode]]:
    """Every job of a process at every depth, with the scope it stands in."""
    thrown = (place for place in process.walk(*_THROWING) if is_job(place[1]))
    return chain(process.walk(*_TASKS), thrown)
