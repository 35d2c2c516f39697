"""Instances in memory: each command is one kernel step, whose effects are applied immediately."""

from collections import deque
from collections.abc import Callable, Collection
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime

from verbworker.engine.embedded.kernel import commands as told
from verbworker.engine.embedded.kernel.commands import Command, Effect, TargetMissing
from verbworker.engine.embedded.kernel.definition import Definition
from verbworker.engine.embedded.kernel.state import InstanceStatus, State
from verbworker.engine.embedded.kernel.step import step
from verbworker.engine.inline.clock import Clock, Timers
from verbworker.engine.inline.definitions import InlineDefinition, InlineDefinitions
from verbworker.engine.inline.faults import Faults
from verbworker.engine.inline.jobs import Jobs, JobState, MemoryJob
from verbworker.engine.inline.messages import BufferedMessage, InlineMessages, Subscription
from verbworker.engine.protocol import Signal, Start, Variables
from verbworker.errors import CommandInvalid, JobGone, JobNotActive
from verbworker.job.job import Job

_KEYS_EACH = 20  # bits: the kernel numbers an instance's elements after the instance's own key
_TENANT = "<default>"


@dataclass(slots=True)
class _Instance:
    model: InlineDefinition
    state: State
    tenant_id: str
    message: BufferedMessage | None = None  # the message that started it


class InlineInstances:
    """Every instance ever created, with its jobs, timers and messages."""

    def __init__(self, clock: Clock, offer: Callable[[MemoryJob], None], faults: Faults) -> None:
        self._clock = clock
        self._offer = offer
        self._known: dict[int, _Instance] = {}
        self._timers = Timers()
        self._messages = InlineMessages(clock)
        self._new_waits: deque[Subscription] = deque()
        self._ended: deque[_Instance] = deque()
        self.jobs = Jobs(clock, faults)
        self.definitions = InlineDefinitions()

    def state(self, instance_key: int) -> State:
        """Return the state of an instance; raises `JobGone` if it never existed."""
        if instance_key not in self._known:
            raise JobGone(f"no such instance: {instance_key}")
        return self._known[instance_key].state

    def find_alive(self, instance_keys: Collection[int]) -> list[tuple[Definition, State]]:
        """Return those of these instances that have not ended; all of them without keys."""
        keys = [key for key in instance_keys or self._known if self.is_alive(key)]
        return [(self._known[key].model.definition, self._known[key].state) for key in keys]

    def is_alive(self, instance_key: int) -> bool:
        """Return whether an instance has not ended."""
        return instance_key in self._known and self.state(instance_key).status is InstanceStatus.ACTIVE

    def has_completed(self, instance_key: int) -> bool:
        """Return whether an instance completed."""
        return self.state(instance_key).status is InstanceStatus.COMPLETED

    # ---- commands ---------------------------------------------------------------------------------------------------

    def begin(self, model: InlineDefinition, start: Start) -> int:
        """Create an instance and return its key."""
        key = self._create(model, start.tenant_id or _TENANT)
        self._tell(key, told.Begin(deepcopy(dict(start.variables))))
        self._settle()
        return key

    def pass_time(self, until: datetime) -> None:
        """Fire every timer due by `until`, each at its own time."""
        while (due := self._timers.next(until)) is not None:
            at, wait, instance = due
            self._clock.move(at)
            self._tell(instance, told.Fire(wait))
            self._settle()
        self._clock.move(until)

    def complete(self, job_key: int, variables: Variables) -> None:
        """Complete a job; completing a redelivered one moves nothing."""
        known = self.jobs.open(job_key)
        known.state, known.variables = JobState.COMPLETED, dict(variables)
        known.completions += 1
        if known.completions == 1:
            self._tell(known.job.process_instance_key, told.CompleteJob(job_key, deepcopy(dict(variables))))
            self._settle()

    def fail(self, job_key: int, retries: int, message: str, backoff_ms: int) -> None:
        """Give a job back with these retries."""
        known = self.jobs.open(job_key)
        self.jobs.fail(known, retries, message, backoff_ms)
        if known.is_ghost:
            return
        command = told.FailJob(job_key, retries, backoff_ms) if retries > 0 else told.ExhaustJob(job_key, message)
        self._tell(known.job.process_instance_key, command)

    def throw(self, job_key: int, code: str, message: str) -> None:
        """End a job with an error; if uncaught, the job is held."""
        known = self.jobs.open(job_key)
        if not known.is_ghost:
            self._tell(known.job.process_instance_key, told.ThrowError(job_key, code, message))
            known.is_caught = job_key not in self.jobs.known
        self.jobs.known[job_key] = known
        known.state, known.error_code = JobState.THROWN, code
        known.messages.append(message)
        self._settle()

    def release(self, known: MemoryJob, retries: int) -> None:
        """Give a job new retries, and free it if it is held."""
        if retries <= 0:
            raise CommandInvalid(f"a job needs more than {retries} retries")
        known.job = replace(known.job, retries=retries)
        if known.state not in (JobState.INCIDENT, JobState.THROWN):
            return
        known.state = JobState.ACTIVATABLE
        for incident in list(self.state(known.job.process_instance_key).incidents.values()):
            if incident.job == known.job.key:
                self.resolve(incident.key)

    def resolve(self, incident_key: int) -> None:
        """Resolve an incident so that its token or job tries again."""
        for key, instance in self._known.items():
            if incident_key in instance.state.incidents:
                self._tell(key, told.Resolve(incident_key))
                self._settle()
                return
        raise JobGone(f"no such incident: {incident_key}")

    def cancel(self, instance_key: int) -> None:
        """End an instance in its current state."""
        if not self.is_alive(instance_key):
            raise JobGone(f"no such instance: {instance_key}")
        self._tell(instance_key, told.Cancel())
        self._settle()

    def publish(self, signal: Signal) -> None:
        """Deliver a message and buffer it until its TTL ends; repeating a buffered one does nothing."""
        if self._messages.has(signal):
            return
        variables = deepcopy(dict(signal.variables))
        deadline = self._clock.later(signal.ttl_ms)
        message = BufferedMessage(signal.name, signal.correlation_key, variables, signal.message_id, deadline)
        if signal.ttl_ms > 0:
            self._messages.keep(message)
        self._hand_over(message)
        self._settle()

    def correlate(self, name: str, correlation_key: str, variables: Variables) -> int | None:
        """Deliver a message to current subscribers; return an instance that received it."""
        reached = self._hand_over(BufferedMessage(name, correlation_key, deepcopy(dict(variables))))
        self._settle()
        return reached

    # ---- internals ---------------------------------------------------------------------------------------------------

    def _create(self, model: InlineDefinition, tenant_id: str, message: BufferedMessage | None = None) -> int:
        key = (len(self._known) + 1) << _KEYS_EACH
        self._known[key] = _Instance(model, State(key), tenant_id, message)
        return key

    def _tell(self, instance_key: int, command: Command) -> None:
        instance = self._known[instance_key]
        try:
            instance.state, effects = step(instance.model.definition, instance.state, command, self._clock.now)
        except TargetMissing as error:
            # Only one command finds its job and is still refused: an error thrown from a listener.
            kind = JobNotActive if isinstance(command, told.ThrowError) else JobGone
            raise kind(str(error)) from error
        for effect in effects:
            self._heed(instance, effect)

    def _heed(self, instance: _Instance, effect: Effect) -> None:
        match effect:
            case told.JobCreated():
                self._make(instance, effect)
            case told.JobEnded(key):
                self.jobs.drop(key)
            case told.JobFreed(key):
                self.jobs.known[key].state = JobState.ACTIVATABLE
            case told.TimerSet(key, due):
                self._timers.set(key, due, instance.state.instance_key)
            case told.Subscribed(key, message, correlation_key):
                process_id = instance.model.definition.process_id
                wait = Subscription(key, instance.state.instance_key, process_id, message, correlation_key)
                self._messages.subscriptions[key] = wait
                self._new_waits.append(wait)
            case told.WaitClosed(key):
                self._timers.close(key)
                self._messages.subscriptions.pop(key, None)
            case told.Ended():
                self._ended.append(instance)

    def _make(self, instance: _Instance, made: told.JobCreated) -> None:
        deployed = instance.model.deployed
        job = Job(
            key=made.key,
            type=made.type,
            retries=made.retries,
            activated_ms=0,
            timeout_ms=0,
            process_instance_key=instance.state.instance_key,
            element_instance_key=made.element_instance,
            process_definition_key=deployed.definition_key,
            process_version=deployed.version,
            process_id=deployed.process_id,
            element_id=made.node or deployed.process_id,
            tenant_id=instance.tenant_id,
            headers=made.headers,
        )
        self.jobs.known[made.key] = known = MemoryJob(job)
        self._offer(known)

    def _settle(self) -> None:
        """Fire due timers, deliver buffered messages to new waits, and run starts that waited for an end."""
        while True:
            if self._new_waits:
                self._read_letters(self._new_waits.popleft())
            elif self._ended:
                self._start_next(self._ended.popleft())
            elif (due := self._timers.next(self._clock.now)) is not None:
                self._tell(due[2], told.Fire(due[1]))
            else:
                return

    def _read_letters(self, wait: Subscription) -> None:
        while wait.wait in self._messages.subscriptions:
            message = self._messages.find_kept(wait.process_id, wait.name, wait.correlation_key)
            if message is None:
                return
            self._deliver(message, wait)

    def _deliver(self, message: BufferedMessage, wait: Subscription) -> None:
        message.reached.add(wait.process_id)
        self._tell(wait.instance, told.Deliver(wait.wait, deepcopy(dict(message.variables))))

    def _hand_over(self, message: BufferedMessage) -> int | None:
        """Deliver a message to one wait per process, or start one; return an instance, a started one first."""
        reached: list[int] = []
        for wait in self._messages.waiting(message):
            if wait.process_id not in message.reached and wait.wait in self._messages.subscriptions:
                self._deliver(message, wait)
                reached.append(wait.instance)
        for model in self.definitions.latest():
            started = self._start_by(message, model)
            if started is not None:
                reached.insert(0, started)
        return reached[0] if reached else None

    def _start_by(self, message: BufferedMessage, model: InlineDefinition) -> int | None:
        process_id = model.deployed.process_id
        start = next((node for node, m in model.definition.message_starts.items() if m.name == message.name), None)
        if start is None or process_id in message.reached or self._is_taken(process_id, message):
            return None
        message.reached.add(process_id)
        key = self._create(model, _TENANT, message)
        self._tell(key, told.Begin(deepcopy(dict(message.variables)), start))
        return key

    def _is_taken(self, process_id: str, message: BufferedMessage) -> bool:
        """Return whether an instance started by this key is alive: one at a time, except for the empty key."""
        return bool(message.correlation_key) and any(
            instance.message is not None
            and instance.message.correlation_key == message.correlation_key
            and instance.model.deployed.process_id == process_id
            and instance.state.status is InstanceStatus.ACTIVE
            for instance in self._known.values()
        )

    def _start_next(self, ended: _Instance) -> None:
        if ended.message is None:
            return
        process_id = ended.model.deployed.process_id
        latest = next(known for known in self.definitions.latest() if known.deployed.process_id == process_id)
        for awaited in latest.definition.message_starts.values():
            message = self._messages.find_kept(process_id, awaited.name, ended.message.correlation_key)
            if message is not None and self._start_by(message, latest) is not None:
                return
