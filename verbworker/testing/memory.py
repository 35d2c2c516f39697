"""An engine in memory that delivers jobs as a real one does: at least once, late, twice, out of order."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import TracebackType
from typing import Self

from verbworker.engine import Ask, Deployed, EngineFacts, Resource, Signal, Start, Started, Variables
from verbworker.errors import Backpressure, CommandInvalid, EngineUnavailable, JobGone, JobNotActive
from verbworker.job import Job

_APART_MS = 1  # every activation gets a millisecond of its own, so that deliveries have an order


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


@dataclass(frozen=True, slots=True, eq=False)
class _Stream:
    ask: Ask
    pushed: "asyncio.Queue[MemoryJob]" = field(default_factory=asyncio.Queue)


@dataclass(slots=True)
class _Instance:
    process_id: str
    variables: dict[str, object]
    line: list[str]
    place: int = 0
    cancelled: bool = False


class MemoryEngine:
    """Runs processes that are a straight line of verbs, and keeps the promises of a real engine, the weak ones too.

    Like Zeebe it does not fence: whoever knows a job's key may complete or fail it.
    """

    def __init__(self, engine_id: str = "memory", *, seed: int = 0) -> None:
        self._engine_id = engine_id
        self._dice = random.Random(seed)
        self._now_ms = int(time.time() * 1000)  # an operator's release is told by comparing with the database
        self._keys = 1000
        self._lines: dict[str, list[str]] = {}
        self._instances: dict[int, _Instance] = {}
        self._faults: dict[str, list[str]] = {}
        self._streams: list[_Stream] = []
        self._changed = asyncio.Event()
        self.jobs: dict[int, MemoryJob] = {}
        self.published: dict[str, Signal] = {}
        self.shuffled = False

    # ---- what a test says ---------------------------------------------------------------------------------------

    def line(self, process_id: str, verbs: Sequence[str]) -> None:
        """Define a process: these verbs, one after the other."""
        self._lines[process_id] = list(verbs)

    def advance(self, seconds: float) -> None:
        """Let time pass: activations end and backoffs are over when their time has come."""
        self._now_ms += int(seconds * 1000)
        self._stir()

    def time_out(self, job_key: int) -> None:
        """End an activation now, as if its worker had been silent for too long."""
        known = self.jobs[job_key]
        if known.state is JobState.ACTIVATED:
            known.state = JobState.ACTIVATABLE
            self._stir()

    def redeliver(self, job_key: int) -> None:
        """Deliver a job again whatever became of it, as an engine restored from a backup does."""
        self.jobs[job_key].state = JobState.ACTIVATABLE
        self._stir()

    def resolve(self, job_key: int, *, retries: int = 3) -> None:
        """An operator resolves the incident of a job."""
        known = self.jobs[job_key]
        known.job = replace(known.job, retries=retries)
        known.state = JobState.ACTIVATABLE
        self._stir()

    def lose_answer(self, command: str, times: int = 1) -> None:
        """The next `command` is carried out, but its answer never arrives."""
        self._faults.setdefault(command, []).extend(["lose"] * times)

    def drop(self, command: str, times: int = 1) -> None:
        """The next `command` never reaches the engine."""
        self._faults.setdefault(command, []).extend(["drop"] * times)

    def refuse(self, command: str, times: int = 1) -> None:
        """The engine is too busy for the next `command`."""
        self._faults.setdefault(command, []).extend(["refuse"] * times)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return when something holds; it is looked at whenever something happened here."""
        while not holds():
            await self._changed.wait()

    def has_ended(self, instance_key: int) -> bool:
        """Whether an instance went through its whole line."""
        return self._instances[instance_key].place >= len(self._instances[instance_key].line)

    def variables(self, instance_key: int) -> dict[str, object]:
        """The variables of an instance as they are now."""
        return dict(self._instances[instance_key].variables)

    # ---- what a worker says -------------------------------------------------------------------------------------

    @property
    def engine_id(self) -> str:
        """The name under which this engine's job keys are unique."""
        return self._engine_id

    async def facts(self) -> EngineFacts:
        """Say what this is."""
        return EngineFacts(version="memory", brokers=1, partitions=1)

    async def deploy(self, resources: Sequence[Resource]) -> list[Deployed]:
        """Models are not read here: define a line instead."""
        raise CommandInvalid("the testing engine runs lines of verbs; call line(process_id, verbs)")

    async def start(self, start: Start) -> Started:
        """Start an instance and offer the job of its first verb."""
        if start.process_id not in self._lines:
            raise CommandInvalid(f"no process {start.process_id} is defined")
        key = self._next_key()
        self._strike("start", lambda: self._start(key, start))
        return Started(instance_key=key, definition_key=1, process_id=start.process_id, version=1)

    async def activate(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        """Hand out what is ready, or wait for it up to `wait_ms` of real time: the engine's own time is the test's."""
        self._strike("activate", lambda: None)
        await asyncio.sleep(0)  # whoever calls an engine gives way to others
        if wait_ms > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await self.until(lambda: bool(self._ready(ask)))
        ready = self._ready(ask)
        if self.shuffled:
            self._dice.shuffle(ready)
        return [self._hand_out(known, ask) for known in ready[:limit]]

    async def stream(self, ask: Ask) -> AsyncGenerator[Job, None]:
        """Push jobs as they arise. Like Zeebe it pushes none that timed out or was given back: poll beside it."""
        self._strike("stream", lambda: None)
        stream = _Stream(ask)
        self._streams.append(stream)
        try:
            while True:
                yield (await stream.pushed.get()).job
        finally:
            self._streams.remove(stream)
            while not stream.pushed.empty():
                self.time_out(stream.pushed.get_nowait().job.key)

    async def complete(self, job_key: int, variables: Variables) -> None:
        """Complete a job; its instance goes on to the next verb."""
        self._strike("complete", lambda: self._complete(job_key, variables))

    async def fail(self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0) -> None:
        """Take a job back, or raise an incident when no retry is left."""
        self._strike("fail", lambda: self._fail(job_key, retries, message, backoff_ms))

    async def throw(self, job_key: int, *, code: str, message: str) -> None:
        """End a job by a BPMN error."""
        self._strike("throw", lambda: self._throw(job_key, code, message))

    async def extend(self, job_key: int, timeout_ms: int) -> None:
        """Let an activation end later, or sooner."""
        self._strike("extend", lambda: self._extend(job_key, timeout_ms))

    async def release(self, job_key: int, *, retries: int, incident_key: int | None = None) -> None:
        """Give a job in an incident new retries and resolve it."""
        self._strike("release", lambda: self.resolve(job_key, retries=retries))

    async def publish(self, signal: Signal) -> None:
        """Lines do not wait for messages: what is published is kept in `published`, once by its id."""
        self._strike("publish", lambda: self._publish(signal))

    async def correlate(
        self, name: str, correlation_key: str, variables: Variables, *, tenant_id: str | None = None
    ) -> int | None:
        """Lines do not wait for messages, so nobody does."""
        self._strike("correlate", lambda: None)
        return None

    async def cancel(self, instance_key: int) -> None:
        """Cancel an instance: its jobs are gone."""
        self._strike("cancel", lambda: self._cancel(instance_key))

    async def alive(self, instance_key: int) -> bool:
        """Whether an instance is neither through its line nor cancelled."""
        alive: list[bool] = []
        self._strike("alive", lambda: alive.append(self._is_alive(instance_key)))
        return alive[0]

    async def __aenter__(self) -> Self:
        """Nothing to open."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to close."""

    # ---- inside -------------------------------------------------------------------------------------------------

    def _strike(self, command: str, act: Callable[[], None]) -> None:
        faults = self._faults.get(command)
        fault = faults.pop(0) if faults else None
        if fault == "drop":
            raise EngineUnavailable("the command was lost")
        if fault == "refuse":
            raise Backpressure("the engine is busy")
        act()
        self._stir()
        if fault == "lose":
            raise EngineUnavailable("the answer was lost")

    def _stir(self) -> None:
        """Have everybody who waits look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _start(self, key: int, start: Start) -> None:
        self._instances[key] = _Instance(start.process_id, dict(start.variables), self._lines[start.process_id])
        self._offer(key)

    def _next_key(self) -> int:
        self._keys += 1
        return self._keys

    def _offer(self, instance_key: int) -> None:
        instance = self._instances[instance_key]
        if instance.place >= len(instance.line):
            return
        key = self._next_key()
        job = Job(
            key=key,
            type=instance.line[instance.place],
            retries=3,
            activated_ms=0,
            timeout_ms=0,
            process_instance_key=instance_key,
            element_instance_key=self._next_key(),
            process_definition_key=1,
            process_version=1,
            process_id=instance.process_id,
            element_id=f"task_{instance.place + 1}",
            tenant_id="<default>",
        )
        self.jobs[key] = known = MemoryJob(job)
        for stream in self._streams:
            if stream.ask.type == job.type:
                self._hand_out(known, stream.ask)
                stream.pushed.put_nowait(known)
                return
        self._stir()

    def _ready(self, ask: Ask) -> list[MemoryJob]:
        return [known for known in self.jobs.values() if known.job.type == ask.type and self._is_ready(known)]

    def _is_ready(self, known: MemoryJob) -> bool:
        timed_out = known.state in (JobState.ACTIVATED, JobState.BACKING_OFF) and self._now_ms >= known.until_ms
        return known.state is JobState.ACTIVATABLE or timed_out

    def _hand_out(self, known: MemoryJob, ask: Ask) -> Job:
        self._now_ms += _APART_MS
        known.state = JobState.ACTIVATED
        known.until_ms = self._now_ms + ask.timeout_ms
        known.deliveries += 1
        carried = self._instances[known.job.process_instance_key].variables
        wanted = {name: carried[name] for name in ask.variables if name in carried}
        known.job = replace(known.job, activated_ms=self._now_ms, timeout_ms=ask.timeout_ms, variables=wanted)
        return known.job

    def _open(self, job_key: int) -> MemoryJob:
        known = self.jobs.get(job_key)
        if known is None or known.state is JobState.COMPLETED:
            raise JobGone(f"no such job: {job_key}")
        if known.state not in (JobState.ACTIVATABLE, JobState.ACTIVATED):
            raise JobNotActive(f"job {job_key} is {known.state}")
        return known

    def _complete(self, job_key: int, variables: Variables) -> None:
        known = self._open(job_key)
        known.state, known.variables = JobState.COMPLETED, dict(variables)
        known.completions += 1
        instance = self._instances[known.job.process_instance_key]
        instance.variables.update(variables)
        if known.completions == 1:
            instance.place += 1
            self._offer(known.job.process_instance_key)

    def _fail(self, job_key: int, retries: int, message: str, backoff_ms: int) -> None:
        known = self._open(job_key)
        known.messages.append(message)
        known.job = replace(known.job, retries=retries)
        known.until_ms = self._now_ms + backoff_ms
        if retries <= 0:
            known.state = JobState.INCIDENT
        else:
            known.state = JobState.BACKING_OFF if backoff_ms else JobState.ACTIVATABLE

    def _throw(self, job_key: int, code: str, message: str) -> None:
        known = self._open(job_key)
        known.state, known.error_code = JobState.THROWN, code
        known.messages.append(message)

    def _extend(self, job_key: int, timeout_ms: int) -> None:
        known = self.jobs.get(job_key)
        if known is None or known.state is JobState.COMPLETED:
            raise JobGone(f"no such job: {job_key}")
        if known.state is not JobState.ACTIVATED or self._now_ms >= known.until_ms:
            raise JobNotActive(f"job {job_key} is not active")
        known.until_ms = self._now_ms + timeout_ms

    def _is_alive(self, instance_key: int) -> bool:
        instance = self._instances.get(instance_key)
        return instance is not None and not instance.cancelled and instance.place < len(instance.line)

    def _publish(self, signal: Signal) -> None:
        self.published.setdefault(signal.message_id, signal)

    def _cancel(self, instance_key: int) -> None:
        if not self._is_alive(instance_key):
            raise JobGone(f"no such instance: {instance_key}")
        self._instances[instance_key].cancelled = True
        for key in [key for key, known in self.jobs.items() if known.job.process_instance_key == instance_key]:
            del self.jobs[key]
