"""Detect whether an element that is reached again with the same payload is reached by the same token.

A broker that lost its last records leads a token to an element again, under other keys. Every step changes the payload,
so a token that really returns brings another one, unless it can return without a step, or two tokens can arrive.
"""

from collections.abc import Iterator

from verblint.bpmn.assembly import assemble
from verblint.bpmn.model import FlowNode, NodeKind, Process, Scope
from verblint.bpmn.reader import ModelError, read
from verblint.flow.concurrency import TooEntangled, shared_nodes
from verbworker.job.job import Job
from verbworker.stores.deployments import Deployments

_UNCLEAR = (NodeKind.TRANSACTION, NodeKind.AD_HOC_SUB_PROCESS, NodeKind.CALL_ACTIVITY, NodeKind.UNKNOWN)


class VisitIdentity:
    """Knows for which elements of the deployed models the payload identifies the visit."""

    def __init__(self, deployments: Deployments) -> None:
        self._deployments = deployments
        self._known: dict[int, frozenset[str]] = {}

    async def is_certain(self, job: Job) -> bool:
        """Return whether the same payload at a job's element is the same visit; False if that is unknown."""
        key = job.process_definition_key
        if key not in self._known:
            content = await self._deployments.content(key)
            if content is None:
                return False
            self._known[key] = certain_in(content, job.process_id)
        return job.element_id in self._known[key]


def certain_in(content: bytes, process_id: str) -> frozenset[str]:
    """Return the elements that no token reaches twice with the same payload, and that no two tokens reach."""
    try:
        model = assemble(read(content))
        process = next(process for process in model.processes if process.id == process_id)
        shared = shared_nodes(process)
    except (ModelError, StopIteration, TooEntangled):
        return frozenset()
    return frozenset(_certain(process)) - shared


def _certain(process: Process) -> Iterator[str]:
    pending = [process.scope]
    while pending:
        scope = pending.pop()
        for node in scope.nodes:
            if node.multi_instance is not None or node.kind in _UNCLEAR or node.is_event_sub_process:
                continue
            if node.is_for_compensation or _comes_back(scope, node):
                continue
            yield node.id
            if node.scope is not None:
                pending.append(node.scope)


def _comes_back(scope: Scope, start: FlowNode) -> bool:
    """Return whether a token may return to a node before a step was done."""
    seen: set[str] = set()
    pending = list(_ways(scope, start))
    while pending:
        node = pending.pop()
        if node.id == start.id:
            return True
        if node.id not in seen:
            seen.add(node.id)
            pending += _ways(scope, node)
    return False


def _ways(scope: Scope, node: FlowNode) -> Iterator[FlowNode]:
    """Yield the nodes that a token reaches from a node without a step: past a verb only by a boundary event."""
    yield from scope.boundaries(node)
    yield from scope.link_targets(node)
    if node.kind is not NodeKind.SERVICE_TASK:
        yield from (scope.by_id[flow.target] for flow in scope.outgoing(node) if flow.target in scope.by_id)
