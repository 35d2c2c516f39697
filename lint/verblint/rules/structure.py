"""The structure of a process: starts, flows, gateways, events and size."""

from collections import Counter
from collections.abc import Iterator

from verblint.bpmn.event_cause import (
    Conditional,
    Error,
    Escalation,
    EventDefinition,
    Link,
    MessageEvent,
    SignalEvent,
    Timer,
    TimerKind,
)
from verblint.bpmn.model import EVENTFUL, EVENTS, FlowNode, NodeKind, Scope
from verblint.flow.job_nodes import jobs
from verblint.flow.loops import restless_loops
from verblint.flow.rival_events import iterate_catches
from verblint.names import describe
from verblint.report import Finding, Severity
from verblint.rule import NOT_EXECUTABLE, Context, rule

_AWAITED = (MessageEvent, Timer, SignalEvent, Conditional)
_FIRST = (NodeKind.START_EVENT, NodeKind.BOUNDARY_EVENT)
_ENDS = (*_FIRST, NodeKind.END_EVENT)
_PASSING = (
    *("task", "manualTask", "exclusiveGateway", "inclusiveGateway", "parallelGateway"),
    *("intermediateThrowEvent", "intermediateCatchEvent"),
)


@rule("HB012", on=(NOT_EXECUTABLE,))
def no_executable_process(context: Context) -> Iterator[Finding]:
    """A file has at least one executable process.

    An engine refuses a file in which there is nothing to execute.

    Wrong:  <process id="kyc-open-case">
    Right:  <process id="kyc-open-case" isExecutable="true">
    """
    if not context.model.executable:
        first = context.model.processes[0].element if context.model.processes else context.root
        yield context.at(first, "the file has no executable process", hint='Write isExecutable="true" on the process')


@rule("HB020", on=("process",))
def start_events(context: Context) -> Iterator[Finding]:
    """A process has one start event that is entered, and so does each subprocess.

    An engine must know where a token starts. A subprocess starts without an event definition, an event subprocess with
    exactly one.

    Wrong:  <process id="kyc-open-case" isExecutable="true"> with two plain start events
    Right:  one startEvent, and gateways behind it
    """
    for process in context.model.processes:
        starts = _starts(process.scope)
        if not starts:
            yield context.at(process.element, "the process has no start event", hint="Draw a startEvent")
        for extra in [start for start in starts if not start.events][1:]:
            message = "the process has a second start event without a definition"
            yield context.at(extra.element, message, hint="Keep one, and branch behind it")
        for _, node in process.walk(NodeKind.SUB_PROCESS, NodeKind.TRANSACTION):
            if node.scope is not None:  # pragma: no branch  # a subprocess has one
                yield from _inside(context, node, _starts(node.scope))


def _starts(scope: Scope) -> list[FlowNode]:
    return [node for node in scope.nodes if node.kind is NodeKind.START_EVENT]


def _inside(context: Context, node: FlowNode, starts: list[FlowNode]) -> Iterator[Finding]:
    if len(starts) != 1:
        message = f"the {node.kind} has {len(starts)} start events"
        yield context.at(node.element, message, hint="Draw exactly one startEvent inside", detail="count")
    for start in starts:
        if node.is_event_sub_process and not start.events:
            hint = "Write what starts it: a message, a timer, an error or an escalation"
            yield context.at(start.element, "the event subprocess has no start trigger", hint=hint)
        if not node.is_event_sub_process and start.events:
            message = "a subprocess is entered by its flow, not by an event"
            yield context.at(start.element, message, hint="Remove the event definition")


@rule("HB022", on=("sequenceFlow",))
def flow_direction(context: Context) -> Iterator[Finding]:
    """Flows enter and leave where tokens can.

    Nothing leaves an end event and nothing enters a start or boundary event. A compensation handler is called only by
    its boundary event.

    Wrong:  <sequenceFlow sourceRef="end" targetRef="ask" />
    Right:  <sequenceFlow sourceRef="ask" targetRef="end" />
    """
    for scope, node in context.nodes():
        if node.kind not in _ENDS and not node.is_for_compensation and not node.is_event_sub_process:
            continue
        is_last = node.kind is NodeKind.END_EVENT or node.is_for_compensation or node.is_compensation_boundary
        for flow in scope.outgoing(node) if is_last else ():
            message = f"a flow leaves the {describe(node.element)}"
            yield context.at(flow.element, message, hint="Remove the flow", detail="out")
        is_first = node.kind in _FIRST or node.is_event_sub_process
        for flow in scope.incoming(node) if is_first or node.is_for_compensation else ():
            message = f"a flow enters the {describe(node.element)}"
            yield context.at(flow.element, message, hint="Remove the flow", detail="in")


@rule("HB023", on=("eventBasedGateway",))
def event_gateway(context: Context) -> Iterator[Finding]:
    """An event-based gateway leads to two or more events that wait, and to nothing else.

    It takes the path of the event that happens first. Each of its events waits for this gateway alone, and no two wait
    for the same message.

    Wrong:  an eventBasedGateway with one flow to a timer and one to a serviceTask
    Right:  an eventBasedGateway with one flow to a timer and one to a message event
    """
    for scope, node in context.nodes(NodeKind.EVENT_BASED_GATEWAY):
        targets = [scope.by_id.get(flow.target) for flow in scope.outgoing(node)]
        if len(targets) < 2:
            hint = "Draw two or more flows to events"
            yield context.at(node.element, "the gateway leaves no choice", hint=hint, detail="flows")
        for target in filter(None, targets):
            if target.kind is not NodeKind.CATCH_EVENT or not isinstance(target.event, _AWAITED):
                message = f"the gateway {node.id} leads to the {describe(target.element)}, which is no event that waits"
                yield context.at(target.element, message, hint="Lead to a message or a timer event", detail="kind")
            if len(scope.incoming(target)) > 1:
                message = f"the {describe(target.element)} waits for more than the gateway {node.id}"
                yield context.at(target.element, message, hint="Let only the gateway lead to it", detail="flows")


@rule("HB030", on=_PASSING)
def endless_loop(context: Context) -> Iterator[Finding]:
    """A loop contains something that waits or works.

    A token in a circle of gateways, empty tasks and passing events never rests, and can bring the broker down. Engines
    refuse such loops when they find them.

    Wrong:  an exclusiveGateway that leads back to itself through a manualTask
    Right:  a loop with a serviceTask, a userTask or a timer in it
    """
    for process in context.model.processes:
        for loop in restless_loops(process):
            path = " > ".join(node.id for node in loop)
            message = f"a token that enters the loop {path} never rests"
            yield context.at(loop[0].element, message, hint="Put a task or a timer into the loop")


@rule("HB601", severity=Severity.WARNING, on=("serviceTask", "sendTask", "messageEventDefinition"))
def too_many_service_tasks(context: Context) -> Iterator[Finding]:
    """A process has no more service tasks than the settings allow.

    A long process is hard to read, hard to change while instances run, and often two processes that grew together. The
    limit is 15 unless the settings set another; send tasks and events that throw a message count as well.

    Wrong:  a process with 40 service tasks
    Right:  several workflow verbs that hand over by message
    """
    limit = context.settings.service_tasks
    for process in context.model.processes:
        count = len(list(jobs(process)))
        if count > limit:
            message = f"the process has {count} service tasks; {limit} is the most"
            yield context.at(process.element, message, hint="Split it into verbs that hand over by message")


@rule("HB602", severity=Severity.WARNING, on=(NOT_EXECUTABLE,))
def process_not_executable(context: Context) -> Iterator[Finding]:
    """A process that is drawn is executable.

    The engine does not deploy a process without `isExecutable="true"`. In a file with several processes it may be there
    only for the reader; often the attribute was forgotten.

    Wrong:  <process id="kyc-open-case">
    Right:  <process id="kyc-open-case" isExecutable="true">
    """
    for process in context.model.processes:
        if not process.is_executable and context.model.executable:
            message = f"the process {process.id} is not executable and will not be deployed"
            hint = 'Write isExecutable="true", or move it to a file of its own'
            yield context.at(process.element, message, hint=hint)


_ON_BOUNDARIES = ("compensate", "signal", "conditional", "cancel")
_ALLOWED: dict[NodeKind, tuple[int, tuple[str, ...]]] = {
    NodeKind.START_EVENT: (0, ("message", "timer", "error", "escalation", "signal", "conditional")),
    NodeKind.END_EVENT: (0, ("error", "message", "terminate", "signal", "escalation", "compensate", "cancel")),
    NodeKind.CATCH_EVENT: (1, ("message", "timer", "link", "signal", "conditional")),
    NodeKind.THROW_EVENT: (0, ("message", "link", "signal", "escalation", "compensate")),
    NodeKind.BOUNDARY_EVENT: (1, ("timer", "message", "error", "escalation", *_ON_BOUNDARIES)),
}


@rule("HB021")
def event_definition(context: Context) -> Iterator[Finding]:
    """An event has the definitions that its kind can have.

    A catching event needs exactly one, and not every kind of event can catch or throw everything. Engines refuse a
    model with an event they cannot wait for.

    Wrong:  <intermediateCatchEvent id="wait" />
    Right:  <intermediateCatchEvent id="wait"><timerEventDefinition>...</timerEventDefinition></intermediateCatchEvent>
    """
    for _, node in context.nodes(*EVENTS):
        least, allowed = _ALLOWED.get(node.kind, (0, ()))
        if not least <= len(node.events) <= 1:
            wanted = "exactly one" if least else "at most one"
            message = f"the {node.kind} has {len(node.events)} event definitions; {wanted} is allowed"
            yield context.at(node.element, message, hint=f"Write one of: {', '.join(allowed)}", detail="count")
        for event in node.events:
            name = event.element.local.removesuffix("EventDefinition")
            if name not in allowed:
                message = f"a {node.kind} cannot have a {event.element.local}"
                yield context.at(event.element, message, hint=f"Write one of: {', '.join(allowed)}", detail=name)


@rule("HB024", on=("boundaryEvent",))
def boundary_leads_nowhere(context: Context) -> Iterator[Finding]:
    """A boundary event has an outgoing flow.

    The event exists for what happens after the timer fires or the error is thrown. Engine 8.6 refuses a boundary event
    that nothing follows; later ones silently end the token there. The engine looks for an `outgoing` element, so the
    flow alone is not enough.

    Wrong:  <boundaryEvent id="late" attachedToRef="ask"> with no flow that leaves it
    Right:  <sequenceFlow sourceRef="late" targetRef="remind" />
    """
    for scope, node in context.nodes(NodeKind.BOUNDARY_EVENT):
        is_boundary = not node.is_compensation_boundary
        if is_boundary and not scope.outgoing(node):
            message = f"nothing follows the {describe(node.element)}"
            yield context.at(node.element, message, hint="Draw a flow to what shall happen, or to an end event")
        elif is_boundary and node.element.find("outgoing") is None:
            message = f"the {describe(node.element)} does not list the flow that leaves it"
            hint = f"Add <outgoing>{scope.outgoing(node)[0].id}</outgoing> to it"
            yield context.at(node.element, message, hint=hint)


@rule("HB025", on=("timerEventDefinition",))
def timer_shape(context: Context) -> Iterator[Finding]:
    """A timer has one time, of a kind that fits its event.

    A timer has exactly one of timeDate, timeDuration and timeCycle. An interrupting event fires once, so it cannot have
    a cycle, and neither can an event that a token waits at.

    Wrong:  <boundaryEvent ...> that interrupts, with <timeCycle>R3/PT24H</timeCycle>
    Right:  the same with <timeDuration>PT24H</timeDuration>, or with cancelActivity="false"
    """
    for process in context.model.processes:
        for scope, node in process.walk(*EVENTFUL):
            for event in node.events:
                if not isinstance(event, Timer):
                    continue
                count = sum(1 for kind in TimerKind for _ in event.element.find_all(kind))
                if count != 1:
                    message = f"the timer repeats {count} times"
                    hint = "Write one of timeDate, timeDuration and timeCycle"
                    yield context.at(event.element, message, hint=hint, detail="count")
                elif event.kind is TimerKind.CYCLE and not _may_repeat(node, scope is process.scope):
                    message = f"the {describe(node.element)} fires once and cannot have a cycle"
                    hint = "Write timeDuration, or let it not interrupt"
                    yield context.at(event.element, message, hint=hint, detail="cycle")


def _may_repeat(node: FlowNode, is_of_process: bool) -> bool:
    if node.kind is NodeKind.START_EVENT and is_of_process:
        return True
    return node.kind is not NodeKind.CATCH_EVENT and not node.is_interrupting


@rule("HB026", on=("messageEventDefinition", "errorEventDefinition", "escalationEventDefinition"))
def caught_twice(context: Context) -> Iterator[Finding]:
    """No two events in one place catch the same thing.

    If two boundary events of one activity, two event subprocesses of one scope or two events after one gateway catch
    the same message or error, it is undefined which of them acts.

    Wrong:  two boundary events on one task, both for the message documents-received
    Right:  one of them
    """
    for place in iterate_catches(context.model):
        seen: set[str] = set()
        for name, node in place:
            if name in seen:
                message = f"the {describe(node.element)} catches {name}, which another event in its place catches"
                yield context.at(node.element, message, hint="Remove one of them", detail=name)
            seen.add(name)


@rule("HB027", on=("linkEventDefinition",))
def link_pair(context: Context) -> Iterator[Finding]:
    """A link that is thrown is caught once in the same scope.

    A link is a jump. Without a target, or with two, an engine refuses the model.

    Wrong:  <intermediateThrowEvent ...><linkEventDefinition name="again" /></intermediateThrowEvent> alone
    Right:  the same, and one intermediateCatchEvent with a link of that name
    """
    for process in context.model.processes:
        for scope in process.scope.scopes():
            links = [(node, event.name) for node in scope.nodes for event in node.events if isinstance(event, Link)]
            caught = Counter(name for node, name in links if node.kind is NodeKind.CATCH_EVENT)
            for node, name in links:
                if not name:
                    hint = "Write a name on the linkEventDefinition"
                    yield context.at(node.element, "the link has no name", hint=hint)
                elif node.kind is NodeKind.THROW_EVENT and name not in caught:
                    message = f"nothing catches the link {name} in this scope"
                    yield context.at(node.element, message, hint="Draw an intermediateCatchEvent with that link")
                elif node.kind is NodeKind.CATCH_EVENT and caught[name] > 1:
                    message = f"the link {name} is caught {caught[name]} times in this scope"
                    yield context.at(node.element, message, hint="Keep one of them")


@rule("HB028", on=("compensateEventDefinition", "isForCompensation"))
def compensation_shape(context: Context) -> Iterator[Finding]:
    """A compensation boundary event leads to one handler, and a handler has no boundary events.

    The event and its handler are joined by an association, not by a flow. The handler is marked isForCompensation and
    has no boundary events of its own.

    Wrong:  <boundaryEvent ...><compensateEventDefinition /></boundaryEvent> without an association
    Right:  <association sourceRef="undo" targetRef="withdraw" /> to a task with isForCompensation="true"
    """
    for scope, node in context.nodes():
        if node.is_compensation_boundary:
            handler = scope.compensation_handler(node)
            if handler is None or not handler.is_for_compensation:
                message = f"the {describe(node.element)} leads to no compensation handler"
                hint = 'Draw an association to an activity with isForCompensation="true"'
                yield context.at(node.element, message, hint=hint)
        if node.is_for_compensation and scope.boundaries(node):
            message = f"the compensation handler {node.id} has a boundary event"
            yield context.at(node.element, message, hint="Remove the boundary event", detail="boundary")
    for element in context.every("compensateEventDefinition"):
        if (element.get("waitForCompletion") or "true").strip() not in ("true", "1"):
            message = "an engine always waits until the handlers are done"
            yield context.at(element, message, hint="Remove waitForCompletion", detail="waitForCompletion")


_THROWING = (NodeKind.THROW_EVENT, NodeKind.END_EVENT)


@rule("HB029", on=("receiveTask", "messageEventDefinition", "errorEventDefinition", "escalationEventDefinition"))
def missing_reference(context: Context) -> Iterator[Finding]:
    """An event that needs a message, an error or an escalation names it.

    A message without a name cannot be waited for, and an error that is thrown needs a code.

    Wrong:  <receiveTask id="wait" />
    Right:  <receiveTask id="wait" messageRef="docs" />
    """
    for _, node in context.nodes(NodeKind.RECEIVE_TASK, *EVENTFUL):
        if node.kind is NodeKind.RECEIVE_TASK and not node.message:
            yield context.at(node.element, f"{node.id} waits for no message", hint="Write messageRef", detail="message")
        for event in node.events:
            lacking = _describe_lack(node, event, context)
            if lacking:
                message = f"the {describe(node.element)} needs {lacking}"
                yield context.at(event.element, message, hint=f"Name {lacking}", detail=event.element.local)


def _describe_lack(node: FlowNode, event: EventDefinition, context: Context) -> str:
    is_thrown = node.kind in _THROWING
    match event:
        case MessageEvent(ref="") if not is_thrown:
            return "a message, by messageRef"
        case Error(ref=ref) if is_thrown:
            error = context.model.errors.get(ref)
            return "" if error is not None and error.code else "an error with an errorCode, by errorRef"
        case Escalation(ref=ref) if is_thrown:
            escalation = context.model.escalations.get(ref)
            return "" if escalation is not None and escalation.code else "an escalation with a code, by escalationRef"
        case _:
            return ""
