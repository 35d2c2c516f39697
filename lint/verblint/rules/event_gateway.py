"""An event-based gateway leads to two or more events that wait, and to nothing else."""

from collections.abc import Iterator

from verblint.bpmn.event_cause import Conditional, MessageEvent, SignalEvent, Timer
from verblint.bpmn.model import NodeKind
from verblint.names import describe
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB023", "event-gateway", Severity.ERROR, on=("eventBasedGateway",))
def check(context: Context) -> Iterator[Finding]:
    """An event-based gateway leads to two or more events that wait, and to nothing else.

    It takes the path of the event that happens first. Each of its events waits for this gateway alone, and no two wait
    for the same message.

    Wrong:  an eventBasedGateway with one flow to a timer and one to a serviceTask
    Right:  an eventBasedGateway with one flow to a timer and one to a message event
    """
    for process in context.model.processes:
        for scope, node in process.walk():
            if node.kind is not NodeKind.EVENT_BASED_GATEWAY:
                continue
            targets = [scope.by_id.get(flow.target) for flow in scope.outgoing(node)]
            if len(targets) < 2:
                yield context.at(
                    node.element,
                    "the gateway leaves no choice",
                    hint="Draw two or more flows to events",
                    detail="flows",
                )
            for target in targets:
                if target is None:
                    continue
                if target.kind is not NodeKind.CATCH_EVENT or not isinstance(
                    target.event, MessageEvent | Timer | SignalEvent | Conditional
                ):
                    message = (
                        f"the gateway {node.id} leads to the {describe(target.element)}, which is no event that waits"
                    )
                    yield context.at(target.element, message, hint="Lead to a message or a timer event", detail="kind")
                if len(scope.incoming(target)) > 1:
                    message = f"the {describe(target.element)} waits for more than the gateway {node.id}"
                    yield context.at(target.element, message, hint="Let only the gateway lead to it", detail="flows")
