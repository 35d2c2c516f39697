"""References: the attributes by which elements of a model name one another."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from verblint.element import Element, Place
from verblint.event import Compensate, Error, Escalation, Message, Signal
from verblint.model import Definitions, FlowNode, Process, Scope


@dataclass(frozen=True, slots=True)
class Reference:
    """An attribute that names an element, and the ids it may name."""

    element: Element
    name: str
    target: str
    wanted: str
    candidates: Collection[str]

    @property
    def is_met(self) -> bool:
        """True when it leads somewhere."""
        return self.target in self.candidates

    @property
    def place(self) -> Place:
        """The attribute, or the element when its text is the reference."""
        attribute = self.element.attribute(self.name)
        return attribute.whole if attribute is not None else self.element.place


def references(model: Definitions) -> Iterator[Reference]:
    """Every reference of a file, whether it leads somewhere or not; an attribute that is missing is none."""
    for process in model.processes:
        for scope in process.scope.scopes():
            yield from _of_flows(scope)
            for node in scope.nodes:
                yield from _of_node(scope, node)
                yield from _of_events(model, node)
                if node.message:
                    yield Reference(node.element, "messageRef", node.message, "a message", model.messages)
        yield from _of_artifacts(process)
    for participant in model.element.walk("participant"):
        if participant.get("processRef"):
            processes = {process.id for process in model.processes}
            yield Reference(participant, "processRef", participant.get("processRef") or "", "a process", processes)


def _of_flows(scope: Scope) -> Iterator[Reference]:
    for flow in scope.flows:
        for name, target in (("sourceRef", flow.source), ("targetRef", flow.target)):
            if target:
                yield Reference(flow.element, name, target, "a node of the same scope", scope.by_id)


def _of_node(scope: Scope, node: FlowNode) -> Iterator[Reference]:
    leaving = {flow.id for flow in scope.outgoing(node)}
    entering = {flow.id for flow in scope.incoming(node)}
    if node.default:
        yield Reference(node.element, "default", node.default, f"a flow that leaves {node.id}", leaving)
    if node.attached_to:
        hosts = {host.id for host in scope.nodes if host.kind.is_activity}
        yield Reference(node.element, "attachedToRef", node.attached_to, "an activity of the same scope", hosts)
    for child in node.element.find_all("outgoing"):
        yield Reference(child, "outgoing", child.text.strip(), f"a flow that leaves {node.id}", leaving)
    for child in node.element.find_all("incoming"):
        yield Reference(child, "incoming", child.text.strip(), f"a flow that enters {node.id}", entering)
    for event in node.events:
        if isinstance(event, Compensate) and event.ref:
            hosts = {host.id for host in scope.nodes if scope.boundaries(host) or host.scope is not None}
            yield Reference(event.element, "activityRef", event.ref, "an activity that can be undone", hosts)


def _of_events(model: Definitions, node: FlowNode) -> Iterator[Reference]:
    for event in node.events:
        match event:
            case Message(ref, element) if ref:
                yield Reference(element, "messageRef", ref, "a message", model.messages)
            case Error(ref, element) if ref:
                yield Reference(element, "errorRef", ref, "an error", model.errors)
            case Escalation(ref, element) if ref:
                yield Reference(element, "escalationRef", ref, "an escalation", model.escalations)
            case Signal(ref, element) if ref:
                yield Reference(element, "signalRef", ref, "a signal", model.signals)
            case _:
                continue


def _of_artifacts(process: Process) -> Iterator[Reference]:
    ids = {element.id for element in process.element.walk() if element.id}
    for line in process.element.walk("association"):
        for name in ("sourceRef", "targetRef"):
            target = line.get(name)
            if target:
                yield Reference(line, name, target, "an element of the process", ids)
    for lane in process.element.walk("flowNodeRef"):
        yield Reference(lane, "flowNodeRef", lane.text.strip(), "an element of the process", ids)
