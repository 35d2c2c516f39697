"""Events that compete for the same message, error or escalation."""

from collections.abc import Iterator

from verblint.bpmn.event_cause import Error, Escalation, EventDefinition, MessageEvent
from verblint.bpmn.model import Definitions, FlowNode, NodeKind, Scope

Place = list[tuple[str, FlowNode]]


def iterate_catches(model: Definitions) -> Iterator[Place]:
    """Yield, for each place where events compete, what each of its events catches."""
    for process in model.processes:
        for scope in process.scope.scopes():
            yield _pair_names(model, _starts_of_event_sub_processes(scope))
            for node in scope.nodes:
                boundaries = scope.boundaries(node)
                if boundaries:
                    own = [("message " + _message(model, node.message), node)] if node.message else []
                    yield own + _pair_names(model, boundaries)
                if node.kind is NodeKind.EVENT_BASED_GATEWAY:
                    targets = (scope.by_id.get(flow.target) for flow in scope.outgoing(node))
                    yield _pair_names(model, [target for target in targets if target is not None])


def _starts_of_event_sub_processes(scope: Scope) -> list[FlowNode]:
    insides = [node.scope for node in scope.nodes if node.is_event_sub_process and node.scope is not None]
    return [node for inside in insides for node in inside.nodes if node.kind is NodeKind.START_EVENT]


def _pair_names(model: Definitions, nodes: list[FlowNode]) -> Place:
    return [(name, node) for node in nodes for event in node.events if (name := _name(model, event))]


def _name(model: Definitions, event: EventDefinition) -> str:
    match event:
        case MessageEvent(ref):
            return "message " + _message(model, ref) if ref else ""
        case Error(ref):
            error = model.errors.get(ref)
            return f"error {error.code}" if error is not None and error.code else "every error"
        case Escalation(ref):
            escalation = model.escalations.get(ref)
            return f"escalation {escalation.code}" if escalation is not None and escalation.code else "every escalation"
        case _:
            return ""


def _message(model: Definitions, ref: str) -> str:
    message = model.messages.get(ref)
    return message.name if message is not None and message.name else ref
