"""Concurrency: which nodes of a process can be busy at the same time.

A fork is a gateway or another node that sends a token along several flows, an event that does not interrupt what it
is attached to, or an event subprocess that does not interrupt its scope. Its arms are followed until they meet at a
gateway that waits for all of them.
"""

from collections import Counter
from collections.abc import Iterator

from verblint.model import FlowNode, Kind, Process, Scope
from verblint.value import value

_SYNCHRONISING = (Kind.PARALLEL_GATEWAY, Kind.INCLUSIVE_GATEWAY)
_CHOOSING = (Kind.EXCLUSIVE_GATEWAY, Kind.EVENT_BASED_GATEWAY, Kind.COMPLEX_GATEWAY)


@value(eq=False)
class Fork:
    """Where one token becomes several, and the nodes each of them can visit before they are joined."""

    node: FlowNode
    arms: tuple[tuple[FlowNode, ...], ...]


def forks(process: Process) -> Iterator[Fork]:
    """Every fork of a process at every depth."""
    for scope, node in process.walk():
        if node.kind is Kind.BOUNDARY_EVENT and not node.is_interrupting:
            host = scope.by_id.get(node.attached_to)
            if host is not None:
                yield _fork(scope, node, [host, node])
        elif node.is_event_sub_process and node.scope is not None and _starts_beside(node.scope):
            others = [other for other in scope.nodes if other is not node]
            yield Fork(node, (tuple(_inside([node])), tuple(_inside(others))))
        elif node.kind not in _CHOOSING:
            targets = [scope.by_id[flow.target] for flow in scope.outgoing(node) if flow.target in scope.by_id]
            if len(targets) > 1:
                yield _fork(scope, node, targets)


def _starts_beside(inside: Scope) -> bool:
    return any(node.kind is Kind.START_EVENT and not node.is_interrupting for node in inside.nodes)


def _fork(scope: Scope, node: FlowNode, begins: list[FlowNode]) -> Fork:
    visits = Counter(visited.id for begin in begins for visited in _reach(scope, begin, frozenset()))
    joins = frozenset(name for name, count in visits.items() if count > 1 and scope.by_id[name].kind in _SYNCHRONISING)
    return Fork(node, tuple(tuple(_inside(_reach(scope, begin, joins))) for begin in begins))


def _reach(scope: Scope, begin: FlowNode, stops: frozenset[str]) -> list[FlowNode]:
    """The nodes a token can visit from a node on, that node included, without passing a stop."""
    seen: dict[str, FlowNode] = {}
    pending = [begin]
    while pending:
        node = pending.pop()
        if node.id in seen or node.id in stops:
            continue
        seen[node.id] = node
        nexts = [scope.by_id.get(flow.target) for flow in scope.outgoing(node)]
        # An interrupting boundary event takes the token from its host; any other has a fork of its own.
        nexts += [boundary for boundary in scope.boundaries(node) if boundary.is_interrupting]
        pending.extend(following for following in nexts if following is not None)
    return list(seen.values())


def _inside(nodes: list[FlowNode]) -> Iterator[FlowNode]:
    for node in nodes:
        yield node
        if node.scope is not None:
            yield from (inner for _, inner in node.scope.walk())
