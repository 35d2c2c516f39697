"""Runbook entries and events, and their description for people."""

from collections.abc import Mapping
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
    INCIDENT_RESOLVED = "IncidentResolved"
    CANCEL_REQUESTED = "CancelRequested"
    CANCELLED = "Cancelled"
    COMPENSATED = "Compensated"
    STALLED = "Stalled"
    OVERDUE = "Overdue"
    RESULT = "ExecutionResult"


class StallKind(StrEnum):
    """Why an entry may make no progress although nothing of ours is missing."""

    JOB = "job"
    BACKOFF = "backoff"
    TIMER = "timer"

    @property
    def event(self) -> Kind:
        """Return the event that reports it."""
        return Kind.STALLED if self is StallKind.JOB else Kind.OVERDUE

    @property
    def words(self) -> str:
        """Return its name for people."""
        return _STALLS[self]


_STALLS = {StallKind.JOB: "stalled", StallKind.BACKOFF: "retry overdue", StallKind.TIMER: "timer overdue"}


class Wait(StrEnum):
    """What an entry may be parked for."""

    HUMAN_GATE = "human_gate"
    EXTERNAL_SIGNAL = "external_signal"
    TIMER = "timer"
    INCIDENT = "incident"


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


@dataclass(frozen=True, slots=True)
class Open:
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


def describe(event: Event) -> str:
    """Describe the event in a sentence for people who never saw the process."""
    detail = event.detail
    match event.kind:
        case Kind.STARTED:
            return "Started"
        case Kind.ADOPTED:
            return "Its latest records were lost; it continues from where it was"
        case Kind.UNPINNED:
            return "Its latest records were lost; it waits to be assigned again"
        case Kind.STEP_COMPLETED if detail.get("outcome") == "bpmn_error":
            return f"{detail.get('verb')} ended with {detail.get('error_code')}"
        case Kind.STEP_COMPLETED:
            return f"{detail.get('verb')} is done"
        case Kind.PARKED:
            return str(detail.get("reason") or "Waiting")
        case Kind.RESUMED:
            return "Continued"
        case Kind.TIMER_FIRED:
            return f"Timer expired: {detail.get('name')}"
        case Kind.GATE_CLAIMED:
            return f"{detail.get('by')} claimed {detail.get('gate')}"
        case Kind.GATE_DECIDED:
            return f"{detail.get('by')} decided {detail.get('decision')} at {detail.get('gate')}"
        case Kind.GATE_RELEASED:
            return f"{detail.get('by')} released {detail.get('gate')}"
        case Kind.GATE_GONE if detail.get("decision"):
            return f"The decision at {detail.get('gate')} came too late: it was no longer needed"
        case Kind.GATE_GONE:
            return f"{detail.get('gate')} no longer needs a decision"
        case Kind.MESSAGE_RECEIVED:
            return f"Message {detail.get('message_name')} arrived"
        case Kind.CORRELATION_FAILED:
            return f"Message {detail.get('message_name')} could not be delivered: {detail.get('reason')}"
        case Kind.INCIDENT_RAISED:
            return f"{detail.get('verb')} stopped: {detail.get('code')}"
        case Kind.INCIDENT_RESOLVED:
            return f"{detail.get('verb')} may continue"
        case Kind.CANCEL_REQUESTED:
            return f"{detail.get('by')} requested cancellation: {detail.get('reason')}"
        case Kind.CANCELLED:
            return "Cancelled"
        case Kind.COMPENSATED:
            return f"{detail.get('verb')} undid {detail.get('undoes')}"
        case Kind.STALLED:
            return "No progress"
        case Kind.OVERDUE:
            return "Overdue"
        case Kind.RESULT:  # pragma: no branch  # there is no other
            return "Completed" if detail.get("result") == "ok" else f"Failed: {detail.get('code')}"
