"""Catchers: which event catches an error code that a step throws, by the engines' rules.

Zeebe (8.6 to 8.9) checks the step itself and then each enclosing scope, from the inside out. One level has the error
event subprocesses of a scope and the error boundary events of an activity; a catcher with the code takes precedence
over one that catches every code. Two rules are surprising; tests/conformance/test_error_catchers.py checks both against
the real broker:

- From inside an event subprocess that interrupts its scope, nothing outside it is checked.
- Only activities throw. A job of a message event cannot: the broker answers its ThrowError with an internal error.
"""

from collections.abc import Iterator, Mapping

from verblint.bpmn.event_cause import Error
from verblint.bpmn.model import Definitions, FlowNode, NodeKind, Process, Scope
from verblint.flow.job_nodes import is_job
from verblint.names import OWN_JOBS
from verblint.startup.value import value


@value(eq=False)
class Catcher:
    """An event that catches one code, or every code if `code` is empty; `host` is what it interrupts."""

    event: FlowNode
    code: str
    host: str


@value(eq=False)
class Level:
    """The catchers of one activity or scope, and the effective one for each code."""

    host: str
    catchers: tuple[Catcher, ...]
    by_code: Mapping[str, Catcher]

    @classmethod
    def of(cls, host: str, found: tuple[Catcher, ...]) -> "Level":
        """Create the level of a host; of two catchers for one code, the first one counts."""
        return cls(host, found, {catcher.code: catcher for catcher in reversed(found)})

    def catcher(self, code: str) -> Catcher | None:
        """Return the event that catches a code at this level, or None."""
        return self.by_code.get(code) or self.by_code.get("")


@value(eq=False)
class Thrower:
    """A step that may end with a code, and the levels at which engines search for a catcher, nearest first.

    `hosts` are the ids of the activities on which a boundary event would catch a code of this step.
    """

    node: FlowNode
    levels: tuple[Level, ...]
    hosts: tuple[str, ...]
    code: str = ""  # of an error end event

    @property
    def catchers(self) -> Iterator[Catcher]:
        """Every catcher that is checked, nearest first."""
        return (catcher for level in self.levels for catcher in level.catchers)

    def catcher(self, code: str) -> Catcher | None:
        """Return the event that catches a code, or None."""
        found = (level.catcher(code) for level in self.levels)
        return next((catcher for catcher in found if catcher is not None), None)

    def codes(self, declared: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
        """Return the codes it may end with, as verbs declare them; None if unknown."""
        if isinstance(self.node.event, Error):
            return (self.code,) if self.code else None
        return declared.get(self.node.binding.job_type)


def throwers(model: Definitions, process: Process) -> Iterator[Thrower]:
    """Yield every verb job and every error end event of a process, each with its possible catchers."""
    return _inside(model, process.scope, (_root(model, process),), ())


def catchers(model: Definitions, process: Process) -> Iterator[Catcher]:
    """Yield every event of a process that catches errors."""
    yield from _root(model, process).catchers
    for scope, node in process.walk():
        yield from _level(model, scope, node).catchers


def _inside(model: Definitions, scope: Scope, levels: tuple[Level, ...], hosts: tuple[str, ...]) -> Iterator[Thrower]:
    """Yield the throwers of a scope; the first level is the scope's own."""
    for node in scope.nodes:
        if node.scope is not None:
            own = _level(model, scope, node)
            if not node.is_event_sub_process:
                yield from _inside(model, node.scope, (own, *levels), (node.id, *hosts))
            elif _interrupts(node.scope):
                yield from _inside(model, node.scope, (own,), ())
            else:
                yield from _inside(model, node.scope, (own, *levels), hosts)
        elif isinstance(node.event, Error) and node.kind is NodeKind.END_EVENT:
            yield Thrower(node, levels, hosts, _code(model, node))
        elif is_job(node) and not node.binding.job_type.startswith(OWN_JOBS):
            if node.kind.is_activity:
                yield Thrower(node, (_level(model, scope, node), *levels), (node.id, *hosts))
            else:
                yield Thrower(node, (), ())


def _root(model: Definitions, process: Process) -> Level:
    return Level.of(process.id, _starts(model, process.scope, process.id))


def _level(model: Definitions, scope: Scope, node: FlowNode) -> Level:
    """Return the catchers of an activity: first the event subprocesses in it, then its boundary events."""
    starts = _starts(model, node.scope, node.id) if node.scope is not None else ()
    boundaries = (boundary for boundary in scope.boundaries(node) if isinstance(boundary.event, Error))
    return Level.of(node.id, starts + tuple(Catcher(event, _code(model, event), node.id) for event in boundaries))


def _starts(model: Definitions, scope: Scope, host: str) -> tuple[Catcher, ...]:
    insides = (node.scope for node in scope.nodes if node.is_event_sub_process and node.scope is not None)
    starts = (node for inside in insides for node in inside.nodes if node.kind is NodeKind.START_EVENT)
    return tuple(Catcher(event, _code(model, event), host) for event in starts if isinstance(event.event, Error))


def _interrupts(inside: Scope) -> bool:
    return any(node.kind is NodeKind.START_EVENT and node.is_interrupting for node in inside.nodes)


def _code(model: Definitions, node: FlowNode) -> str:
    """Return the code of an error event; empty if it names none, which catches every code."""
    declared = model.errors.get(node.event.ref) if isinstance(node.event, Error) else None
    return declared.code if declared is not None else ""
