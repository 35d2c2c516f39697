"""The typed model of a BPMN file: what the rules check and the embedded engine executes.

The model does not validate. A dangling reference stays as written, a missing name is an empty string, and an element of
an unknown kind is a node of kind UNKNOWN: rules decide what that means.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cached_property
from itertools import chain

from verblint.bpmn.binding import Binding
from verblint.bpmn.element import Element
from verblint.bpmn.event_cause import Compensate, EventDefinition, Link
from verblint.bpmn.expression import Expression
from verblint.startup import TYPE_CHECKING
from verblint.startup.value import field, value

if TYPE_CHECKING:
    from typing import TypeVar

    Item = TypeVar("Item")
    Key = TypeVar("Key")


class NodeKind(StrEnum):
    """What a flow node is; the values are the names of the BPMN elements."""

    START_EVENT = "startEvent"
    END_EVENT = "endEvent"
    CATCH_EVENT = "intermediateCatchEvent"
    THROW_EVENT = "intermediateThrowEvent"
    BOUNDARY_EVENT = "boundaryEvent"
    TASK = "task"
    SERVICE_TASK = "serviceTask"
    SEND_TASK = "sendTask"
    RECEIVE_TASK = "receiveTask"
    USER_TASK = "userTask"
    MANUAL_TASK = "manualTask"
    SCRIPT_TASK = "scriptTask"
    BUSINESS_RULE_TASK = "businessRuleTask"
    CALL_ACTIVITY = "callActivity"
    SUB_PROCESS = "subProcess"
    TRANSACTION = "transaction"
    AD_HOC_SUB_PROCESS = "adHocSubProcess"
    EXCLUSIVE_GATEWAY = "exclusiveGateway"
    INCLUSIVE_GATEWAY = "inclusiveGateway"
    PARALLEL_GATEWAY = "parallelGateway"
    EVENT_BASED_GATEWAY = "eventBasedGateway"
    COMPLEX_GATEWAY = "complexGateway"
    UNKNOWN = ""

    def __init__(self, local: str) -> None:
        """Precompute properties that are read for every node of every file."""
        self.is_event = local.endswith("Event")
        self.is_gateway = local.endswith("Gateway")
        # Tasks, subprocesses and call activities.
        self.is_activity = bool(local) and not self.is_event and not self.is_gateway


EVENTS = tuple(kind for kind in NodeKind if kind.is_event)
# An unknown node may be an event.
EVENTFUL = (*EVENTS, NodeKind.UNKNOWN)


@value(guarded=False)
class SequenceFlow:
    """A flow from one node to the next, optionally with a condition."""

    id: str
    name: str
    source: str
    target: str
    condition: Expression | None
    element: Element


@value
class MultiInstance:
    """An activity that runs once per item of a collection."""

    is_sequential: bool
    element: Element


@value
class Association:
    """A dotted line; from a compensation boundary event it leads to the handler."""

    source: str
    target: str
    element: Element


@value(eq=False, guarded=False)
class FlowNode:
    """One event, activity or gateway. Fields that a kind does not have keep their defaults."""

    id: str
    name: str
    kind: NodeKind
    element: Element
    binding: Binding = field(default_factory=Binding)
    default: str = ""
    message: str = ""
    events: tuple[EventDefinition, ...] = ()
    attached_to: str = ""
    is_interrupting: bool = True
    is_for_compensation: bool = False
    is_event_sub_process: bool = False
    multi_instance: MultiInstance | None = None
    scope: "Scope | None" = None

    @property
    def event(self) -> EventDefinition | None:
        """The event definition, if there is exactly one."""
        return self.events[0] if len(self.events) == 1 else None

    @property
    def is_compensation_boundary(self) -> bool:
        """Whether this is a boundary event that only names a compensation handler."""
        return self.kind is NodeKind.BOUNDARY_EVENT and isinstance(self.event, Compensate)


@value(slots=False, eq=False, guarded=False)
class Scope:
    """The content of a process or subprocess: its nodes, flows and associations in document order."""

    nodes: tuple[FlowNode, ...]
    flows: tuple[SequenceFlow, ...]
    associations: tuple[Association, ...]

    @cached_property
    def by_id(self) -> dict[str, FlowNode]:
        """Nodes of this scope by id; the first one if an id is duplicated."""
        return {node.id: node for node in reversed(self.nodes) if node.id}

    @cached_property
    def _outgoing(self) -> dict[str, list[SequenceFlow]]:
        return _group((flow.source, flow) for flow in self.flows)

    @cached_property
    def _incoming(self) -> dict[str, list[SequenceFlow]]:
        return _group((flow.target, flow) for flow in self.flows)

    @cached_property
    def _boundaries(self) -> dict[str, list[FlowNode]]:
        return _group((n.attached_to, n) for n in self.nodes if n.kind is NodeKind.BOUNDARY_EVENT)

    def outgoing(self, node: FlowNode) -> list[SequenceFlow]:
        """Return the flows that leave a node, in document order."""
        return self._outgoing.get(node.id, [])

    def incoming(self, node: FlowNode) -> list[SequenceFlow]:
        """Return the flows that enter a node, in document order."""
        return self._incoming.get(node.id, [])

    def boundaries(self, node: FlowNode) -> list[FlowNode]:
        """Return the boundary events on an activity."""
        return self._boundaries.get(node.id, [])

    @cached_property
    def _targets_by_source(self) -> dict[str, str]:
        lines = ((line.source, line.target) for line in reversed(self.associations) if line.target in self.by_id)
        return dict(lines)

    @cached_property
    def _catching_links(self) -> dict[str, list[FlowNode]]:
        caught = ((n.event.name, n) for n in self.nodes if n.kind is NodeKind.CATCH_EVENT and isinstance(n.event, Link))
        return _group(caught)

    def compensation_handler(self, boundary: FlowNode) -> FlowNode | None:
        """Return the activity that undoes the work of the boundary event's activity."""
        return self.by_id.get(self._targets_by_source.get(boundary.id, ""))

    @cached_property
    def handlers(self) -> dict[str, FlowNode]:
        """The undone activities, by the id of their compensation handler."""
        found: dict[str, FlowNode] = {}
        for node in self.nodes:
            handler = self.compensation_handler(node) if node.is_compensation_boundary else None
            undone = self.by_id.get(node.attached_to)
            if handler is not None and undone is not None:
                found.setdefault(handler.id, undone)
        return found

    def link_targets(self, node: FlowNode) -> list[FlowNode]:
        """Return the events that catch what a link event throws."""
        if node.kind is not NodeKind.THROW_EVENT or not isinstance(node.event, Link):
            return []
        return self._catching_links.get(node.event.name, [])

    def walk(self) -> Iterator[tuple["Scope", FlowNode]]:
        """Yield every node in this and all nested scopes, each with its scope."""
        for node in self.nodes:
            yield self, node
            if node.scope is not None:
                yield from node.scope.walk()

    def scopes(self) -> Iterator["Scope"]:
        """Yield this scope and all nested ones."""
        yield self
        for node in self.nodes:
            if node.scope is not None:
                yield from node.scope.scopes()


@value(slots=False, eq=False, guarded=False)
class Process:
    """One process of a file."""

    id: str
    name: str
    is_executable: bool
    scope: Scope
    binding: Binding
    element: Element

    @cached_property
    def _nodes(self) -> list[tuple[Scope, FlowNode]]:
        return list(self.scope.walk())

    @cached_property
    def _by_kind(self) -> dict[NodeKind, list[tuple[Scope, FlowNode]]]:
        return _group((place[1].kind, place) for place in self._nodes)

    def walk(self, *kinds: NodeKind) -> Iterator[tuple[Scope, FlowNode]]:
        """Return every node at every depth, each with its scope; with kinds, grouped by kind."""
        if not kinds:
            return iter(self._nodes)
        return chain.from_iterable([self._by_kind.get(kind, ()) for kind in kinds])

    def flows(self) -> Iterator[tuple[Scope, SequenceFlow]]:
        """Yield every sequence flow at every depth, each with its scope."""
        return ((scope, flow) for scope in self.scope.scopes() for flow in scope.flows)


@value
class MessageDeclaration:
    """A message by name, with the key that distinguishes its receivers."""

    id: str
    name: str
    correlation_key: Expression | None
    element: Element


@value
class Declaration:
    """An error, escalation or signal: an id, and its code or name."""

    id: str
    name: str
    code: str
    element: Element


@value(eq=False)
class Definitions:
    """A whole file: its processes and what they share."""

    element: Element
    processes: tuple[Process, ...]
    messages: dict[str, MessageDeclaration]
    errors: dict[str, Declaration]
    escalations: dict[str, Declaration]
    signals: dict[str, Declaration]

    @property
    def executable(self) -> tuple[Process, ...]:
        """The processes an engine would deploy."""
        return tuple(process for process in self.processes if process.is_executable)


def _group(pairs: "Iterable[tuple[Key, Item]]") -> "dict[Key, list[Item]]":
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups
