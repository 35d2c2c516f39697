"""Loops that never rest: cycles of nodes at which a token neither waits nor works."""

from collections.abc import Iterator

from verblint.bpmn.event_cause import Link
from verblint.bpmn.model import FlowNode, NodeKind, Process, Scope
from verblint.flow.job_nodes import is_job

_PASSING = (
    NodeKind.TASK,
    NodeKind.MANUAL_TASK,
    NodeKind.EXCLUSIVE_GATEWAY,
    NodeKind.INCLUSIVE_GATEWAY,
    NodeKind.PARALLEL_GATEWAY,
)


def restless_loops(process: Process) -> Iterator[list[FlowNode]]:
    """Yield one loop per scope that has any: the nodes a token passes, with the first one repeated at the end."""
    for scope in process.scope.scopes():
        loop = _loop(scope)
        if loop:
            yield loop


def _loop(scope: Scope) -> list[FlowNode]:
    """Return the first cycle found by walking from every node that lets a token pass."""
    done: set[str] = set()
    for begin in scope.nodes:
        if not _lets_pass(begin) or begin.id in done:
            continue
        # An explicit stack of iterators: a chain of nodes may be longer than Python's recursion limit.
        path = {begin.id: begin}
        stack = [(begin, _next(scope, begin))]
        while stack:
            node, following = stack[-1]
            step = next(following, None)
            if step is None:
                stack.pop()
                done.add(node.id)
                del path[node.id]
            elif step.id in path:
                names = list(path)
                return [*(path[name] for name in names[names.index(step.id) :]), step]
            elif step.id not in done and _lets_pass(step):
                path[step.id] = step
                stack.append((step, _next(scope, step)))
    return []


def _lets_pass(node: FlowNode) -> bool:
    if node.kind in _PASSING:
        return True
    if node.kind is NodeKind.CATCH_EVENT:
        return isinstance(node.event, Link)
    return node.kind is NodeKind.THROW_EVENT and not is_job(node)


def _next(scope: Scope, node: FlowNode) -> Iterator[FlowNode]:
    if node.kind is NodeKind.THROW_EVENT and isinstance(node.event, Link):
        return iter(scope.link_targets(node))
    return (scope.by_id[flow.target] for flow in scope.outgoing(node) if flow.target in scope.by_id)
