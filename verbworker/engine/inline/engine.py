"""`InlineEngine`: a whole engine in memory, whose clock is the test's and which misbehaves on request."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from verbworker.engine.embedded.kernel.state import TokenIncident
from verbworker.engine.inline.clock import Clock
from verbworker.engine.inline.faults import Faults, InjectedFault
from verbworker.engine.inline.instances import InlineInstances
from verbworker.engine.inline.jobs import JobState, MemoryJob
from verbworker.engine.protocol import Ask, Deployed, EngineFacts, Resource, Signal, Start, Started, Variables
from verbworker.errors import CommandInvalid, JobGone
from verbworker.job.job import Job


@dataclass(frozen=True, slots=True, eq=False)
class _Stream:
    ask: Ask
    pushed: "asyncio.Queue[MemoryJob]" = field(default_factory=asyncio.Queue)


class InlineEngine:
    """Runs real models on the embedded engine's kernel and keeps a real engine's promises, the weak ones too.

    Like Zeebe it does not fence: whoever knows a job's key may complete or fail it.
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

    # ---- what a test says ---------------------------------------------------------------------------------------

    @property
    def jobs(self) -> Mapping[int, MemoryJob]:
        """Every job that is open, was completed or ended by an error, by its key."""
        return self._instances.jobs.known

    def advance(self, seconds: float) -> None:
        """Let time pass: timers fire in their order, activations end and backoffs are over when their time has come."""
        self._instances.pass_time(self.clock.later(seconds * 1000))
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
        """An operator gives a job new retries and resolves its incident."""
        self._instances.release(self.jobs[job_key], retries)
        self._stir()

    def incidents(self, instance_key: int) -> list[TokenIncident]:
        """What a person is needed for."""
        return list(self._instances.state(instance_key).incidents.values())

    def resolve_incident(self, incident_key: int) -> None:
        """An operator resolves an incident that no job has; raises `JobGone` when there is none."""
        self._instances.resolve(incident_key)
        self._stir()

    def set_variables(self, instance_key: int, variables: Variables) -> None:
        """An operator changes the variables of an instance."""
        self._instances.state(instance_key).variables.update(deepcopy(dict(variables)))

    def lose_answer(self, command: str, times: int = 1) -> None:
        """The next `command` is carried out, but its answer never arrives."""
        self._faults.plan(command, InjectedFault.LOSE, times)

    def drop(self, command: str, times: int = 1) -> None:
        """The next `command` never reaches the engine."""
        self._faults.plan(command, InjectedFault.DROP, times)

    def refuse(self, command: str, times: int = 1) -> None:
        """The engine is too busy for the next `command`."""
        self._faults.plan(command, InjectedFault.REFUSE, times)

    def lose_timeouts(self, lost: bool = True) -> None:
        """No activation ends by itself any more, as on a broker that lost its timeouts (camunda #29735).

        Extending one is accepted and changes nothing; failing it hands the job out at once. With `lost` false the
        broker was restarted: timeouts count again.
        """
        self._faults.loses_timeouts = lost
        self._stir()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return when something holds; it is looked at whenever something happened here."""
        while not holds():
            await self._changed.wait()

    def has_ended(self, instance_key: int) -> bool:
        """Whether an instance came to its end; one that was cancelled did not."""
        return self._instances.has_completed(instance_key)

    def variables(self, instance_key: int) -> dict[str, object]:
        """The variables of an instance as they are now, or were when it ended."""
        return deepcopy(self._instances.state(instance_key).variables)

    # ---- what a worker says -------------------------------------------------------------------------------------

    @property
    def engine_id(self) -> str:
        """The name under which this engine's job keys are unique."""
        return self._engine_id

    async def facts(self) -> EngineFacts:
        """Say what this is."""
        return EngineFacts(version="inline", brokers=1, partitions=1)

    async def deploy(self, resources: Sequence[Resource]) -> list[Deployed]:
        """Read the models; one with an element that is not executed here is refused by its id and line."""
        deployed: list[Deployed] = []
        self._strike("deploy", lambda: deployed.extend(self._instances.shelf.put(resources)))
        return deployed

    async def model(self, definition_key: int) -> bytes | None:
        """The deployed bytes of a definition; None when there is no such definition."""
        return self._instances.shelf.content(definition_key)

    async def start(self, start: Start) -> Started:
        """Create one instance and move it to where it waits."""
        shelved = self._instances.shelf.find(start)
        if not shelved.definition.root.starts:
            raise CommandInvalid(f"{start.process_id} starts by a message only")
        keys: list[int] = []
        self._strike("start", lambda: keys.append(self._instances.begin(shelved, start)))
        return Started(keys[0], shelved.deployed.definition_key, shelved.deployed.process_id, shelved.deployed.version)

    async def activate(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        """Hand out what is ready, or wait for it up to `wait_ms` of real time: the engine's own time is the test's."""
        self._strike("activate", lambda: None)
        await asyncio.sleep(0)  # whoever calls an engine gives way to others
        if wait_ms > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await self.until(lambda: bool(self._instances.jobs.ready(ask.type)))
        ready = self._instances.jobs.ready(ask.type)
        if self.shuffled:
            self._dice.shuffle(ready)
        return [self._hand_out(known, ask) for known in ready[:limit]]

    async def stream(self, ask: Ask) -> AsyncGenerator[Job, None]:
        """Push jobs as they arise. It pushes none that timed out or was given back: poll beside it."""
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

    async def complete(self, job_key: int, variables: Variables) -> None:
        """Complete a job; its instance goes on."""
        self._strike("complete", lambda: self._instances.complete(job_key, variables))

    async def fail(self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0) -> None:
        """Take a job back, or raise an incident when no retry is left."""
        self._strike("fail", lambda: self._instances.fail(job_key, retries, message, backoff_ms))

    async def throw(self, job_key: int, *, code: str, message: str) -> None:
        """End a job by a BPMN error; one that nobody catches is an incident of the job."""
        self._strike("throw", lambda: self._instances.throw(job_key, code, message))

    async def extend(self, job_key: int, timeout_ms: int) -> None:
        """Let an activation end later, or sooner."""
        self._strike("extend", lambda: self._instances.jobs.extend(job_key, timeout_ms))

    async def release(self, job_key: int, *, retries: int, incident_key: int | None = None) -> None:
        """Give a job new retries and resolve its incident, whose key is known here."""
        self._strike("release", lambda: self._instances.release(self._instances.jobs.find(job_key), retries))

    async def publish(self, signal: Signal) -> None:
        """Hand a message to each process that waits for it, and keep it for those who come in its time."""
        self._strike("publish", lambda: self._instances.publish(signal))

    async def correlate(
        self, name: str, correlation_key: str, variables: Variables, *, tenant_id: str | None = None
    ) -> int | None:
        """Hand a message to whoever waits for it now."""
        found: list[int | None] = []
        self._strike("correlate", lambda: found.append(self._instances.correlate(name, correlation_key, variables)))
        return found[0]

    async def cancel(self, instance_key: int) -> None:
        """Cancel an instance: its jobs are gone."""
        self._strike("cancel", lambda: self._instances.cancel(instance_key))

    async def alive(self, instance_key: int) -> bool:
        """Whether an instance is there and has not ended."""
        alive: list[bool] = []
        self._strike("alive", lambda: alive.append(self._instances.is_alive(instance_key)))
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
        try:
            self._faults.strike(command, act)
        finally:
            self._stir()

    def _stir(self) -> None:
        """Have everybody who waits look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _offer(self, known: MemoryJob) -> None:
        for stream in self._streams:
            if stream.ask.type == known.job.type:
                self._hand_out(known, stream.ask)
                stream.pushed.put_nowait(known)
                return

    def _hand_out(self, known: MemoryJob, ask: Ask) -> Job:
        carried = self._instances.state(known.job.process_instance_key).variables
        wanted = {name: carried[name] for name in ask.variables if name in carried} if ask.variables else carried
        return self._instances.jobs.hand_out(known, ask, deepcopy(wanted))

    def _give_back(self, known: MemoryJob) -> None:
        with suppress(JobGone):
            self._instances.jobs.find(known.job.key)
            self.time_out(known.job.key)
