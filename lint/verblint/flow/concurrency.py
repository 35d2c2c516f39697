"""Concurrency: which nodes of a process can be active at the same time.

A fork is a gateway or another node that sends a token along several flows, an event that does not interrupt its
activity, or an event subprocess that does not interrupt its scope. Its arms are followed until they meet at a gateway
that waits for all of them.
"""

from collections import Counter
from collections.abc import Iterator

from verblint.bpmn.model import FlowNode, NodeKind, Process, Scope
from verblint.startup.value import value

_SYNCHRONISING = (NodeKind.PARALLEL_GATEWAY, NodeKind.INCLUSIVE_GATEWAY)
_CHOOSING = (NodeKind.EXCLUSIVE_GATEWAY, NodeKind.EVENT_BASED_GATEWAY, NodeKind.COMPLEX_GATEWAY)

MAX_STEPS = 500_000  # far more than drawings made by people need


class TooEntangled(Exception):
    """A process with so many forks that the analysis would take too long."""


@value(eq=False)
class Fork:
    """Where one token becomes several, and the nodes each of them can visit before they are joined."""

    node: FlowNode
    arms: tuple[tuple[FlowNode, ...], ...]


def forks(process: Process) -> Iterator[Fork]:
    """Yield every fork of a process at every depth, or raise TooEntangled."""
    survey = _Survey()
    for scope, node in process.walk():
        begins = _begins(scope, node)
        if node.is_event_sub_process and node.scope is not None and _starts_beside(node.scope):
            others = [other for other in scope.nodes if other is not node]
            yield Fork(node, (survey.inside([node]), survey.inside(others)))
        elif len(begins) > 1:
            yield survey.fork(scope, node, begins)


def shared_nodes(process: Process) -> frozenset[str]:
    """Return the nodes that can hold two tokens at the same time, at every depth, or raise TooEntangled.

    These are the nodes that two arms of a fork can reach, and everything that a non-interrupting event can start: such
    an event may fire more than once.
    """
    found: set[str] = set()
    for fork in forks(process):
        visits = Counter(node.id for arm in fork.arms for node in {node.id: node for node in arm}.values())
        found |= {name for name, count in visits.items() if count > 1}
        if fork.node.kind is NodeKind.BOUNDARY_EVENT:
            found |= {node.id for node in fork.arms[-1]}
        elif fork.node.is_event_sub_process:
            found |= {node.id for node in fork.arms[0]}
    return frozenset(found)


def concurrent_nodes(process: Process) -> frozenset[str]:
    """Return the nodes that can be active while another node is, at every depth, or raise TooEntangled."""
    return frozenset(node.id for fork in forks(process) for arm in fork.arms for node in arm)


def _begins(scope: Scope, node: FlowNode) -> list[FlowNode]:
    """Return where the tokens go that leave a node at the same time."""
    if node.kind is NodeKind.BOUNDARY_EVENT and not node.is_interrupting and node.attached_to in scope.by_id:
        return [scope.by_id[node.attached_to], node]
    if node.kind in _CHOOSING:
        return []
    return [scope.by_id[flow.target] for flow in scope.outgoing(node) if flow.target in scope.by_id]


def _starts_beside(inside: Scope) -> bool:
    return any(node.kind is NodeKind.START_EVENT and not node.is_interrupting for node in inside.nodes)


class _Survey:
    """The walks through one process, limited to a total number of steps."""

    def __init__(self) -> None:
        self._steps = 0

    def fork(self, scope: Scope, node: FlowNode, begins: list[FlowNode]) -> Fork:
        """Return the fork whose arms start at these nodes."""
        visits = Counter(visited.id for begin in begins for visited in self._reach(scope, begin, frozenset()))
        shared = (scope.by_id[name] for name, count in visits.items() if count > 1)
        joins = frozenset(join.id for join in shared if join.kind in _SYNCHRONISING)
        return Fork(node, tuple(self.inside(self._reach(scope, begin, joins)) for begin in begins))

    def inside(self, nodes: list[FlowNode]) -> tuple[FlowNode, ...]:
        """Return the nodes, and everything inside those that are subprocesses."""
        found: list[FlowNode] = []
        for node in nodes:
            found.append(node)
            if node.scope is not None:
                found.extend(inner for _, inner in node.scope.walk())
            self._take_steps(1)
        self._take_steps(len(found) - len(nodes))
        return tuple(found)

    def _reach(self, scope: Scope, begin: FlowNode, stops: frozenset[str]) -> list[FlowNode]:
        """Return the nodes a token can visit from a node on, including that node, without passing a stop."""
        seen: dict[str, FlowNode] = {}
        pending = [begin]
        while pending:
            node = pending.pop()
            if node.id in seen or node.id in stops:
                continue
            boundaries = scope.boundaries(node)
            self._take_steps(1 + len(boundaries))
            seen[node.id] = node
            nexts = [scope.by_id.get(flow.target) for flow in scope.outgoing(node)]
            # An interrupting boundary event takes the token from its activity; any other is a fork of its own.
            nexts += [boundary for boundary in boundaries if boundary.is_interrupting]
            pending.extend(following for following in nexts if following is not None)
        return list(seen.values())

    def _take_steps(self, count: int) -> None:
        self._steps += count
        if self._steps > MAX_STEPS:
            raise TooEntangled
