"""With the setting `strict-v1` a process has the elements of the first profile only."""

from collections.abc import Iterator

from verblint.finding import Finding, Severity
from verblint.graph import looping
from verblint.model import Kind
from verblint.naming import described
from verblint.rule import STRICT_V1, Context, rule

_NONE: list[list[str]] = [[]]
_MESSAGE = [["messageEventDefinition"]]
_ALLOWED = {
    Kind.START_EVENT: _NONE,
    Kind.END_EVENT: _NONE,
    Kind.SERVICE_TASK: _NONE,
    Kind.SEND_TASK: _NONE,
    Kind.USER_TASK: _NONE,
    Kind.RECEIVE_TASK: _NONE,
    Kind.SUB_PROCESS: _NONE,
    Kind.EXCLUSIVE_GATEWAY: _NONE,
    Kind.CATCH_EVENT: _MESSAGE,
    Kind.THROW_EVENT: _MESSAGE,
}


@rule("AM751", "strict-element", Severity.ERROR, on=(STRICT_V1,))
def check(context: Context) -> Iterator[Finding]:
    """With the setting `strict-v1` a process has the elements of the first profile only.

    The profile has start and end events without definitions, sequence flows, service, send, user and receive tasks,
    message events, exclusive gateways and subprocesses. Timers, boundary events, parallel branches and loops are later
    profiles' matter.

    Wrong:  <parallelGateway id="split" /> with strict-v1 = true
    Right:  <exclusiveGateway id="decide" />
    """
    for process in context.model.processes if context.settings.strict_v1 else ():
        for _, node in process.walk():
            allowed = _ALLOWED.get(node.kind)
            names = [event.element.local for event in node.events]
            is_plain = not node.is_event_sub_process and not node.is_for_compensation and node.multi_instance is None
            if allowed is None or not is_plain or names not in allowed:
                message = f"the {described(node.element)} is not in the profile strict-v1"
                yield context.at(node.element, message, hint="Use the elements of the profile, or switch strict-v1 off")
        for scope in process.scope.scopes():
            for node in looping(scope)[:1]:
                message = f"the loop through {node.id} is not in the profile strict-v1"
                yield context.at(node.element, message, hint="Draw it without a loop", detail="loop")
