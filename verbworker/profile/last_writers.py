"""Find the last jobs before a wait, walking backwards through the model.

A wait's key is computed when the process reaches it. An engine reads it from a variable, so the last job before the
wait must have written that variable.
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
    """The last jobs before a wait, by id: those that are certainly last, and those of which one will be.

    `at_start` is true if a token can reach the wait without any job before it.
    """

    certain: frozenset[str]
    possible: frozenset[str]
    at_start: bool


def find_last_writers(process: Process, scope: Scope, wait: FlowNode) -> LastWriters:
    """Return the last jobs before a node that waits for a message."""
    way = _Way(process)
    way.go_back(scope, wait, is_certain=True)
    return LastWriters(frozenset(way.certain - way.possible), frozenset(way.possible), way.at_start)


class _Way:
    """One walk backwards, with its results."""

    def __init__(self, process: Process) -> None:
        self.certain: set[str] = set()
        self.possible: set[str] = set()
        self.at_start = False
        self._around = dict(_containers(process))
        self._seen: set[tuple[int, str, bool]] = set()

    def go_back(self, scope: Scope, node: FlowNode, *, is_certain: bool) -> None:
        """Visit everything that can directly precede a node."""
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
                    # Where branches join, it is not known in advance which one is last.
                    joins = source.kind in _JOINING and len(before.incoming(source)) > 1
                    pending.append((before, source, certain and not joins))

    def _count(self, end: FlowNode, *, certain: bool) -> bool:
        """Record an end event that is itself a job."""
        if is_job(end):
            (self.certain if certain else self.possible).add(end.id)
        return is_job(end)

    def _before(self, scope: Scope, node: FlowNode) -> Iterator[tuple[Scope, FlowNode]]:
        if node.kind is NodeKind.BOUNDARY_EVENT:
            # It listens from the start of its host, and what the host did until then may be undone.
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
        """Yield what precedes the start of a scope."""
        if id(scope) not in self._around:
            self.at_start = True
            return
        outer, container = self._around[id(scope)]
        if container.is_event_sub_process:
            # It can start as soon as the enclosing scope has started.
            yield from self._outside(outer)
        else:
            yield from self._before(outer, container)


def _containers(process: Process) -> Mapping[int, tuple[Scope, FlowNode]]:
    return {id(node.scope): (scope, node) for scope, node in process.walk() if node.scope is not None}
