"""Waits: what each element of a process can wait for, read from its model at deployment.

Older engines send a listener only the element's ID, so what is at that element must be known beforehand.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from verblint.bpmn.ameide_schema import extensions
from verblint.bpmn.element import ZEEBE
from verblint.bpmn.event_cause import (
    Compensate,
    Error,
    Escalation,
    EventDefinition,
    Link,
    MessageEvent,
    Timer,
    TimerKind,
)
from verblint.bpmn.model import Definitions, FlowNode, NodeKind, Process, Scope
from verblint.flow.job_nodes import is_job
from verblint.names import OWN_JOBS
from verbworker.contract.workflow import WorkflowVerb
from verbworker.model import schedule
from verbworker.runbook.event import DueBy, Wait

ERROR = "error"
ESCALATION = "escalation"

_PASSED = (Compensate, Link)
_STARTS = (NodeKind.START_EVENT,)


@dataclass(frozen=True, slots=True)
class ModelWait:
    """What one element waits for or catches, and whose waits end with it.

    `kind` is a value of `Wait`, or `error` or `escalation` for what only interrupts. `attached_to` is the element or
    scope that an event interrupts, if any. `inside` is the process and the subprocesses around the element. `timers`
    are those that end a wait here or fire beside it, as written in the model: `timeDuration PT1H`. `form` is the name
    of a task's form, which task listeners are not told.
    """

    kind: str
    name: str
    message: str | None = None
    attached_to: str | None = None
    interrupting: bool = False
    behind: str | None = None
    gate: str | None = None
    inside: tuple[str, ...] = ()
    timers: tuple[str, ...] = ()
    form: str | None = None


Waits = Mapping[str, ModelWait]


def ends(waits: Waits, element_id: str, other: str) -> bool:
    """Return whether `other` stops waiting when `element_id` lets the process continue.

    An event behind a gateway ends the gateway's wait; an interrupting one ends the waits of all it is attached to.
    """
    here = waits.get(element_id)
    if here is None or (here.behind is None and here.attached_to is None):
        return other == element_id
    if here.behind is not None:
        return other == here.behind
    around = waits[other].inside if other in waits else ()
    is_in_reach = here.interrupting and here.attached_to in (other, *around)
    # An event subprocess interrupts what surrounds it, but not itself.
    return is_in_reach and not (here.attached_to in here.inside and here.inside[-1] in around)


def as_json(waits: Waits) -> dict[str, Any]:
    """Return the waits in the form stored in the database."""
    # A form is left out where there is none: workers of the version before do not know it.
    fields = {element_id: asdict(waiting) for element_id, waiting in waits.items()}
    return {
        element_id: {name: value for name, value in written.items() if name != "form" or value is not None}
        for element_id, written in fields.items()
    }


def from_json(kept: Mapping[str, Mapping[str, Any]]) -> dict[str, ModelWait]:
    """Return the waits that `as_json` wrote."""
    lists = ("inside", "timers")
    return {
        key: ModelWait(**{**written, **{name: tuple(written.get(name, ())) for name in lists}})
        for key, written in kept.items()
    }


def due(waits: Waits, element_id: str, variables: Mapping[str, object], now: datetime) -> DueBy:
    """Return when the first timer at an element is due; unknown for a cycle or an unknown flag."""
    delays: list[timedelta] = []
    dates: list[datetime] = []
    for timer in waits[element_id].timers if element_id in waits else ():
        kind, _, text = timer.partition(" ")
        try:
            value = variables.get(text[1:].strip()) if text.startswith("=") else text
            at = schedule.first(TimerKind(kind), value, now).at
        except schedule.ScheduleInvalid:
            continue
        if kind == TimerKind.DURATION:
            delays.append(at - now)
        elif kind == TimerKind.DATE:
            dates.append(at)
    beside = (other.name for other in waits.values() if other.attached_to == element_id and not other.interrupting)
    return DueBy(min(delays, default=None), min(dates, default=None), tuple(beside))


def read_waits(model: Definitions, process: Process, workflow: WorkflowVerb) -> dict[str, ModelWait]:
    """Return a wait for each element of a process that can wait, fail or interrupt."""
    found = _Reading(model, workflow).scope(process.scope, (process.id,))
    waits = {element_id: waiting for element_id, waiting in found if element_id}
    return {element_id: replace(waiting, timers=_timers(element_id, waits)) for element_id, waiting in waits.items()}


def _timers(element_id: str, waits: Waits) -> tuple[str, ...]:
    """Return the timers of an element, of the events behind it, and of its boundary events."""
    around = (other for other in waits.values() if element_id in (other.behind, other.attached_to))
    return tuple(timer for waiting in (waits[element_id], *around) for timer in waiting.timers)


def count_steps(scope: Scope) -> int:
    """Count the verbs and gates on the usual path: all that tokens reach without an interrupting event."""
    pending = [node for node in scope.nodes if node.kind in _STARTS]
    reached: dict[str, FlowNode] = {}
    while pending:
        node = pending.pop()
        if node.id not in reached:
            reached[node.id] = node
            pending += [scope.by_id[flow.target] for flow in scope.outgoing(node) if flow.target in scope.by_id]
            pending += scope.link_targets(node)
    return sum(_steps_of(node) for node in reached.values())


def _steps_of(node: FlowNode) -> int:
    if node.scope is not None:
        return count_steps(node.scope)
    is_step = node.kind is NodeKind.USER_TASK or is_job(node)
    return int(is_step and not node.binding.job_type.startswith(OWN_JOBS))


class _Reading:
    """One model while it is read."""

    def __init__(self, model: Definitions, workflow: WorkflowVerb) -> None:
        self._model = model
        self._gates = {gate.task: name for name, gate in workflow.gates.items()}

    def scope(self, scope: Scope, inside: tuple[str, ...]) -> Iterator[tuple[str, ModelWait]]:
        """Yield every element of a scope and of its nested scopes."""
        for node in scope.nodes:
            waiting = self._find_wait(scope, node, inside)
            if waiting is not None:
                yield node.id, replace(waiting, inside=inside)
            if node.scope is not None:
                yield from self.scope(node.scope, (*inside, node.id))

    def _find_wait(self, scope: Scope, node: FlowNode, inside: tuple[str, ...]) -> ModelWait | None:
        name = node.name or node.id
        match node.kind:
            case NodeKind.USER_TASK:
                return ModelWait(Wait.HUMAN_GATE, name, gate=self._gate(node), form=_form(node))
            case NodeKind.RECEIVE_TASK:
                return ModelWait(Wait.EXTERNAL_SIGNAL, name, message=self._message(node.message))
            case NodeKind.EVENT_BASED_GATEWAY:
                return self._choice(scope, node)
            case NodeKind.CATCH_EVENT if node.event is not None and not isinstance(node.event, _PASSED):
                return replace(self._event(node.event, name), behind=gateway_before(scope, node))
            case NodeKind.BOUNDARY_EVENT if node.event is not None and not isinstance(node.event, _PASSED):
                caught = self._event(node.event, name)
                return replace(caught, attached_to=node.attached_to, interrupting=node.is_interrupting)
            case NodeKind.START_EVENT if node.event is not None and len(inside) > 1:
                caught = self._event(node.event, name)
                return replace(caught, attached_to=inside[-2], interrupting=node.is_interrupting)
            case _:
                return ModelWait(Wait.INCIDENT, name) if is_job(node) else None

    def _event(self, event: EventDefinition, name: str) -> ModelWait:
        match event:
            case Timer(kind=TimerKind() as kind) if event.when is not None:
                return ModelWait(Wait.TIMER, name, timers=(f"{kind.value} {event.when.text}",))
            case Timer():
                return ModelWait(Wait.TIMER, name)
            case MessageEvent():
                return ModelWait(Wait.EXTERNAL_SIGNAL, name, message=self._message(event.ref))
            case Error():
                return ModelWait(ERROR, name)
            case Escalation():
                return ModelWait(ESCALATION, name)
            case _:
                return ModelWait(Wait.EXTERNAL_SIGNAL, name)

    def _choice(self, scope: Scope, gateway: FlowNode) -> ModelWait:
        """Return the wait at an event-based gateway; without a name it is named after its events."""
        targets = (scope.by_id.get(flow.target) for flow in scope.outgoing(gateway))
        events = [self._event(node.event, node.name or node.id) for node in targets if node is not None and node.event]
        signals = [event for event in events if event.kind == Wait.EXTERNAL_SIGNAL]
        name = gateway.name or " or ".join(event.name for event in events) or gateway.id
        kind = Wait.EXTERNAL_SIGNAL if signals else Wait.TIMER
        return ModelWait(kind, name, message=signals[0].message if len(signals) == 1 else None)

    def _message(self, reference: str) -> str | None:
        declared = self._model.messages.get(reference)
        return declared.name if declared is not None else None

    def _gate(self, node: FlowNode) -> str:
        given = (update.get("name") for update in extensions(node.element, "updateDefinition"))
        return self._gates.get(node.id) or next((name for name in given if name), f"Update_{node.id}")


def _form(node: FlowNode) -> str | None:
    """Return the name of a task's form: its own, or its reference to one elsewhere. Neither may be an expression."""
    holders = node.element.find_all("extensionElements")
    given = [found.values for holder in holders for found in holder.find_all("formDefinition", ZEEBE)]
    forms = (values.get("externalReference") or values.get("formId") for values in given)
    return next((form for form in forms if form), None)


def gateway_before(scope: Scope, node: FlowNode) -> str | None:
    """Return the event-based gateway that waits on behalf of an event behind it."""
    sources = (scope.by_id.get(flow.source) for flow in scope.incoming(node))
    found = (source.id for source in sources if source is not None and source.kind is NodeKind.EVENT_BASED_GATEWAY)
    return next(found, None)
