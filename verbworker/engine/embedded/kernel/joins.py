"""Joins: tokens that wait at a parallel gateway until one has come over each of its incoming flows."""

from verbworker.engine.embedded.kernel.definition import Action, Node
from verbworker.engine.embedded.kernel.state import State


def is_complete(state: State, scope: int, node: Node, flow: str) -> bool:
    """Take note of a token over a flow; return whether it goes on into the node, and not on waiting for others."""
    if node.act is not Action.PARALLEL or len(node.incoming) < 2:
        return True
    place = f"{scope}:{node.id}"
    arrived = state.arrivals.setdefault(place, {})
    arrived[flow] = arrived.get(flow, 0) + 1
    if len(arrived) < len(node.incoming):
        return False
    left = {known: count - 1 for known, count in arrived.items() if count > 1}
    if left:
        state.arrivals[place] = left
    else:
        del state.arrivals[place]
    return True


def has_waiting(state: State, scope: int) -> bool:
    """Return whether a token waits at a join of a scope."""
    return any(place.startswith(f"{scope}:") for place in state.arrivals)


def forget(state: State, scope: int) -> None:
    """Drop the tokens that wait at joins of a scope."""
    for place in [place for place in state.arrivals if place.startswith(f"{scope}:")]:
        del state.arrivals[place]
