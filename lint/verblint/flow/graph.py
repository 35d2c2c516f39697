"""The graph of one scope: what a token can reach, and its loops."""

from verblint.bpmn.model import FlowNode, NodeKind, Scope


def successors(scope: Scope, node: FlowNode) -> list[FlowNode]:
    """Return the nodes a token may go to next: along flows, by boundary events or by a link."""
    found = [scope.by_id[flow.target] for flow in scope.outgoing(node) if flow.target in scope.by_id]
    found += scope.boundaries(node)
    found += scope.link_targets(node)
    return found


def reachable(scope: Scope) -> set[str]:
    """Return the ids of the reachable nodes: from a start, as an event subprocess, or as a compensation handler."""
    pending = [node for node in scope.nodes if node.kind is NodeKind.START_EVENT]
    pending += [node for node in scope.nodes if node.is_event_sub_process or node.is_for_compensation]
    seen: set[str] = set()
    while pending:
        node = pending.pop()
        if node.id not in seen:
            seen.add(node.id)
            pending.extend(successors(scope, node))
    return seen


def find_looping(scope: Scope) -> list[FlowNode]:
    """Return the nodes on loops and between two loops, in document order."""
    following = {node.id: {step.id for step in successors(scope, node)} for node in scope.nodes}
    leading: dict[str, set[str]] = {name: set() for name in following}
    for name, steps in following.items():
        for step in steps:
            leading[step].add(name)
    # Repeatedly remove nodes without successors or predecessors: they are on no loop.
    pending = [name for name in following if not following[name] or not leading[name]]
    gone: set[str] = set()
    while pending:
        name = pending.pop()
        if name in gone:
            continue
        gone.add(name)
        for edges, backwards in ((following, leading), (leading, following)):
            for neighbour in edges[name]:
                backwards[neighbour].discard(name)
                if not backwards[neighbour]:
                    pending.append(neighbour)
    return [node for node in scope.nodes if node.id not in gone]
