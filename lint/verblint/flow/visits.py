"""Visits: which nodes an instance of a process enters at most once.

Every token that enters a node has a line of ancestors: the token before it, and so on to the first token of the
instance. A token that a parallel gateway joined from several counts as the child of the one on the gateway's first
incoming flow. If two tokens enter the same node, then either one descends from the other, so that the node is on a
cycle, or their lines separate at a fork, where one token became several, and both paths from there lead to the node.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from verblint.bpmn.event_cause import Compensate, Timer, TimerKind
from verblint.bpmn.model import FlowNode, NodeKind, Process, Scope
from verblint.flow.concurrency import MAX_STEPS, TooEntangled

# An entering token leaves by exactly one flow.
_CHOOSING = (NodeKind.EXCLUSIVE_GATEWAY, NodeKind.EVENT_BASED_GATEWAY)
# How often such a node releases a token is unknown.
_UNCLEAR = (NodeKind.COMPLEX_GATEWAY, NodeKind.UNKNOWN)


def once_nodes(process: Process, *, listeners: bool = False) -> frozenset[str]:
    """Return the events and activities that at most one token of an instance enters, or raise TooEntangled.

    Covers every depth. Uncertain nodes are left out: those that repeat or undo, and scopes that do not start with
    exactly one start event. Those with listeners, which create jobs of their own, are included only with `listeners`.
    """
    names = Counter(node.id for _, node in process.walk())
    found = _Visits(listeners).once_in(process.scope)
    return frozenset(name for name in found if names[name] == 1)


class _Visits:
    """The walks through one process, limited to a total number of steps."""

    def __init__(self, listeners: bool) -> None:
        self._listeners = listeners
        self._steps = 0

    def once_in(self, scope: Scope) -> Iterator[str]:
        """Yield the nodes entered at most once during the lifetime of their scope, which one token has entered."""
        if not _is_plain(scope):
            return
        repeated = self._find_repeats(scope)
        for node in scope.nodes:
            if node.id in repeated or not _runs_once(node) or (_has_listeners(node) and not self._listeners):
                continue
            if node.kind is NodeKind.SUB_PROCESS and node.scope is not None and _is_begun_once(node):
                yield from self.once_in(node.scope)
            if not node.is_event_sub_process:
                yield node.id

    def _find_repeats(self, scope: Scope) -> set[str]:
        """Return the nodes of a scope that two tokens may enter."""
        ways = {node.id: _ways(scope, node) for node in scope.nodes}
        found: set[str] = set()
        for node in scope.nodes:
            if node.kind is NodeKind.BOUNDARY_EVENT and not node.is_interrupting and not _fires_once(node):
                found |= self._reach([node.id], ways)
            if node.id in self._reach(ways[node.id], ways):
                found.add(node.id)
            tokens = [] if node.kind in _CHOOSING else _follow(scope, node)
            if len(tokens) > 1:
                found |= _find_overlap(self._reach([token], ways) for token in tokens)
            reminders = [boundary.id for boundary in scope.boundaries(node) if _fires_beside(boundary)]
            if reminders:
                onward = [name for name in ways[node.id] if name not in reminders]
                found |= _find_overlap([self._reach(onward, ways), *(self._reach([name], ways) for name in reminders)])
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


def _find_overlap(arms: Iterable[set[str]]) -> set[str]:
    """Return what two of the tokens that separated at a node can reach."""
    return {name for name, count in Counter(name for arm in arms for name in arm).items() if count > 1}


def _ways(scope: Scope, node: FlowNode) -> list[str]:
    """Return where tokens may go from a node, including boundary events that happen at most once per token."""
    boundaries = scope.boundaries(node)
    return _follow(scope, node) + [
        boundary.id for boundary in boundaries if boundary.is_interrupting or _fires_beside(boundary)
    ]


def _fires_beside(boundary: FlowNode) -> bool:
    """Return whether an event makes at most one more token for each token in its activity."""
    return not boundary.is_interrupting and _fires_once(boundary)


def _fires_once(node: FlowNode) -> bool:
    """Return whether an event is a timer with one point in time; any other may happen again and again."""
    return bool(node.events) and all(
        isinstance(event, Timer) and event.kind in (TimerKind.DURATION, TimerKind.DATE) for event in node.events
    )


def _follow(scope: Scope, node: FlowNode) -> list[str]:
    """Return the targets of outgoing flows; into a parallel gateway, only its first incoming flow counts."""
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
    """Return whether a scope has one start event and nothing else in it starts by itself, as the end of a link does."""
    starts = [node for node in scope.nodes if node.kind is NodeKind.START_EVENT]
    return len(starts) == 1 and all(node.kind not in _UNCLEAR and _is_led_to(scope, node) for node in scope.nodes)


def _is_led_to(scope: Scope, node: FlowNode) -> bool:
    if node.kind is NodeKind.BOUNDARY_EVENT:
        return node.attached_to in scope.by_id
    is_begun_otherwise = node.kind is NodeKind.START_EVENT or node.is_event_sub_process or node.is_for_compensation
    return is_begun_otherwise or bool(scope.incoming(node))


def _runs_once(node: FlowNode) -> bool:
    """Return whether a token that enters a node creates at most one job there."""
    repeats = node.multi_instance is not None or node.element.find("standardLoopCharacteristics") is not None
    is_single = not node.kind.is_gateway and node.kind is not NodeKind.AD_HOC_SUB_PROCESS
    return is_single and not repeats and not node.is_for_compensation


def _has_listeners(node: FlowNode) -> bool:
    return bool(node.binding.execution_listeners or node.binding.task_listeners)


def _is_begun_once(node: FlowNode) -> bool:
    """Return whether a subprocess starts once per token, or as an event subprocess once during its scope's lifetime."""
    assert node.scope is not None, "only subprocesses are asked"
    starts = [inner for inner in node.scope.nodes if inner.kind is NodeKind.START_EVENT]
    return not node.is_event_sub_process or all(
        start.is_interrupting and not any(isinstance(event, Compensate) for event in start.events) for start in starts
    )
