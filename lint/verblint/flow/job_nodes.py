"""Jobs: the nodes of a process at which the engine creates a job for a worker."""

from collections.abc import Iterator
from itertools import chain

from verblint.bpmn.event_cause import MessageEvent
from verblint.bpmn.model import FlowNode, NodeKind, Process, Scope

_TASKS = (NodeKind.SERVICE_TASK, NodeKind.SEND_TASK)
_THROWING = (NodeKind.THROW_EVENT, NodeKind.END_EVENT)


def is_job(node: FlowNode) -> bool:
    """Return whether a node is a service task, a send task or an event that throws a message."""
    if node.kind in _TASKS:
        return True
    return node.kind in _THROWING and any(isinstance(event, MessageEvent) for event in node.events)


def jobs(process: Process) -> Iterator[tuple[Scope, FlowNode]]:
    """Return every job of a process at every depth, each with its scope."""
    thrown = (place for place in process.walk(*_THROWING) if is_job(place[1]))
    return chain(process.walk(*_TASKS), thrown)
