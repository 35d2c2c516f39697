"""The commands an instance accepts, and the effects a step produces."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Begin:
    """Start the instance; `start` is a message start event, or empty for the plain one."""

    variables: Mapping[str, Any]
    start: str = ""


@dataclass(frozen=True, slots=True)
class CompleteJob:
    """A job was completed."""

    job: int
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FailJob:
    """A run of a job failed and it has retries left: the same token tries again after a backoff."""

    job: int
    retries: int
    backoff_ms: int = 0


@dataclass(frozen=True, slots=True)
class ExhaustJob:
    """A job has no retries left."""

    job: int
    message: str


@dataclass(frozen=True, slots=True)
class ThrowError:
    """A job ended with a business error."""

    job: int
    code: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Fire:
    """A timer is due."""

    wait: int


@dataclass(frozen=True, slots=True)
class Deliver:
    """A message reached a subscription."""

    wait: int
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resolve:
    """An operator resolved an incident."""

    incident: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """End the instance in its current state."""


Command = Begin | CompleteJob | FailJob | ExhaustJob | ThrowError | Fire | Deliver | Resolve | Cancel


@dataclass(frozen=True, slots=True)
class JobCreated:
    """A job for a worker."""

    key: int
    type: str
    node: str
    element_instance: int
    retries: int
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A job may no longer be worked on: it is done, or its token is gone."""

    key: int


@dataclass(frozen=True, slots=True)
class JobHeld:
    """A job is held until its incident is resolved."""

    key: int


@dataclass(frozen=True, slots=True)
class JobRested:
    """A job may be worked on again after a time."""

    key: int
    type: str
    retries: int
    backoff_ms: int


@dataclass(frozen=True, slots=True)
class JobFreed:
    """A held job may be worked on again."""

    key: int


@dataclass(frozen=True, slots=True)
class TimerSet:
    """Fire this wait at a time; setting it again replaces the time."""

    key: int
    due: datetime


@dataclass(frozen=True, slots=True)
class Subscribed:
    """Deliver messages of this name and key to this wait."""

    key: int
    message: str
    correlation_key: str
    node: str
    is_interrupting: bool


@dataclass(frozen=True, slots=True)
class WaitClosed:
    """A timer or a subscription was closed."""

    key: int


@dataclass(frozen=True, slots=True)
class IncidentRaised:
    """A token needs an operator."""

    key: int
    kind: str
    message: str
    node: str
    job: int
    element_instance: int


@dataclass(frozen=True, slots=True)
class IncidentGone:
    """An incident no longer exists."""

    key: int


@dataclass(frozen=True, slots=True)
class Ended:
    """No token is left."""

    status: str


JobEffect = JobCreated | JobEnded | JobHeld | JobRested | JobFreed
WaitEffect = TimerSet | Subscribed | WaitClosed
Effect = JobEffect | WaitEffect | IncidentRaised | IncidentGone | Ended


class TargetMissing(LookupError):
    """The job, wait or incident of a command does not exist: the command is late, repeated or wrong."""
