"""Concurrency: which nodes of a process can be busy at the same time.

A fork is a gateway or another node that sends a token along several flows, an event that does not interrupt what it
is attached to, or an event subprocess that does not interrupt its scope. Its arms are followed until they meet at a
gateway that waits for all of them.
"""

from collections import Counter
from collections.abc import Iterator

from verblint.bpmn.model import FlowNode, NodeKind, Process, Scope
from verblint.startup.value import value

_SYNCHRONISING = (NodeKind.PARALLEL_GATEWAY, NodeKind.INCLUSIVE_GATEWAY)
_CHOOSING = (NodeKind.EXCLUSIVE_GATEWAY, NodeKind.EVENT_BASED_GATEWAY, NodeKind.COMPLEX_GATEWAY)

MAX_STEPS = 500_000


class TooEntangled(Exception):
    """A process forks so often that nobody should wait until it is understood."""


@value(eq=False)
class Fork:
    """Where one token becomes several, and the nodes each of them can visit before they are joined."""

    node: FlowNode
    arms: tuple[tuple[FlowNode, ...], ...]


def forks(process: Process) -> Iterator[Fork]:
    """Every fork of a process at every depth, or TooEntangled."""
    survey = _Survey()
    for scope, node in process.walk():
        begins = _begins(scope, node)
        if node.is_event_sub_process and node.scope is not None and _starts_beside(node.scope):
            others = [other for other in scope.nodes if other is not node]
            yield Fork(node, (survey.inside([node]), survey.inside(others)))
        elif len(begins) > 1:
            yield survey.fork(scope, node, begins)


def shared_nodes(process: Process) -> frozenset[str]:
    """The nodes that can hold two tokens at once, at every depth, or TooEntangled.

    A node that two arms of a fork can reach, and everything that an event which does not interrupt can start: such an
    event may fire more than once.
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
    """The nodes that can be busy while another node is, at every depth, or TooEntangled."""
    return frozenset(node.id for fork in forks(process) for arm in fork.arms for node in arm)


def _begins(scope: Scope, node: FlowNode) -> list[FlowNode]:
    """Where the tokens go that leave a node at the same time."""
    if node.kind is NodeKind.BOUNDARY_EVENT and not node.is_interrupting and node.attached_to in scope.by_id:
        return [scope.by_id[node.attached_to], node]
    if node.kind in _CHOOSING:
        return []
    return [scope.by_id[flow.target] for flow in scope.outgoing(node) if flow.target in scope.by_id]


def _starts_beside(inside: Scope) -> bool:
    return any(node.kind is NodeKind.START_EVENT and not node.is_interrupting for node in inside.nodes)


class _Survey:
    """The walks through one process, which together must stay within a number of steps."""

    def __init__(self) -> None:
        self._steps = 0

    def fork(self, scope: Scope, node: FlowNode, begins: list[FlowNode]) -> Fork:
        """The fork whose arms begin at these nodes."""
        visits = Counter(visited.id for begin in begins for visited in self._reach(scope, begin, frozenset()))
        shared = (scope.by_id[name] for name, count in visits.items() if count > 1)
        joins = frozenset(join.id for join in shared if join.kind in _SYNCHRONISING)
        return Fork(node, tuple(self.inside(self._reach(scope, begin, joins)) for begin in begins))

    def inside(self, nodes: list[FlowNode]) -> tuple[FlowNode, ...]:
        """Some nodes, and everything inside of those that are subprocesses."""
        found: list[FlowNode] = []
        for node in nodes:
            found.append(node)
            if node.scope is not None:
                found.extend(inner for _, inner in node.scope.walk())
            self._take_steps(1)
        self._take_steps(len(found) - len(nodes))
        return tuple(found)

    def _reach(self, scope: Scope, begin: FlowNode, stops: frozenset[str]) -> list[FlowNode]:
        """The nodes a token can visit from a node on, that node included, without passing a stop."""
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
            # An interrupting boundary event takes the token from its host; any other has a fork of its own.
            nexts += [boundary for boundary in boundaries if boundary.is_interrupting]
            pending.extend(following for following in nexts if following is not None)
        return list(seen.values())

    def _take_steps(self, count: int) -> None:
        self._steps += count
        if self._steps > MAX_STEPS:
            raise TooEntangled
