"""The jobs of an inline engine: their states, activations and results."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from verbworker.engine.inline.clock import Clock
from verbworker.engine.inline.faults import Faults
from verbworker.engine.protocol import Ask, Variables
from verbworker.errors import JobGone, JobNotActive
from verbworker.job.job import Job

_APART_MS = 1  # each activation gets its own millisecond, so that deliveries have an order
_WAITS_FOR_TIME = ("activated", "backing off")


class JobState(StrEnum):
    """A job's state in the engine."""

    ACTIVATABLE = "activatable"
    ACTIVATED = "activated"
    BACKING_OFF = "backing off"
    INCIDENT = "incident"
    THROWN = "thrown"
    COMPLETED = "completed"


@dataclass(slots=True)
class MemoryJob:
    """A job and everything reported about it."""

    job: Job
    state: JobState = JobState.ACTIVATABLE
    until_ms: int = 0
    deliveries: int = 0
    variables: dict[str, object] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    completions: int = 0
    error_code: str | None = None
    is_caught: bool = False  # the model caught its error

    @property
    def is_ghost(self) -> bool:
        """Whether it was done before: its instance has moved on, and later reports have no effect."""
        return self.completions > 0 or self.is_caught

    @property
    def is_done(self) -> bool:
        """Whether workers get `JobGone` for it."""
        return self.state is JobState.COMPLETED or (self.state is JobState.THROWN and self.is_caught)


class Jobs:
    """Every job that is open, completed or ended by an error, by key."""

    def __init__(self, clock: Clock, faults: Faults) -> None:
        self._clock = clock
        self._faults = faults
        self.known: dict[int, MemoryJob] = {}

    def ready(self, kind: str) -> list[MemoryJob]:
        """Return the jobs of a type that can be activated, oldest first."""
        return [known for known in self.known.values() if known.job.type == kind and self._is_ready(known)]

    def hand_out(self, known: MemoryJob, ask: Ask, variables: Variables) -> Job:
        """Activate a job for a worker."""
        self._clock.move(self._clock.later(_APART_MS))
        now_ms = self._clock.now_ms
        known.state = JobState.ACTIVATED
        known.until_ms = now_ms + ask.timeout_ms
        known.deliveries += 1
        known.job = replace(known.job, activated_ms=now_ms, timeout_ms=ask.timeout_ms, variables=variables)
        return known.job

    def find(self, job_key: int) -> MemoryJob:
        """Return a job that is not done; raises `JobGone`."""
        known = self.known.get(job_key)
        if known is None or known.is_done:
            raise JobGone(f"no such job: {job_key}")
        return known

    def open(self, job_key: int) -> MemoryJob:
        """Return a job that any worker may report on; raises `JobGone` and `JobNotActive`."""
        known = self.find(job_key)
        if known.state is not JobState.ACTIVATED and not self._is_ready(known):
            raise JobNotActive(f"job {job_key} is {known.state}")
        return known

    def extend(self, job_key: int, timeout_ms: int) -> None:
        """Set an activation to expire later, or sooner; one that has ended is not active."""
        known = self.find(job_key)
        if known.state is not JobState.ACTIVATED or self._is_ready(known):
            raise JobNotActive(f"job {job_key} is not active")
        if not self._faults.loses_timeouts:
            known.until_ms = self._clock.now_ms + timeout_ms

    def fail(self, known: MemoryJob, retries: int, message: str, backoff_ms: int) -> None:
        """Give a job back with these retries; with zero it stays in an incident."""
        known.messages.append(message)
        known.job = replace(known.job, retries=retries)
        known.until_ms = self._clock.now_ms + backoff_ms
        if retries <= 0:
            known.state = JobState.INCIDENT
        else:
            known.state = JobState.BACKING_OFF if backoff_ms > 0 else JobState.ACTIVATABLE

    def drop(self, job_key: int) -> None:
        """Remove a job whose token is gone; one that was done is kept."""
        known = self.known.get(job_key)
        if known is not None and not known.is_ghost:
            del self.known[job_key]

    def _is_ready(self, known: MemoryJob) -> bool:
        if known.state is JobState.ACTIVATED and self._faults.loses_timeouts:
            return False
        is_over = known.state in _WAITS_FOR_TIME and self._clock.now_ms >= known.until_ms
        return known.state is JobState.ACTIVATABLE or is_over
