"""Every element is one that the engines execute."""

from collections.abc import Iterator

from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule

_NODES = {
    "complexGateway": "an inclusiveGateway or a parallelGateway",
    "transaction": "a subProcess",
}
_EVENTS = {
    "cancelEventDefinition": "Write an error event",
}


@rule("HB112", "unsupported-element", Severity.ERROR, on=(*_NODES, *_EVENTS))
def check(context: Context) -> Iterator[Finding]:
    """Every element is one that the engines execute.

    Complex gateways, transactions, choreographies and a few kinds of events are BPMN, but no engine here runs them. A
    diagram must not show what cannot happen.

    Wrong:  <complexGateway id="join" activationCondition="..." />
    Right:  <parallelGateway id="join" />
    """
    for process in context.model.processes:
        for _, node in process.walk():
            if node.kind.value in _NODES:
                message = f"the {describe(node.element)} is executed by no engine"
                yield context.at(node.element, message, hint=f"Write {_NODES[node.kind.value]}")
            for event in node.events:
                if event.element.local in _EVENTS:
                    message = f"the {describe(event.element)} is executed by no engine"
                    yield context.at(
                        event.element, message, hint=_EVENTS[event.element.local], detail=event.element.local
                    )
