"""The jobs of an engine in memory: who has which, until when, and what was said about them."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from verbworker.engine.inline.clock import Clock
from verbworker.engine.inline.faults import Faults
from verbworker.engine.protocol import Ask, Variables
from verbworker.errors import JobGone, JobNotActive
from verbworker.job.job import Job

_APART_MS = 1  # every activation gets a millisecond of its own, so that deliveries have an order
_WAITS_FOR_TIME = ("activated", "backing off")


class JobState(StrEnum):
    """Where a job stands in the engine."""

    ACTIVATABLE = "activatable"
    ACTIVATED = "activated"
    BACKING_OFF = "backing off"
    INCIDENT = "incident"
    THROWN = "thrown"
    COMPLETED = "completed"


@dataclass(slots=True)
class MemoryJob:
    """One job and everything that was said about it."""

    job: Job
    state: JobState = JobState.ACTIVATABLE
    until_ms: int = 0
    deliveries: int = 0
    variables: dict[str, object] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    completions: int = 0
    error_code: str | None = None
    is_caught: bool = False  # its error was caught by the model

    @property
    def is_ghost(self) -> bool:
        """Whether it was done before: its instance has gone on, and nothing said about it matters there."""
        return self.completions > 0 or self.is_caught

    @property
    def is_done(self) -> bool:
        """Whether a worker is told that there is no such job any more."""
        return self.state is JobState.COMPLETED or (self.state is JobState.THROWN and self.is_caught)


class Jobs:
    """Every job that is open, was completed or ended by an error, by its key."""

    def __init__(self, clock: Clock, faults: Faults) -> None:
        self._clock = clock
        self._faults = faults
        self.known: dict[int, MemoryJob] = {}

    def ready(self, kind: str) -> list[MemoryJob]:
        """The jobs of a type that may be handed out, the oldest first."""
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
        """A job that is not done; raises `JobGone`."""
        known = self.known.get(job_key)
        if known is None or known.is_done:
            raise JobGone(f"no such job: {job_key}")
        return known

    def open(self, job_key: int) -> MemoryJob:
        """A job that a worker may answer for, whoever has it; raises `JobGone` and `JobNotActive`."""
        known = self.find(job_key)
        if known.state is not JobState.ACTIVATED and not self._is_ready(known):
            raise JobNotActive(f"job {job_key} is {known.state}")
        return known

    def extend(self, job_key: int, timeout_ms: int) -> None:
        """Let an activation end later, or sooner; one that has ended is not active."""
        known = self.find(job_key)
        if known.state is not JobState.ACTIVATED or self._is_ready(known):
            raise JobNotActive(f"job {job_key} is not active")
        if not self._faults.loses_timeouts:
            known.until_ms = self._clock.now_ms + timeout_ms

    def fail(self, known: MemoryJob, retries: int, message: str, backoff_ms: int) -> None:
        """Take a job back with these retries; with none it stays in an incident."""
        known.messages.append(message)
        known.job = replace(known.job, retries=retries)
        known.until_ms = self._clock.now_ms + backoff_ms
        if retries <= 0:
            known.state = JobState.INCIDENT
        else:
            known.state = JobState.BACKING_OFF if backoff_ms > 0 else JobState.ACTIVATABLE

    def drop(self, job_key: int) -> None:
        """Forget a job whose token is gone; one that was done is remembered."""
        known = self.known.get(job_key)
        if known is not None and not known.is_ghost:
            del self.known[job_key]

    def _is_ready(self, known: MemoryJob) -> bool:
        if known.state is JobState.ACTIVATED and self._faults.loses_timeouts:
            return False
        is_over = known.state in _WAITS_FOR_TIME and self._clock.now_ms >= known.until_ms
        return known.state is JobState.ACTIVATABLE or is_over
