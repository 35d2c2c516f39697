"""`InlineEngine`: a complete engine in memory, with a test-controlled clock and injectable faults."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from verbworker.engine.embedded.kernel.inspection import active_elements, open_incidents
from verbworker.engine.embedded.kernel.scopes import visible_at
from verbworker.engine.inline.clock import Clock
from verbworker.engine.inline.faults import Faults, InjectedFault
from verbworker.engine.inline.instances import InlineInstances
from verbworker.engine.inline.jobs import JobState, MemoryJob
from verbworker.engine.protocol import (
    ActiveElement,
    Ask,
    Deployed,
    EngineFacts,
    EngineIncident,
    Resource,
    Signal,
    Start,
    Started,
    Variables,
)
from verbworker.engine.variables import variables_of
from verbworker.errors import CommandInvalid, JobGone
from verbworker.job.job import Job
from verbworker.job.outcome import JobResult


@dataclass(frozen=True, slots=True, eq=False)
class _Stream:
    ask: Ask
    pushed: "asyncio.Queue[MemoryJob]" = field(default_factory=asyncio.Queue)


class InlineEngine:
    """Runs real models on the embedded engine's kernel, with a real engine's guarantees, including the weak ones.

    Like Zeebe it does not fence: any caller with a job's key may complete or fail it.
    """

    def __init__(self, engine_id: str = "inline", *, clock: Clock | None = None, seed: int = 0) -> None:
        self._engine_id = engine_id
        self._dice = random.Random(seed)
        self.clock = clock or Clock()  # real time at first: an operator's release is compared with the database's
        self._faults = Faults()
        self._instances = InlineInstances(self.clock, self._offer, self._faults)
        self._streams: list[_Stream] = []
        self._changed = asyncio.Event()
        self.shuffled = False

    # ---- test controls -----------------------------------------------------------------------------------------------

    @property
    def jobs(self) -> Mapping[int, MemoryJob]:
        """Every job that is open, completed or ended by an error, by key."""
        return self._instances.jobs.known

    def advance(self, seconds: float) -> None:
        """Advance the clock: timers fire in order, activations and backoffs end when due."""
        self._instances.pass_time(self.clock.later(seconds * 1000))
        self._stir()

    def time_out(self, job_key: int) -> None:
        """End an activation now, as if its worker had been silent for too long."""
        known = self.jobs[job_key]
        if known.state is JobState.ACTIVATED:
            known.state = JobState.ACTIVATABLE
            self._stir()

    def redeliver(self, job_key: int) -> None:
        """Deliver a job again in any state, as an engine restored from a backup does."""
        self.jobs[job_key].state = JobState.ACTIVATABLE
        self._stir()

    def resolve(self, job_key: int, *, retries: int = 3) -> None:
        """Give a job new retries and resolve its incident, as an operator does."""
        self._instances.release(self.jobs[job_key], retries)
        self._stir()

    def set_variables(self, instance_key: int, variables: Variables) -> None:
        """Change the variables of an instance, as an operator does."""
        self._instances.state(instance_key).variables.update(deepcopy(dict(variables)))

    def lose_answer(self, command: str, times: int = 1) -> None:
        """Execute the next `command`, but lose its answer."""
        self._faults.plan(command, InjectedFault.LOSE, times)

    def drop(self, command: str, times: int = 1) -> None:
        """Lose the next `command` before it reaches the engine."""
        self._faults.plan(command, InjectedFault.DROP, times)

    def refuse(self, command: str, times: int = 1) -> None:
        """Reject the next `command` because the engine is busy."""
        self._faults.plan(command, InjectedFault.REFUSE, times)

    def lose_timeouts(self, lost: bool = True) -> None:
        """Stop timing out activations, as a broker that lost its timeouts does (camunda #29735).

        Extending an activation is accepted without effect; failing it makes the job available immediately. `lost=False`
        simulates a broker restart: timeouts work again.
        """
        self._faults.loses_timeouts = lost
        self._stir()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return when `holds()` is true; checked after every change in the engine."""
        while not holds():
            await self._changed.wait()

    def has_ended(self, instance_key: int) -> bool:
        """Return whether an instance completed; a cancelled one did not."""
        return self._instances.has_completed(instance_key)

    def variables(self, instance_key: int) -> dict[str, object]:
        """Return the variables of an instance, current or as of its end."""
        return deepcopy(self._instances.state(instance_key).variables)

    # ---- engine protocol ---------------------------------------------------------------------------------------------

    @property
    def engine_id(self) -> str:
        """The name under which this engine's job keys are unique."""
        return self._engine_id

    async def facts(self) -> EngineFacts:
        """Describe this engine."""
        return EngineFacts(version="inline", brokers=1, partitions=1)

    async def deploy(self, resources: Sequence[Resource]) -> list[Deployed]:
        """Deploy the models; an unsupported element is refused with its id and line."""
        deployed: list[Deployed] = []
        self._strike("deploy", lambda: deployed.extend(self._instances.definitions.put(resources)))
        return deployed

    async def model(self, definition_key: int) -> bytes | None:
        """Return the deployed bytes of a definition; None if it does not exist."""
        return self._instances.definitions.content(definition_key)

    async def start(self, start: Start) -> Started:
        """Create an instance and move it to its first wait."""
        model = self._instances.definitions.find(start)
        if not model.definition.root.starts:
            raise CommandInvalid(f"{start.process_id} starts by a message only")
        keys: list[int] = []
        self._strike("start", lambda: keys.append(self._instances.begin(model, start)))
        return Started(keys[0], model.deployed.definition_key, model.deployed.process_id, model.deployed.version)

    async def activate(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        """Activate available jobs, waiting up to `wait_ms` of real time: the engine's own clock is the test's."""
        self._strike("activate", lambda: None)
        await asyncio.sleep(0)  # yield to other tasks, as every engine call does
        if wait_ms > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await self.until(lambda: bool(self._instances.jobs.ready(ask.type)))
        ready = self._instances.jobs.ready(ask.type)
        if self.shuffled:
            self._dice.shuffle(ready)
        return [self._hand_out(known, ask) for known in ready[:limit]]

    async def stream(self, ask: Ask) -> AsyncGenerator[Job, None]:
        """Push jobs as they are created. Jobs that timed out or were given back are not pushed: poll as well."""
        self._strike("stream", lambda: None)
        stream = _Stream(ask)
        self._streams.append(stream)
        try:
            while True:
                yield (await stream.pushed.get()).job
        finally:
            self._streams.remove(stream)
            while not stream.pushed.empty():
                self._give_back(stream.pushed.get_nowait())

    async def complete(self, job_key: int, result: JobResult, *, lease_token: str | None = None) -> None:
        """Complete a job and continue its instance."""
        self._strike("complete", lambda: self._instances.complete(job_key, variables_of(result)))

    async def fail(
        self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0, lease_token: str | None = None
    ) -> None:
        """Give a job back, or raise an incident if no retries are left."""
        self._strike("fail", lambda: self._instances.fail(job_key, retries, message, backoff_ms))

    async def throw(self, job_key: int, *, code: str, message: str, lease_token: str | None = None) -> None:
        """End a job with a BPMN error; an uncaught one is an incident of the job."""
        self._strike("throw", lambda: self._instances.throw(job_key, code, message))

    async def extend(self, job_key: int, timeout_ms: int, *, lease_token: str | None = None) -> None:
        """Set an activation to expire later, or sooner."""
        self._strike("extend", lambda: self._instances.jobs.extend(job_key, timeout_ms))

    async def release(self, job_key: int, *, retries: int, incident_key: int | None = None) -> None:
        """Give a job new retries and resolve its incident, whose key is known here."""
        self._strike("release", lambda: self._instances.release(self._instances.jobs.find(job_key), retries))

    async def resolve_incident(self, incident_key: int) -> None:
        """Resolve an incident; raises `JobGone` if it does not exist."""
        self._strike("resolve_incident", lambda: self._instances.resolve(incident_key))

    async def set_flags(self, instance_key: int, flags: Variables) -> None:
        """Set flags of an instance; raises `JobGone` if it has ended."""
        if not self._instances.is_alive(instance_key):
            raise JobGone(f"no such instance: {instance_key}")
        self._strike("set_flags", lambda: self.set_variables(instance_key, flags))

    async def incidents(self, instance_keys: Sequence[int] = ()) -> list[EngineIncident]:
        """Return the open incidents of these instances, or of all without keys. Never lags."""
        self._strike("incidents", lambda: None)
        states = self._instances.find_alive(instance_keys)
        return [incident for definition, state in states for incident in open_incidents(definition, state)]

    async def waits(self, instance_key: int) -> list[ActiveElement]:
        """Return where the tokens of an instance are; none if it has ended."""
        self._strike("waits", lambda: None)
        states = self._instances.find_alive([instance_key])
        return [element for definition, state in states for element in active_elements(definition, state)]

    async def publish(self, signal: Signal) -> None:
        """Deliver a message to each subscribed process, and buffer it for later subscribers until its TTL ends."""
        self._strike("publish", lambda: self._instances.publish(signal))

    async def correlate(
        self, name: str, correlation_key: str, variables: Variables, *, tenant_id: str | None = None
    ) -> int | None:
        """Deliver a message to its current subscribers."""
        found: list[int | None] = []
        self._strike("correlate", lambda: found.append(self._instances.correlate(name, correlation_key, variables)))
        return found[0]

    async def cancel(self, instance_key: int) -> None:
        """Cancel an instance and remove its jobs."""
        self._strike("cancel", lambda: self._instances.cancel(instance_key))

    async def alive(self, instance_key: int) -> bool:
        """Return whether an instance exists and has not ended."""
        alive: list[bool] = []
        self._strike("alive", lambda: alive.append(self._instances.is_alive(instance_key)))
        return alive[0]

    async def __aenter__(self) -> Self:
        """Do nothing: there is nothing to open."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: there is nothing to close."""

    # ---- internals ---------------------------------------------------------------------------------------------------

    def _strike(self, command: str, act: Callable[[], None]) -> None:
        try:
            self._faults.strike(command, act)
        finally:
            self._stir()

    def _stir(self) -> None:
        """Wake all waiters to check again."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _offer(self, known: MemoryJob) -> None:
        for stream in self._streams:
            if stream.ask.type == known.job.type:
                self._hand_out(known, stream.ask)
                stream.pushed.put_nowait(known)
                return

    def _hand_out(self, known: MemoryJob, ask: Ask) -> Job:
        state = self._instances.state(known.job.process_instance_key)
        carried = visible_at(state, known.job.element_instance_key)
        wanted = {name: carried[name] for name in ask.variables if name in carried} if ask.variables else carried
        return self._instances.jobs.hand_out(known, ask, deepcopy(wanted))

    def _give_back(self, known: MemoryJob) -> None:
        with suppress(JobGone):
            self._instances.jobs.find(known.job.key)
            self.time_out(known.job.key)
