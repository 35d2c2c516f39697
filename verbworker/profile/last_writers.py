"""The way to a wait: which jobs come last before a process stands still, going backwards through its model.

The key of a wait is made when the process comes there. An engine makes it from a variable, so somebody must have
written that variable before: the last job on the way.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from verblint.bpmn.event_cause import Link
from verblint.bpmn.model import FlowNode, NodeKind, Process, Scope
from verblint.flow.job_nodes import is_job
from verblint.names import OWN_JOBS

_JOINING = (NodeKind.PARALLEL_GATEWAY, NodeKind.INCLUSIVE_GATEWAY)


@dataclass(frozen=True, slots=True)
class LastWriters:
    """The last jobs before a wait, by id: those that certainly are the last, and those of which one will be.

    `at_start` is true when a token can come there without any job before it.
    """

    certain: frozenset[str]
    possible: frozenset[str]
    at_start: bool


def approach(process: Process, scope: Scope, wait: FlowNode) -> LastWriters:
    """Who comes last before a node that waits for a message."""
    way = _Way(process)
    way.go_back(scope, wait, is_certain=True)
    return LastWriters(frozenset(way.certain - way.possible), frozenset(way.possible), way.at_start)


class _Way:
    """One walk backwards, with what it met."""

    def __init__(self, process: Process) -> None:
        self.certain: set[str] = set()
        self.possible: set[str] = set()
        self.at_start = False
        self._around = dict(_containers(process))
        self._seen: set[tuple[int, str, bool]] = set()

    def go_back(self, scope: Scope, node: FlowNode, *, is_certain: bool) -> None:
        """Visit everything that can come right before a node begins."""
        pending = [(scope, node, is_certain)]
        while pending:
            here, step, certain = pending.pop()
            if (id(here), step.id, certain) in self._seen:
                continue
            self._seen.add((id(here), step.id, certain))
            for before, source in self._before(here, step):
                if is_job(source) and not source.binding.job_type.startswith(OWN_JOBS):
                    (self.certain if certain else self.possible).add(source.id)
                elif source.scope is not None and not source.is_event_sub_process:
                    ends = [end for end in source.scope.nodes if end.kind is NodeKind.END_EVENT]
                    pending += [(source.scope, end, certain) for end in ends if not self._count(end, certain=certain)]
                else:
                    # Of several branches that meet, nobody can say beforehand which one is the last.
                    joins = source.kind in _JOINING and len(before.incoming(source)) > 1
                    pending.append((before, source, certain and not joins))

    def _count(self, end: FlowNode, *, certain: bool) -> bool:
        """Note an end event that is itself a job."""
        if is_job(end):
            (self.certain if certain else self.possible).add(end.id)
        return is_job(end)

    def _before(self, scope: Scope, node: FlowNode) -> Iterator[tuple[Scope, FlowNode]]:
        if node.kind is NodeKind.BOUNDARY_EVENT:
            # It listens from the moment its host begins, and what the host did until then may be undone.
            host = scope.by_id.get(node.attached_to)
            if host is not None:
                yield from self._before(scope, host)
            return
        if node.kind is NodeKind.CATCH_EVENT and isinstance(node.event, Link):
            for other in scope.nodes:
                if node in scope.link_targets(other):
                    yield scope, other
        sources = [scope.by_id.get(flow.source) for flow in scope.incoming(node)]
        yield from ((scope, source) for source in sources if source is not None)
        if node.kind is NodeKind.START_EVENT:
            yield from self._outside(scope)

    def _outside(self, scope: Scope) -> Iterator[tuple[Scope, FlowNode]]:
        """What comes before the beginning of a scope."""
        if id(scope) not in self._around:
            self.at_start = True
            return
        outer, container = self._around[id(scope)]
        if container.is_event_sub_process:
            # It can begin as soon as the scope around it has.
            yield from self._outside(outer)
        else:
            yield from self._before(outer, container)


def _containers(process: Process) -> Mapping[int, tuple[Scope, FlowNode]]:
    return {id(node.scope): (scope, node) for scope, node in process.walk() if node.scope is not None}
