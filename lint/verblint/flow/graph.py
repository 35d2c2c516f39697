"""The graph of one scope: what a token can reach, and where it can come round again."""

from verblint.bpmn.model import FlowNode, NodeKind, Scope


def successors(scope: Scope, node: FlowNode) -> list[FlowNode]:
    """The nodes a token may go to next: along flows, by boundary events, by a link."""
    found = [scope.by_id[flow.target] for flow in scope.outgoing(node) if flow.target in scope.by_id]
    found += scope.boundaries(node)
    found += scope.link_targets(node)
    return found


def reachable(scope: Scope) -> set[str]:
    """The ids of the nodes that something can reach: from a start, as an event subprocess, as a handler."""
    pending = [node for node in scope.nodes if node.kind is NodeKind.START_EVENT]
    pending += [node for node in scope.nodes if node.is_event_sub_process or node.is_for_compensation]
    seen: set[str] = set()
    while pending:
        node = pending.pop()
        if node.id not in seen:
            seen.add(node.id)
            pending.extend(successors(scope, node))
    return seen


def looping(scope: Scope) -> list[FlowNode]:
    """The nodes on loops, and between two loops, in document order."""
    following = {node.id: {step.id for step in successors(scope, node)} for node in scope.nodes}
    leading: dict[str, set[str]] = {name: set() for name in following}
    for name, steps in following.items():
        for step in steps:
            leading[step].add(name)
    # What leads nowhere any more, or is reached by nothing any more, is on no loop: take it away, again and again.
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
