"""The way that a case took through its model, as far as what was recorded proves it.

Steps and waits are recorded; gateways, starts and ends are not. A flow belongs to the way if no other flow explains how
the case came to a recorded element. Where two explain it equally well, neither is marked.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from verblint.bpmn.event_cause import MessageEvent, Timer
from verblint.bpmn.model import FlowNode, NodeKind, Scope
from verblint.feel.condition import evaluate
from verblint.feel.grammar import ConditionError
from verblint.feel.plain_condition import PathValues, parse_plain
from verblint.flow.job_nodes import is_job
from verblint.names import OWN_JOBS

_RECORDED = (NodeKind.USER_TASK, NodeKind.RECEIVE_TASK, NodeKind.EVENT_BASED_GATEWAY)
_CATCHING = (NodeKind.CATCH_EVENT, NodeKind.BOUNDARY_EVENT)
_JOINS = (NodeKind.PARALLEL_GATEWAY, NodeKind.INCLUSIVE_GATEWAY)
_START = float("-inf")
_END = float("inf")
_MOST_VISITS = 50  # of an element, the newest: a loop takes the same flows again
_NO_CHOICES: Mapping[str, str] = MappingProxyType({})
_DEEPEST = 200  # elements between two that are recorded; what is further apart is not explained


@dataclass(slots=True)
class Stay:
    """When a case came to an element and when it left it, in seconds. A boundary event may have ended the last stay."""

    came: list[float] = field(default_factory=list)
    left: list[float] = field(default_factory=list)
    is_diverted: bool = False


Stays = Mapping[str, Stay]


@dataclass(frozen=True, slots=True)
class Way:
    """The ids of the flows that were taken, and of the elements between recorded ones that were passed."""

    flows: frozenset[str]
    passed: frozenset[str]


class _Entrance(NamedTuple):
    """One way into an element: from a source, along a flow unless it is a link or a boundary event."""

    source: FlowNode
    flow: str
    is_side: bool = False


def find_way(scope: Scope, stays: Stays, *, is_over: bool, choices: Mapping[str, str] = _NO_CHOICES) -> Way:
    """Return the way through a process, given the stays by element; `is_over` says that the case came to an end.

    `choices` are the flows that gateways take after the last recorded element, as `choose_flows` returns them.
    """
    way = _Marks()
    latest = max((moment for stay in stays.values() for moment in stay.left), default=_START)
    search, _ = _explore(scope, stays, _Ending(latest, choices), way)
    if is_over:
        search.follow_to_end()
    return Way(frozenset(way.flows), frozenset(way.passed))


def choose_flows(scope: Scope, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the flow that each exclusive gateway takes with these values, if that can be decided."""
    chosen: dict[str, str] = {}
    for inner in scope.scopes():
        for node in inner.nodes:
            flow = _choose(inner, node, values) if node.kind is NodeKind.EXCLUSIVE_GATEWAY else None
            if flow is not None:
                chosen[node.id] = flow
    return chosen


def _choose(scope: Scope, node: FlowNode, values: Mapping[str, Any]) -> str | None:
    for flow in reversed(scope.outgoing(node)):
        if flow.id == node.default or flow.condition is None:
            continue
        try:
            truth = evaluate(parse_plain(flow.condition.text), PathValues(values))
        except ConditionError:
            return None
        if truth is not False:
            return flow.id if truth else None
    return node.default or None


def is_recorded(scope: Scope, node: FlowNode) -> bool:
    """Return whether something is recorded when a case comes to an element."""
    if node.scope is not None:
        return any(is_recorded(inner, child) for inner, child in node.scope.walk() if child.scope is None)
    if node.kind in _RECORDED:
        return True
    if node.kind in _CATCHING and any(isinstance(event, MessageEvent | Timer) for event in node.events):
        # Of an event-based gateway, the gateway is recorded and not the event.
        before = (scope.by_id.get(flow.source) for flow in scope.incoming(node))
        return not any(one is not None and one.kind is NodeKind.EVENT_BASED_GATEWAY for one in before)
    job_type = node.binding.job_type
    return (is_job(node) or bool(job_type)) and not job_type.startswith(OWN_JOBS)


@dataclass(slots=True)
class _Marks:
    """What was marked so far, in all scopes."""

    flows: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)


class _Ending(NamedTuple):
    """When the case left the last recorded element, and the flows that gateways took after that."""

    since: float
    choices: Mapping[str, str]


def _explore(scope: Scope, given: Stays, ending: _Ending, marks: _Marks) -> tuple["_Search", Stay | None]:
    """Explain a scope and those inside of it, and return the stay in all of it; None if nothing there is recorded."""
    stays = {node.id: given[node.id] for node in scope.nodes if node.id in given and given[node.id].came}
    inner: dict[str, _Search] = {}
    for node in scope.nodes:
        if node.scope is not None:
            inner[node.id], around = _explore(node.scope, given, ending, marks)
            if around is not None:
                stays[node.id] = around
    search = _Search(scope, stays, inner, ending, marks)
    for node in scope.nodes:
        for moment in stays[node.id].came[-_MOST_VISITS:] if node.id in stays else ():
            search.follow(node, moment)
    return search, _around(scope, stays)


def _around(scope: Scope, stays: Stays) -> Stay | None:
    """Return the stay in a scope. What no boundary event inside of it caught ends the stay from outside."""
    if not stays:
        return None
    came = [min(moment for stay in stays.values() for moment in stay.came)]
    thrown = [max(stays[node.id].left) for node in scope.nodes if _is_thrown(scope, node, stays)]
    if thrown:
        return Stay(came, [max(thrown)], is_diverted=True)
    is_inside = any(len(stay.left) < len(stay.came) for stay in stays.values())
    return Stay(came, [] if is_inside else [max(moment for stay in stays.values() for moment in stay.left)])


def _is_thrown(scope: Scope, node: FlowNode, stays: Stays) -> bool:
    stay = stays.get(node.id)
    is_caught = any(boundary.is_interrupting for boundary in scope.boundaries(node))
    return stay is not None and stay.is_diverted and bool(stay.left) and not is_caught


class _Search:
    """Explains one scope, backwards from what is recorded."""

    def __init__(
        self, scope: Scope, stays: Stays, inner: Mapping[str, "_Search"], ending: _Ending, marks: _Marks
    ) -> None:
        self._ending = ending
        self._marks = marks
        self._inner = inner
        self._scope = scope
        self._stays = stays
        self._links = [(target.id, node) for node in scope.nodes for target in scope.link_targets(node)]
        self._recorded = {node.id: is_recorded(scope, node) for node in scope.nodes}
        self._known: dict[tuple[str, float], float | None] = {}
        self._seen: set[tuple[str, float]] = set()

    def follow(self, node: FlowNode, moment: float, depth: int = 0) -> None:
        """Mark how the case came to an element at a moment."""
        if (node.id, moment) in self._seen or depth > _DEEPEST:
            return
        self._seen.add((node.id, moment))
        for entrance in self._explain(node, moment):
            stay = self._stays.get(entrance.source.id)
            if entrance.flow:
                self._marks.flows.add(entrance.flow)
            if stay is None:
                self._marks.passed.add(entrance.source.id)
                self.follow(entrance.source, moment, depth + 1)
            elif entrance.source.id in self._inner and not stay.is_diverted:
                self._inner[entrance.source.id].follow_to_end()

    def follow_to_end(self) -> None:
        """Mark the end event that the case must have come to, if there is only one."""
        ends = [node for node in self._scope.nodes if node.kind is NodeKind.END_EVENT and node.id not in self._stays]
        found = [(since, node) for node in ends if (since := self._since(node, _END)) is not None]
        latest = max((since for since, _ in found), default=None)
        reached = [node for since, node in found if since == latest]
        if len(reached) == 1:
            self._marks.passed.add(reached[0].id)
            self.follow(reached[0], _END)

    def _explain(self, node: FlowNode, moment: float) -> list[_Entrance]:
        entrances = list(self._entrances(node))
        found = [(since, one) for one in entrances if (since := self._through(one, moment)) is not None]
        if node.kind in _JOINS and len(entrances) > 1:
            return [one for _, one in found]
        latest = max(((since, not one.is_side) for since, one in found), default=None)
        best = [one for since, one in found if (since, not one.is_side) == latest]
        return best if len(best) == 1 else []

    def _entrances(self, node: FlowNode) -> Iterator[_Entrance]:
        for flow in self._scope.incoming(node):
            source = self._scope.by_id.get(flow.source)
            if source is not None:
                yield _Entrance(source, flow.id)
        yield from (_Entrance(source, "") for target, source in self._links if target == node.id)
        host = self._scope.by_id.get(node.attached_to) if node.kind is NodeKind.BOUNDARY_EVENT else None
        if host is not None:
            yield _Entrance(host, "", is_side=not node.is_interrupting)

    def _through(self, entrance: _Entrance, moment: float, depth: int = 0) -> float | None:
        """Return when the case left the last recorded element before an entrance; None if it cannot have come there."""
        source = entrance.source
        stay = self._stays.get(source.id)
        if stay is None:
            since = None if self._recorded.get(source.id, True) else self._since(source, moment, depth + 1)
            return None if self._is_refused(entrance, since, moment) else since
        # A boundary event takes the token of an activity that it interrupts, and no flow of the activity does.
        if source.kind is not NodeKind.BOUNDARY_EVENT and not entrance.is_side:
            is_boundary = not entrance.flow and bool(self._scope.boundaries(source))
            if stay.is_diverted is not is_boundary:
                return None
        return max((at for at in stay.left if at <= moment), default=None)

    def _since(self, node: FlowNode, moment: float, depth: int = 0) -> float | None:
        """Return the same for an element that is not recorded."""
        place = (node.id, moment)
        if place in self._known or depth > _DEEPEST:
            return self._known.get(place)
        self._known[place] = None  # a loop of unrecorded elements explains nothing
        if node.kind is NodeKind.START_EVENT:
            self._known[place] = _START
        else:
            found = [self._through(entrance, moment, depth) for entrance in self._entrances(node)]
            self._known[place] = max((since for since in found if since is not None), default=None)
        return self._known[place]

    def _is_refused(self, entrance: _Entrance, since: float | None, moment: float) -> bool:
        """Return whether a gateway took another flow: known where nothing recorded came after it."""
        chosen = self._ending.choices.get(entrance.source.id)
        return moment == _END and since == self._ending.since and chosen not in (None, entrance.flow)
