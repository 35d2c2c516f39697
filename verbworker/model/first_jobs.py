"""Find the first jobs of a process: those that see the data a case starts with, because no job ran before them."""

from verblint.bpmn.model import FlowNode, NodeKind, Process, Scope
from verblint.flow.job_nodes import is_job

_BRANCHING = (NodeKind.PARALLEL_GATEWAY, NodeKind.INCLUSIVE_GATEWAY)
_WAITING = (NodeKind.USER_TASK, NodeKind.RECEIVE_TASK, NodeKind.CATCH_EVENT, NodeKind.EVENT_BASED_GATEWAY)
_PASSED = (
    *(NodeKind.START_EVENT, NodeKind.THROW_EVENT, NodeKind.TASK, NodeKind.MANUAL_TASK, NodeKind.EXCLUSIVE_GATEWAY),
    *_BRANCHING,
    *_WAITING,
)


def find_first_jobs(process: Process) -> frozenset[str]:
    """Return the ids of the jobs that are certainly first on some path; where it is unclear, none."""
    found: set[str] = set()
    seen: set[tuple[str, bool]] = set()
    # Beside a wait, jobs of another branch may run before it is over.
    has_others = any(
        node.is_event_sub_process or (node.kind is NodeKind.BOUNDARY_EVENT and not node.is_interrupting)
        for _, node in process.walk()
    )
    pending = [(process.scope, node, has_others) for node in _starts(process.scope)]
    while pending:
        scope, node, others = pending.pop()
        if (node.id, others) in seen:
            continue
        seen.add((node.id, others))
        if is_job(node):
            found.add(node.id)
            continue
        inside = node.scope if node.kind is NodeKind.SUB_PROCESS else None
        if inside is not None:
            pending += [(inside, start, others) for start in _starts(inside)]
        if _ends_the_walk(scope, node, others=others):
            continue
        forks = node.kind in _BRANCHING and len(scope.outgoing(node)) > 1
        pending += [(scope, after, others or forks) for after in _after(scope, node)]
    return frozenset(found)


def _ends_the_walk(scope: Scope, node: FlowNode, *, others: bool) -> bool:
    """Return whether a job may have run before what follows a node."""
    if node.scope is not None:
        return any(is_job(inner) for _, inner in node.scope.walk())
    joins = node.kind in _BRANCHING and len(scope.incoming(node)) > 1
    return joins or node.kind not in _PASSED or (others and node.kind in _WAITING)


def _starts(scope: Scope) -> list[FlowNode]:
    return [node for node in scope.nodes if node.kind is NodeKind.START_EVENT]


def _after(scope: Scope, node: FlowNode) -> list[FlowNode]:
    targets = [scope.by_id.get(flow.target) for flow in scope.outgoing(node)]
    return [*(target for target in targets if target is not None), *scope.link_targets(node)]
