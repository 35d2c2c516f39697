"""Definitions: the subset of BPMN that the kernel executes; other elements are refused with name and line."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from verblint.bpmn.assembly import assemble
from verblint.bpmn.binding import Listener as WovenListener
from verblint.bpmn.event_cause import (
    Compensate,
    Conditional,
    Error,
    Escalation,
    Link,
    MessageEvent,
    SignalEvent,
    Terminate,
    Timer,
    TimerKind,
)
from verblint.bpmn.expression import Expression
from verblint.bpmn.model import Definitions, FlowNode, NodeKind, Process, Scope, SequenceFlow
from verblint.bpmn.reader import ModelError, read
from verblint.feel.condition import Test
from verbworker.engine.embedded.kernel.expressions import (
    BeyondKernel,
    VariableMapping,
    read_condition,
    read_mappings,
    read_path,
)
from verbworker.engine.embedded.kernel.user_task_headers import read_headers
from verbworker.errors import CommandInvalid

USER_TASK = "io.camunda.zeebe:userTask"
_RETRIES = 3  # as Zeebe has it


class Action(StrEnum):
    """What a node does when a token reaches it."""

    PASS = "pass"  # nothing: start events, tasks without work, none events
    JOB = "job"
    CATCH = "catch"  # waits for its timer or message
    EXCLUSIVE = "exclusive"
    INCLUSIVE = "inclusive"
    PARALLEL = "parallel"
    CHOICE = "choice"  # waits for the first of the events that follow it
    SCOPE = "scope"
    ERROR_END = "error end"
    TERMINATE_END = "terminate end"
    COMPENSATE = "compensate"


@dataclass(frozen=True, slots=True)
class Flow:
    """A sequence flow: its target and its condition."""

    id: str
    target: str
    test: Test | None = None


@dataclass(frozen=True, slots=True)
class TimerWait:
    """A wait for a time: an ISO 8601 text, or the variable that holds one."""

    kind: TimerKind
    text: str = ""
    variable: str = ""


@dataclass(frozen=True, slots=True)
class MessageWait:
    """A wait for a message: its name, and the variable that holds the key."""

    name: str
    key_variable: str


@dataclass(frozen=True, slots=True)
class NodeListener:
    """A job that must be done before a node is entered or left."""

    type: str
    retries: int


@dataclass(frozen=True, slots=True)
class Node:
    """An element as the kernel executes it."""

    id: str
    act: Action
    scope: str  # the id of the enclosing subprocess; empty for the process itself
    line: int
    outgoing: tuple[Flow, ...] = ()
    incoming: tuple[str, ...] = ()
    default: str = ""
    job_type: str = ""
    retries: int = _RETRIES
    headers: Mapping[str, str] = field(default_factory=dict)
    wait: TimerWait | MessageWait | None = None
    error_code: str | None = None  # thrown or caught; None catches every code
    attached_to: str = ""
    is_interrupting: bool = True
    boundaries: tuple[str, ...] = ()
    catches_error: bool = False
    starts: str = ""  # the start event of a scope
    entering: tuple[NodeListener, ...] = ()
    leaving: tuple[NodeListener, ...] = ()
    undone_by: str = ""
    undoes: str = ""  # for a compensation throw event: one activity, or empty for the scope
    element: str = ""  # the name of its BPMN element
    inputs: tuple[VariableMapping, ...] = ()
    outputs: tuple[VariableMapping, ...] = ()


@dataclass(frozen=True, slots=True)
class Definition:
    """An executable process. The process itself is the node with an empty id."""

    process_id: str
    nodes: Mapping[str, Node]
    message_starts: Mapping[str, MessageWait] = field(default_factory=dict)

    @property
    def root(self) -> Node:
        """The process itself, as the outermost scope."""
        return self.nodes[""]


def compile_models(content: bytes, name: str) -> list[Definition]:
    """Return every executable process of a model; raises `CommandInvalid` for unsupported elements."""
    try:
        model = assemble(read(content, name))
    except ModelError as error:
        raise CommandInvalid(f"{name}: {error}") from error
    found = [_Compiling(model, process, name).run() for process in model.executable]
    if not found:
        raise CommandInvalid(f"{name}: there is no executable process in it")
    return found


class _Compiling:
    """The compilation of one process."""

    def __init__(self, model: Definitions, process: Process, name: str) -> None:
        self._model = model
        self._process = process
        self._name = name
        self._nodes: dict[str, Node] = {}
        self._message_starts: dict[str, MessageWait] = {}

    def run(self) -> Definition:
        scope = self._process.scope
        binding = self._process.binding
        self._nodes[""] = Node(
            "",
            Action.SCOPE,
            "",
            self._line(self._process),
            starts=self._start_of(scope, self._process.id, is_process=True),
            entering=tuple(self._listeners(binding.execution_listeners, "start")),
            leaving=tuple(self._listeners(binding.execution_listeners, "end")),
        )
        self._read(scope, "")
        self._check_flows()
        return Definition(self._process.id, self._nodes, self._message_starts)

    def _read(self, scope: Scope, scope_id: str) -> None:
        for node in scope.nodes:
            hosts = (one.id for one in scope.nodes if one.kind.is_activity)
            if node.kind is NodeKind.BOUNDARY_EVENT and node.attached_to not in hosts:
                raise self._refusal(node, "is attached to no activity of its scope; name one in attachedToRef")
            if not node.is_compensation_boundary:
                self._nodes[node.id] = self._node(scope, node, scope_id)
            if node.scope is not None:
                self._read(node.scope, node.id)

    def _check_flows(self) -> None:
        for node in self._nodes.values():
            for flow in node.outgoing:
                target = self._nodes.get(flow.target)
                if target is None or target.scope != node.scope:
                    raise CommandInvalid(f"{self._name}:{node.line}: the flow {flow.id!r} leads nowhere in its scope")

    def _node(self, scope: Scope, node: FlowNode, scope_id: str) -> Node:
        if node.multi_instance is not None:
            raise self._beyond(node, "runs once per item of a collection", "draw the loop with a gateway")
        if any(child.local == "standardLoopCharacteristics" for child in node.element.children):
            raise self._beyond(node, "is a loop of its own", "draw the loop with a gateway")
        act, wait = self._act(node)
        undone = next((b for b in scope.boundaries(node) if b.is_compensation_boundary), None)
        handler = None if undone is None else scope.compensation_handler(undone)
        boundaries = tuple(b.id for b in scope.boundaries(node) if not b.is_compensation_boundary)
        return Node(
            id=node.id,
            act=act,
            scope=scope_id,
            line=self._line(node),
            outgoing=tuple(self._flow(flow) for flow in scope.outgoing(node)),
            incoming=tuple(flow.id for flow in scope.incoming(node)),
            default=node.default,
            job_type=self._job_type(node) if act is Action.JOB else "",
            retries=self._retries(node.binding.retries, node),
            headers=self._headers(node),
            wait=wait,
            error_code=self._error_code(node),
            attached_to=node.attached_to,
            is_interrupting=node.is_interrupting,
            boundaries=boundaries,
            catches_error=node.kind is NodeKind.BOUNDARY_EVENT and isinstance(node.event, Error),
            starts="" if node.scope is None else self._start_of(node.scope, node.id),
            entering=tuple(self._listeners(node.binding.execution_listeners, "start")),
            leaving=tuple(self._listeners(node.binding.execution_listeners, "end")),
            undone_by="" if handler is None else handler.id,
            undoes=node.event.ref if isinstance(node.event, Compensate) else "",
            element=node.kind.value,
            inputs=self._mappings(node, act, "input"),
            outputs=self._mappings(node, act, "output"),
        )

    def _mappings(self, node: FlowNode, act: Action, direction: str) -> tuple[VariableMapping, ...]:
        try:
            found = read_mappings(node.binding, direction)
        except BeyondKernel as error:
            raise self._beyond(node, str(error), "map a variable, a path or a constant into a variable") from error
        is_event = act is Action.CATCH and node.kind is not NodeKind.RECEIVE_TASK
        if found and (act not in _MAPPED or node.kind is NodeKind.START_EVENT or (is_event and direction == "input")):
            raise self._beyond(node, f"has an {direction} mapping", "move it to a task")
        return found

    def _act(self, node: FlowNode) -> tuple[Action, TimerWait | MessageWait | None]:
        match node.kind, node.event:
            case ((NodeKind.SERVICE_TASK | NodeKind.SEND_TASK | NodeKind.USER_TASK), _):
                return Action.JOB, None
            case ((NodeKind.TASK | NodeKind.MANUAL_TASK), _):
                return Action.PASS, None
            case NodeKind.RECEIVE_TASK, _:
                return Action.CATCH, self._message(node, node.message)
            case ((NodeKind.CATCH_EVENT | NodeKind.BOUNDARY_EVENT), (Timer() | MessageEvent())):
                return Action.CATCH, self._wait(node)
            case NodeKind.BOUNDARY_EVENT, Error():
                return Action.CATCH, None
            case NodeKind.START_EVENT, None if not node.events:
                return Action.PASS, None
            case NodeKind.START_EVENT, MessageEvent():
                return Action.PASS, None
            case ((NodeKind.THROW_EVENT | NodeKind.END_EVENT), MessageEvent()):
                return Action.JOB, None
            case ((NodeKind.THROW_EVENT | NodeKind.END_EVENT), Compensate()):
                return Action.COMPENSATE, None
            case ((NodeKind.THROW_EVENT | NodeKind.END_EVENT), None) if not node.events:
                return Action.PASS, None
            case NodeKind.END_EVENT, Error():
                return Action.ERROR_END, None
            case NodeKind.END_EVENT, Terminate():
                return Action.TERMINATE_END, None
            case NodeKind.SUB_PROCESS, _ if not node.is_event_sub_process:
                return Action.SCOPE, None
            case NodeKind.EXCLUSIVE_GATEWAY, _:
                return Action.EXCLUSIVE, None
            case NodeKind.PARALLEL_GATEWAY, _:
                return Action.PARALLEL, None
            case NodeKind.INCLUSIVE_GATEWAY, _:
                return Action.INCLUSIVE, None
            case NodeKind.EVENT_BASED_GATEWAY, _:
                return Action.CHOICE, None
        raise self._beyond(node, *_nearest(node))

    def _wait(self, node: FlowNode) -> TimerWait | MessageWait:
        event = node.event
        if isinstance(event, MessageEvent):
            return self._message(node, event.ref)
        assert isinstance(event, Timer)
        if event.kind is None or event.when is None:
            raise self._refusal(node, "is a timer without a time; write a duration, a date or a cycle")
        if event.when.is_feel:
            return TimerWait(event.kind, variable=self._variable(node, event.when))
        return TimerWait(event.kind, text=event.when.text)

    def _message(self, node: FlowNode, ref: str) -> MessageWait:
        message = self._model.messages.get(ref)
        if message is None or message.correlation_key is None:
            raise self._refusal(node, "waits for a message without a key; declare it with a zeebe:subscription")
        return MessageWait(message.name, self._variable(node, message.correlation_key))

    def _variable(self, node: FlowNode, expression: Expression) -> str:
        try:
            return read_path(expression.text)
        except BeyondKernel as error:
            raise self._beyond(node, str(error), "have a task set one variable and name that") from error

    def _flow(self, flow: SequenceFlow) -> Flow:
        if flow.condition is None:
            return Flow(flow.id, flow.target)
        try:
            return Flow(flow.id, flow.target, read_condition(flow.condition.text))
        except BeyondKernel as error:
            what = f"the condition of {flow.id!r} is {flow.condition.text}, {_BEYOND} ({error})"
            place = f"{self._name}:{self._line(flow)}"
            raise CommandInvalid(f"{place}: {what}; compare variables and constants, {_ZEEBE}") from error

    def _start_of(self, scope: Scope, scope_id: str, *, is_process: bool = False) -> str:
        plain = ""
        for node in scope.nodes:
            if node.kind is not NodeKind.START_EVENT:
                continue
            if not node.events and not plain:
                plain = node.id
            elif is_process and isinstance(node.event, MessageEvent):
                message = self._model.messages.get(node.event.ref)
                if message is not None:
                    key = "" if message.correlation_key is None else self._variable(node, message.correlation_key)
                    self._message_starts[node.id] = MessageWait(message.name, key)
            else:
                if node.event:
                    raise self._beyond(node, *_nearest(node))
                raise self._refusal(node, "is one start event too many; keep one")
        if not plain and not (is_process and self._message_starts):
            raise CommandInvalid(f"{self._name}: {scope_id} has no start event")
        return plain

    def _job_type(self, node: FlowNode) -> str:
        if node.kind is NodeKind.USER_TASK:
            return USER_TASK  # native or not: there is no task list here, so the job is the task
        if not node.binding.job_type:
            raise self._beyond(node, "has no literal job type", "write one")
        return node.binding.job_type

    def _headers(self, node: FlowNode) -> dict[str, str]:
        written = {header.key: header.value for header in node.binding.headers}
        if node.kind is not NodeKind.USER_TASK:
            return written
        try:
            return written | read_headers(node.element)
        except ValueError as error:
            raise self._beyond(node, str(error), "name one variable or none") from error

    def _retries(self, retries: Expression | None, node: FlowNode) -> int:
        if retries is None:
            return _RETRIES
        if not retries.text.isdecimal() or len(retries.text) > 9:
            raise self._beyond(node, "computes its retries", "write a number")
        return int(retries.text)

    def _error_code(self, node: FlowNode) -> str | None:
        if not isinstance(node.event, Error) or not node.event.ref:
            return None
        error = self._model.errors.get(node.event.ref)
        if error is None:
            raise self._refusal(node, "names an error that is not declared; declare it with its code")
        return error.code or None

    def _listeners(self, woven: tuple[WovenListener, ...], event: str) -> Iterator[NodeListener]:
        for listener in woven:
            if listener.event == event and listener.type is not None:
                text = "" if listener.retries is None else listener.retries.text
                yield NodeListener(listener.type.text, int(text) if text.isdecimal() else _RETRIES)

    def _line(self, node: "FlowNode | Process | SequenceFlow") -> int:
        return node.element.place.position[0]

    def _refusal(self, node: FlowNode, why: str) -> CommandInvalid:
        return CommandInvalid(f"{self._name}:{self._line(node)}: {node.kind.value or 'element'} {node.id!r} {why}")

    def _beyond(self, node: FlowNode, what: str, instead: str) -> CommandInvalid:
        """Return the refusal of what other engines run."""
        return self._refusal(node, f"{what}, {_BEYOND}; {instead}, {_ZEEBE}")


def _nearest(node: FlowNode) -> tuple[str, str]:
    """Return why a node is not executed, and the nearest supported alternative."""
    if len(node.events) > 1:
        return "waits for several things", "draw one event each behind an event-based gateway"
    known = _NEAREST_EVENT.get(type(node.event)) or _NEAREST.get(node.kind)
    return known or (f"is a {node.kind.value or 'foreign element'}", "use a service task and events")


_BEYOND = "which the embedded engine does not run"
_ZEEBE = "or use Zeebe (VERBWORKER_ENGINE=zeebe)"
_MAPPED = (Action.JOB, Action.CATCH, Action.SCOPE, Action.PASS)
_NEAREST_EVENT: Mapping[type, tuple[str, str]] = {
    SignalEvent: ("is a signal", "use a message with a key"),
    Escalation: ("is an escalation", "use an error, or a message"),
    Conditional: ("waits for a condition", "use a gateway behind the task that sets the variable"),
    Link: ("is a link", "use a sequence flow"),
    Timer: ("is started by a timer", "start it from a scheduler"),
    MessageEvent: ("is started by a message inside a subprocess", "catch the message behind a none start event"),
}
_NEAREST = {
    NodeKind.SCRIPT_TASK: ("is a script", "make it a service task"),
    NodeKind.BUSINESS_RULE_TASK: ("is a decision table", "make it a service task"),
    NodeKind.CALL_ACTIVITY: ("calls another process", "hand over by a message"),
    NodeKind.COMPLEX_GATEWAY: ("is a complex gateway", "use an exclusive or a parallel one"),
    NodeKind.TRANSACTION: ("is a transaction", "use a subprocess with an error boundary event"),
    NodeKind.AD_HOC_SUB_PROCESS: ("is an ad-hoc subprocess", "draw the order of its steps"),
    NodeKind.SUB_PROCESS: ("is an event subprocess", "use a boundary event"),
}
