"""References: attributes and texts by which elements of a model refer to one another."""

from collections.abc import Collection, Iterator

from verblint.bpmn.element import Element, Place
from verblint.bpmn.event_cause import Compensate, Error, Escalation, MessageEvent, SignalEvent
from verblint.bpmn.model import Definitions, FlowNode, Process, Scope
from verblint.startup.value import value

_NODE = "a node of the same scope"


@value
class Reference:
    """An attribute or text that refers to an element, and the ids it may refer to."""

    element: Element
    name: str
    target: str
    wanted: str
    candidates: Collection[str]

    @property
    def place(self) -> Place:
        """The attribute, or the element if its text is the reference."""
        attribute = self.element.attribute(self.name)
        return attribute.whole if attribute is not None else self.element.place


def dangling_references(model: Definitions) -> Iterator[Reference]:
    """Yield every dangling reference of a file; a missing attribute is not a reference."""
    for process in model.processes:
        for scope in process.scope.scopes():
            yield from _of_flows(scope)
            yield from _of_hosts(scope)
            yield from _of_ways(scope)
            for node in scope.nodes:
                if node.message or node.events:
                    yield from _of_events(model, node)
        yield from _of_artifacts(process)
    processes = {process.id for process in model.processes}
    for participant in model.element.walk("participant"):
        target = participant.get("processRef")
        if target and target not in processes:
            yield Reference(participant, "processRef", target, "a process", processes)


def _of_flows(scope: Scope) -> Iterator[Reference]:
    nodes = scope.by_id
    for flow in scope.flows:
        if flow.source and flow.source not in nodes:
            yield Reference(flow.element, "sourceRef", flow.source, _NODE, nodes)
        if flow.target and flow.target not in nodes:
            yield Reference(flow.element, "targetRef", flow.target, _NODE, nodes)


def _of_hosts(scope: Scope) -> Iterator[Reference]:
    """Yield the dangling references of boundary events to their activity, and of compensation events."""
    attached = [node for node in scope.nodes if node.attached_to]
    undoing = [(event, event.ref) for node in scope.nodes for event in node.events if isinstance(event, Compensate)]
    if attached:
        hosts = {host.id for host in scope.nodes if host.kind.is_activity}
        for node in attached:
            if node.attached_to not in hosts:
                wanted = "an activity of the same scope"
                yield Reference(node.element, "attachedToRef", node.attached_to, wanted, hosts)
    if undoing:
        undone = {host.id for host in scope.nodes if scope.boundaries(host) or host.scope is not None}
        for event, ref in undoing:
            if ref and ref not in undone:
                yield Reference(event.element, "activityRef", ref, "an activity that can be undone", undone)


def _of_ways(scope: Scope) -> Iterator[Reference]:
    """Yield the dangling references of nodes to flows: their default, incoming and outgoing flows."""
    leaving = {(flow.source, flow.id) for flow in scope.flows}
    ways = {"outgoing": leaving, "incoming": {(flow.target, flow.id) for flow in scope.flows}}
    for node in scope.nodes:
        if node.default and (node.id, node.default) not in leaving:
            yield _way(scope, node, node.element, "default", node.default)
        for child in node.element.children:
            known = ways.get(child.local)
            if known is not None and (node.id, child.text.strip()) not in known:
                yield _way(scope, node, child, child.local, child.text.strip())


def _way(scope: Scope, node: FlowNode, element: Element, name: str, target: str) -> Reference:
    if name == "incoming":
        return Reference(
            element, name, target, f"a flow that enters {node.id}", [flow.id for flow in scope.incoming(node)]
        )
    return Reference(element, name, target, f"a flow that leaves {node.id}", [flow.id for flow in scope.outgoing(node)])


def _of_events(model: Definitions, node: FlowNode) -> Iterator[Reference]:
    if node.message and node.message not in model.messages:
        yield Reference(node.element, "messageRef", node.message, "a message", model.messages)
    for event in node.events:
        known: Collection[str]
        match event:
            case MessageEvent(ref, element):
                name, wanted, known = "messageRef", "a message", model.messages
            case Error(ref, element):
                name, wanted, known = "errorRef", "an error", model.errors
            case Escalation(ref, element):
                name, wanted, known = "escalationRef", "an escalation", model.escalations
            case SignalEvent(ref, element):
                name, wanted, known = "signalRef", "a signal", model.signals
            case _:
                continue
        if ref and ref not in known:
            yield Reference(element, name, ref, wanted, known)


def _of_artifacts(process: Process) -> Iterator[Reference]:
    lines = list(process.element.walk("association"))
    lanes = list(process.element.walk("flowNodeRef"))
    if not lines and not lanes:
        return
    ids = {element.id for element in process.element.walk() if element.id}
    wanted = "an element of the process"
    for line in lines:
        for name in ("sourceRef", "targetRef"):
            target = line.get(name)
            if target and target not in ids:
                yield Reference(line, name, target, wanted, ids)
    for lane in lanes:
        if (target := lane.text.strip()) not in ids:
            yield Reference(lane, "flowNodeRef", target, wanted, ids)
