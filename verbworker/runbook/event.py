"""Runbook entries and events, and their description for people."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID


class Status(StrEnum):
    """The status of an entry. Only `verbworker.status_after` in the database decides it, from the events."""

    EXECUTING = "executing"
    PARKED = "parked"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Return whether it can no longer change."""
        return self not in (Status.EXECUTING, Status.PARKED)


class EntryMode(StrEnum):
    """How an entry is executed: immediately, by a process, or by a process with human gates."""

    SYNC = "sync"
    DURABLE = "durable"
    HUMAN_GATE = "human_gate"


class Kind(StrEnum):
    """What may happen to an entry."""

    STARTED = "DurableTaskStarted"
    ADOPTED = "InstanceAdopted"
    UNPINNED = "InstanceUnpinned"
    STEP_COMPLETED = "StepCompleted"
    PARKED = "Parked"
    RESUMED = "Resumed"
    TIMER_FIRED = "TimerFired"
    GATE_CLAIMED = "GateClaimed"
    GATE_RELEASED = "GateReleased"
    GATE_DECIDED = "GateDecided"
    GATE_GONE = "GateGone"
    MESSAGE_RECEIVED = "MessageReceived"
    CORRELATION_FAILED = "CorrelationFailed"
    INCIDENT_RAISED = "IncidentRaised"
    RESOLVE_REQUESTED = "ResolveRequested"
    INCIDENT_RESOLVED = "IncidentResolved"
    CANCEL_REQUESTED = "CancelRequested"
    CANCELLED = "Cancelled"
    COMPENSATED = "Compensated"
    STALLED = "Stalled"
    OVERDUE = "Overdue"
    RESULT = "ExecutionResult"
    ERASED = "Erased"


class StallKind(StrEnum):
    """Why an entry may make no progress although nothing of ours is missing."""

    JOB = "job"
    BACKOFF = "backoff"
    TIMER = "timer"
    MESSAGE = "message"

    @property
    def event(self) -> Kind:
        """Return the event that reports it."""
        return Kind.STALLED if self in (StallKind.JOB, StallKind.MESSAGE) else Kind.OVERDUE

    @property
    def words(self) -> str:
        """Return its name for people."""
        return _STALLS[self]


_STALLS = {
    StallKind.JOB: "stalled",
    StallKind.BACKOFF: "retry overdue",
    StallKind.TIMER: "timer overdue",
    StallKind.MESSAGE: "stalled after its message",
}


class Wait(StrEnum):
    """What an entry may be parked for."""

    HUMAN_GATE = "human_gate"
    EXTERNAL_SIGNAL = "external_signal"
    TIMER = "timer"
    INCIDENT = "incident"
    SUSPENDED = "suspended"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, at its place in the entry's chain."""

    entry_id: UUID
    seq: int
    at: datetime
    kind: Kind
    detail: Mapping[str, Any]
    status: Status
    hash: bytes


@dataclass(frozen=True, slots=True)
class DueBy:
    """When a timer should fire at a wait: after a duration or at a date, the earlier of the two.

    `beside` names timers that do not end the wait: once one of them fired, the next due time is unknown.
    """

    after: timedelta | None = None
    at: datetime | None = None
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParkedToken:
    """One thing an entry waits for, or waited for."""

    tenant_id: str
    entry_id: UUID
    instance_uid: UUID
    engine_id: str
    instance_key: int
    element_instance_key: int
    element_id: str
    kind: Wait
    reason: str
    gate: str | None = None
    message_name: str | None = None
    correlation_key: str | None = None
    job_key: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    due: DueBy = DueBy()
    input_hash: bytes | None = None

    @property
    def place(self) -> tuple[str, UUID, UUID, str, int, int, str]:
        """Where it waits: tenant, entry and instance, then engine, instance, element instance and element."""
        case = self.tenant_id, self.entry_id, self.instance_uid
        return *case, self.engine_id, self.instance_key, self.element_instance_key, self.element_id


@dataclass(frozen=True, slots=True)
class OpenToken:
    """An open token, for display."""

    token_id: UUID
    kind: Wait
    reason: str
    since: datetime
    gate: str | None = None
    message_name: str | None = None


@dataclass(frozen=True, slots=True)
class Stall:
    """An entry without progress: since when, what is known, and what an operator can do."""

    kind: StallKind
    since: datetime
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the runbook."""

    entry_id: UUID
    tenant_id: str
    request_key: str | None
    verb: str
    verb_version: str
    mode: EntryMode
    sentence: str
    invocation: str
    args: Mapping[str, Any]
    asked_by: str
    status: Status
    outcome: Mapping[str, Any] | None
    process_id: str | None
    process_version: int | None
    definition_key: int | None
    provenance: Mapping[str, Any]
    cancel_requested_at: datetime | None
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None


_SENTENCES = {
    Kind.STARTED: "Started",
    Kind.ADOPTED: "Its latest records were lost; it continues from where it was",
    Kind.UNPINNED: "Its latest records were lost; it waits to be assigned again",
    Kind.STEP_COMPLETED: "{verb} is done",
    Kind.PARKED: "{reason}",
    Kind.RESUMED: "Continued",
    Kind.TIMER_FIRED: "Timer expired: {name}",
    Kind.GATE_CLAIMED: "{by} claimed {gate}",
    Kind.GATE_RELEASED: "{by} released {gate}",
    Kind.GATE_DECIDED: "{by} decided {decision} at {gate}",
    Kind.GATE_GONE: "{gate} no longer needs a decision",
    Kind.MESSAGE_RECEIVED: "Message {message_name} arrived",
    Kind.CORRELATION_FAILED: "Message {message_name} could not be delivered: {reason}",
    Kind.INCIDENT_RAISED: "{verb} stopped: {code}",
    Kind.RESOLVE_REQUESTED: "{by} let it continue after it had stopped: {reason}",
    Kind.INCIDENT_RESOLVED: "{verb} may continue",
    Kind.CANCEL_REQUESTED: "{by} requested cancellation: {reason}",
    Kind.CANCELLED: "Cancelled",
    Kind.COMPENSATED: "{verb} undid {undoes}",
    Kind.STALLED: "No progress",
    Kind.OVERDUE: "Overdue",
    Kind.RESULT: "Failed: {code}",
    Kind.ERASED: "{by} erased its personal data",
}


def describe(event: Event) -> str:
    """Describe the event in a sentence for people who never saw the process."""
    sentence = _SENTENCES[event.kind]
    if event.kind in (Kind.INCIDENT_RAISED, Kind.INCIDENT_RESOLVED) and not event.detail.get("verb"):
        sentence = sentence.replace("{verb}", "{element}")  # a gateway or an event stops without a verb
    if not event.detail.get("reason"):
        sentence = sentence.removesuffix(": {reason}")  # erased
    given = defaultdict(lambda: None, event.detail)
    match event.kind, event.detail:
        case Kind.STEP_COMPLETED, {"outcome": "bpmn_error"}:
            sentence = "{verb} ended with {error_code}"
        case Kind.GATE_CLAIMED, {"assigned_by": str()}:
            sentence = "{assigned_by} gave {gate} to {by}"
        case Kind.PARKED, detail if not detail.get("reason"):
            sentence = "Waiting"
        case Kind.GATE_GONE, detail if detail.get("decision"):
            sentence = "The decision at {gate} came too late: it was no longer needed"
        case Kind.RESULT, {"result": "ok"}:
            sentence = "Completed" if outcome_name(event) is None else "Completed: {outcome}"
        case Kind.CANCELLED, {"running": [_, *_] as steps}:
            return f"Cancelled while steps ran; their outcome is unknown: {'; '.join(map(_name_step, steps))}"
        case Kind.RESOLVE_REQUESTED, {"flags": dict(flags)} if flags:
            set_to = ", ".join(f"{name} = {json.dumps(value)}" for name, value in flags.items())
            return f"{sentence.format_map(given)} ({set_to})"
        case ((Kind.INCIDENT_RAISED | Kind.RESULT), {"text": str(text)}) if text:
            sentence += ": {text}"
    return sentence.format_map(given)


def outcome_name(event: Event) -> str | None:
    """Return the outcome by its name in the contract, if the event ended an entry with one."""
    name = event.detail.get("outcome") if event.kind is Kind.RESULT else None
    return name if isinstance(name, str) and name != "ok" else None


def open_incidents(events: Iterable[Event]) -> list[Event]:
    """Return the incidents among an entry's events that were not resolved, oldest first."""
    waiting: dict[object, Event] = {}
    for event in events:
        if event.kind is Kind.INCIDENT_RAISED:
            waiting[_subject_of(event)] = event
        elif event.kind is Kind.INCIDENT_RESOLVED:
            waiting.pop(_subject_of(event), None)
    return list(waiting.values())


def _subject_of(event: Event) -> object:
    """Return what an incident stops: a job, or an element without one, known by the key of its incident."""
    return event.detail.get("job_key") or ("incident", event.detail.get("incident_key"))


def _name_step(step: Mapping[str, Any]) -> str:
    return f"{step['verb']} (idempotency key {step['idempotency_key']})"
