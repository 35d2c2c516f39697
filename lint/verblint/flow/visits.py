"""Visits: which nodes an instance of a process enters at most once.

Every token that enters a node has a line of descent: the token before it, and so on to the one that the instance began
with. A token that a parallel gateway joined from several counts as the child of the one on the gateway's first incoming
flow. Two tokens that enter the same node then either descend from one another, so that the node is on a cycle, or their
lines part where one token became several, at a fork, and both ways from there lead to the node.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from verblint.bpmn.event_cause import Compensate
from verblint.bpmn.model import FlowNode, NodeKind, Process, Scope
from verblint.flow.concurrency import MAX_STEPS, TooEntangled

# A token that enters leaves by one flow alone.
_CHOOSING = (NodeKind.EXCLUSIVE_GATEWAY, NodeKind.EVENT_BASED_GATEWAY)
# How often such a node lets a token go is not known.
_UNCLEAR = (NodeKind.COMPLEX_GATEWAY, NodeKind.UNKNOWN)


def once_nodes(process: Process) -> frozenset[str]:
    """The events and activities that at most one token of an instance enters, at every depth, or TooEntangled.

    What is not surely so is left out: what repeats, undoes or has listeners, which make jobs of their own, and scopes
    that begin in more ways than by one start event.
    """
    names = Counter(node.id for _, node in process.walk())
    found = _Visits().once_in(process.scope)
    return frozenset(name for name in found if names[name] == 1)


class _Visits:
    """The walks through one process, which together must stay within a number of steps."""

    def __init__(self) -> None:
        self._steps = 0

    def once_in(self, scope: Scope) -> Iterator[str]:
        """The nodes that are entered at most once while their scope, entered by one token, lasts."""
        if not _is_plain(scope):
            return
        repeated = self._repeated(scope)
        for node in scope.nodes:
            if node.id in repeated or not _runs_once(node):
                continue
            if node.kind is NodeKind.SUB_PROCESS and node.scope is not None and _is_begun_once(node):
                yield from self.once_in(node.scope)
            if not node.is_event_sub_process:
                yield node.id

    def _repeated(self, scope: Scope) -> set[str]:
        """The nodes of a scope that two tokens may enter."""
        ways = {node.id: _ways(scope, node) for node in scope.nodes}
        found: set[str] = set()
        for node in scope.nodes:
            if node.kind is NodeKind.BOUNDARY_EVENT and not node.is_interrupting:
                found |= self._reach([node.id], ways)
            if node.id in self._reach(ways[node.id], ways):
                found.add(node.id)
            tokens = [] if node.kind in _CHOOSING else _followed(scope, node)
            if len(tokens) > 1:
                arms = Counter(name for token in tokens for name in self._reach([token], ways))
                found |= {name for name, count in arms.items() if count > 1}
        return found

    def _reach(self, begins: Iterable[str], ways: dict[str, list[str]]) -> set[str]:
        seen: set[str] = set()
        pending = list(begins)
        while pending:
            name = pending.pop()
            if name not in seen:
                seen.add(name)
                pending += ways[name]
                self._take_steps(1 + len(ways[name]))
        return seen

    def _take_steps(self, count: int) -> None:
        self._steps += count
        if self._steps > MAX_STEPS:
            raise TooEntangled


def _ways(scope: Scope, node: FlowNode) -> list[str]:
    """Where a token may go from a node, or be taken by an event that interrupts it."""
    return _followed(scope, node) + [boundary.id for boundary in scope.boundaries(node) if boundary.is_interrupting]


def _followed(scope: Scope, node: FlowNode) -> list[str]:
    """The nodes that outgoing flows lead to, but of the flows into a parallel gateway only the first."""
    return [
        flow.target
        for flow in scope.outgoing(node)
        if flow.target in scope.by_id
        and not (
            scope.by_id[flow.target].kind is NodeKind.PARALLEL_GATEWAY
            and flow is not scope.incoming(scope.by_id[flow.target])[0]
        )
    ]


def _is_plain(scope: Scope) -> bool:
    """Whether a scope begins at one start event, and nothing else in it begins by itself, as the end of a link does."""
    starts = [node for node in scope.nodes if node.kind is NodeKind.START_EVENT]
    return len(starts) == 1 and all(node.kind not in _UNCLEAR and _is_led_to(scope, node) for node in scope.nodes)


def _is_led_to(scope: Scope, node: FlowNode) -> bool:
    if node.kind is NodeKind.BOUNDARY_EVENT:
        return node.attached_to in scope.by_id
    is_begun_otherwise = node.kind is NodeKind.START_EVENT or node.is_event_sub_process or node.is_for_compensation
    return is_begun_otherwise or bool(scope.incoming(node))


def _runs_once(node: FlowNode) -> bool:
    """Whether a token that enters a node makes one job there at most."""
    repeats = node.multi_instance is not None or node.element.find("standardLoopCharacteristics") is not None
    is_heard = bool(node.binding.execution_listeners or node.binding.task_listeners)
    is_single = not node.kind.is_gateway and node.kind is not NodeKind.AD_HOC_SUB_PROCESS
    return is_single and not repeats and not is_heard and not node.is_for_compensation


def _is_begun_once(node: FlowNode) -> bool:
    """Whether a subprocess begins once per token, or as an event subprocess once while its scope lasts."""
    assert node.scope is not None, "only subprocesses are asked"
    starts = [inner for inner in node.scope.nodes if inner.kind is NodeKind.START_EVENT]
    return not node.is_event_sub_process or all(
        start.is_interrupting and not any(isinstance(event, Compensate) for event in start.events) for start in starts
    )
