"""A process starts with a none start event, or with a message that the contract declares."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.bpmn.event_cause import MessageEvent
from verblint.bpmn.model import NodeKind
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB508", "start-event", Severity.ERROR, on=("startEvent",))
def check(context: Context) -> Iterator[Finding]:
    """A process starts with a none start event, or with a message that the contract declares.

    The runtime starts processes with payload, hash and flags. A timer, a signal, a condition or a form starts one
    without them, and its first job fails.

    Wrong:  <startEvent id="nightly"><timerEventDefinition>...</timerEventDefinition></startEvent>
    Right:  <startEvent id="start" />
    """
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        for scope, node in process.walk(NodeKind.START_EVENT):
            if scope is not process.scope:
                continue
            for event in node.events:
                if not isinstance(event, MessageEvent):
                    message = f"the process is started by a {event.element.local}, without payload and flags"
                    yield context.at(
                        event.element,
                        message,
                        hint="Write a start event without a definition",
                        detail=event.element.local,
                    )
                elif verb is not None and _name_of(event, context) not in verb.messages:
                    message = "the process is started by a message that the contract does not declare"
                    yield context.at(
                        event.element, message, hint="Declare it under messages in the contract", detail="message"
                    )
            for form in (
                e
                for holder in node.element.find_all("extensionElements")
                for e in holder.find_all("formDefinition", ZEEBE)
            ):
                message = "the process is started by a form, without payload and flags"
                yield context.at(
                    form, message, hint="Remove the form: a verb is called with its arguments", detail="form"
                )


def _name_of(event: MessageEvent, context: Context) -> str:
    declared = context.model.messages.get(event.ref)
    return declared.name if declared is not None else ""
