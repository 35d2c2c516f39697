"""A model of the engine: at least once, without fences, and able to lose what it said it had.

Commands change the state and are noted, with the state before each. A crash takes back the last few: some are carried
out again, under other keys, as a broker does that answered before its records were committed (camunda #59177).
A job whose timeout is lost stays activated until it is failed or the engine restarts (camunda #29735).
"""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from tests.simulator.decisions import Decisions
from tests.simulator.loop import Loop
from tests.simulator.shapes import DEFINITION_KEYS, SHAPES, TENANT, Node, Shape
from tests.simulator.store import EPOCH
from verbworker.engine.protocol import Signal
from verbworker.errors import CommandInvalid, JobGone, JobNotActive
from verbworker.job.job import Job
from verbworker.model.weave import PARK, UNPARK

_EPOCH_MS = int(EPOCH.timestamp() * 1000)
_REMEMBERED = 12

_KEYS_OF_A_START = 3  # of an instance, its first element and the job of that


@dataclass(frozen=True, slots=True)
class ModelJob:
    """One job: who may have it, and where its token stands."""

    key: int
    type: str
    instance: int
    element: int  # the element instance
    node: str
    state: str = "ready"  # ready, active, backoff, incident
    retries: int = 3
    until: float = 0.0
    activated_ms: int = 0
    activation: int = 0
    is_timeout_lost: bool = False
    message: str = ""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A wait for a message."""

    instance: int
    element: int
    node: str
    name: str
    key: str


@dataclass(frozen=True, slots=True)
class Letter:
    """A published message: kept for whoever comes in its time, and so that a repetition is known."""

    name: str
    key: str
    message_id: str
    until: float
    is_taken: bool = False


@dataclass(slots=True)
class State:
    """Everything the engine has, in values that are never changed, so that a copy of the maps is a snapshot."""

    instances: dict[int, tuple[str, Mapping[str, object]]] = field(default_factory=dict)
    arrived: dict[tuple[int, str], int] = field(default_factory=dict)
    jobs: dict[int, ModelJob] = field(default_factory=dict)
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    letters: tuple[Letter, ...] = ()
    next_key: int = 1

    def snapshot(self) -> "State":
        """The same, which later commands do not change."""
        taken = copy(self)
        taken.instances, taken.jobs = dict(self.instances), dict(self.jobs)
        taken.arrived, taken.subscriptions = dict(self.arrived), dict(self.subscriptions)
        return taken


@dataclass(frozen=True, slots=True)
class Record:
    """A command that was carried out, and the state before it."""

    words: str
    act: Callable[[], object]
    before: State
    at: float


class EngineModel:
    """One engine. Whoever takes jobs registers a taker for their types."""

    def __init__(self, loop: Loop, decisions: Decisions, *, told: Callable[[str], None]) -> None:
        self._loop = loop
        self._decisions = decisions
        self._told = told
        self.state = State()
        self.timeout_losses: tuple[tuple[str, float, float], ...] = ()
        self.choose: Callable[[str], Callable[[Job], None] | None] = lambda kind: None
        self.published: set[tuple[str, str]] = set()  # correlation key and message id
        self.owner_of: Callable[[int], UUID | None] = lambda job_key: None  # whose step a verdict is, by its frame
        self.has_foreign_verdict = False  # a job was completed with the verdict of another instance's
        self._records: list[Record] = []
        self._highest = 0

    # ---- commands ---------------------------------------------------------------------------------------------------

    def _do(self, words: str, act: Callable[[], Any]) -> Any:
        """Carry a command out and note it; one that is refused changes nothing."""
        before = self.state.snapshot()
        answer = act()
        self._records = [*self._records[-_REMEMBERED:], Record(words, act, before, self._loop.now)]
        return answer

    def _key(self) -> int:
        key = self.state.next_key
        self.state.next_key = key + 1
        self._highest = max(self._highest, key)
        return key

    def start(self, process: str, variables: Mapping[str, object]) -> int:
        """Create an instance; its key."""
        key: int = self._do(f"start {process}", lambda: self._start(process, variables))
        return key

    def _start(self, process: str, variables: Mapping[str, object]) -> int:
        if process not in SHAPES:
            raise CommandInvalid(f"no process {process}")
        key = self._key()
        self.state.instances[key] = (process, dict(variables))
        self._told(f"engine: instance {key} of {process} begins")
        self._enter(key, SHAPES[process], SHAPES[process].start)
        return key

    def complete(self, job_key: int, variables: Mapping[str, object]) -> None:
        """Complete a job, whoever has it."""
        self._do(f"complete {job_key}", lambda: self._complete(job_key, variables))

    def _complete(self, job_key: int, variables: Mapping[str, object]) -> None:
        job = self._answerable(job_key)
        process, carried = self.state.instances[job.instance]
        owner = self.owner_of(job_key)
        self.has_foreign_verdict |= owner is not None and str(owner) != str(carried["vw_instance_uid"])
        if variables:
            self.state.instances[job.instance] = (process, {**carried, **variables})
        del self.state.jobs[job_key]
        self._told(f"engine: job {job_key} ({job.type} at {job.node} of {job.instance}) is completed")
        self._go_on(job, SHAPES[process])

    def fail(self, job_key: int, retries: int, message: str, backoff_ms: int) -> None:
        """Take a job back, or raise an incident."""
        self._do(f"fail {job_key}", lambda: self._fail(job_key, retries, message, backoff_ms))

    def _fail(self, job_key: int, retries: int, message: str, backoff_ms: int) -> None:
        job = self._answerable(job_key)
        state = "incident" if retries <= 0 else "backoff" if backoff_ms > 0 else "ready"
        self._told(f"engine: job {job_key} fails with {retries} left, {state}: {message[:90]}")
        until = self._loop.now + backoff_ms / 1000
        self._put(replace(job, state=state, retries=retries, until=until, is_timeout_lost=False, message=message))

    def throw(self, job_key: int, code: str, message: str) -> None:
        """A business error that the models here do not catch."""
        self._do(f"throw {job_key}", lambda: self._fail(job_key, 0, f"{code}: {message}", 0))

    def extend(self, job_key: int, timeout_ms: int) -> None:
        """Change a timeout; one whose timer was lost is changed in vain."""
        job = self._job(job_key)
        if job.state != "active":
            raise JobNotActive(f"job {job_key} is {job.state}")
        self._put(replace(job, until=self._loop.now + timeout_ms / 1000))

    def publish(self, signal: Signal) -> None:
        """Hand a message to whoever waits, and keep it."""
        self._do(f"publish {signal.message_id}", lambda: self._publish(signal))

    def _publish(self, signal: Signal) -> None:
        now = self._loop.now
        alive = tuple(letter for letter in self.state.letters if letter.until > now)
        wanted = (signal.name, signal.correlation_key, signal.message_id)
        if any((letter.name, letter.key, letter.message_id) == wanted for letter in alive):
            return  # the gateway says "already exists", which counts as published
        self.published.add((signal.correlation_key, signal.message_id))
        self._told(f"engine: message {signal.message_id} for {signal.correlation_key}")
        letter = Letter(signal.name, signal.correlation_key, signal.message_id, now + signal.ttl_ms / 1000)
        self.state.letters = (*alive, letter)
        self._deliver()

    def _deliver(self) -> None:
        """Hand each kept message to the first that waits for it."""
        for element, waiting in list(self.state.subscriptions.items()):
            for letter in self.state.letters:
                is_there = not letter.is_taken and letter.until > self._loop.now
                if is_there and (letter.name, letter.key) == (waiting.name, waiting.key):
                    self.state.letters = tuple(
                        replace(one, is_taken=True) if one is letter else one for one in self.state.letters
                    )
                    del self.state.subscriptions[element]
                    self._told(f"engine: message {letter.message_id} ends the wait at {waiting.node}")
                    self._add_job(waiting.instance, waiting.element, waiting.node, UNPARK)
                    break

    def cancel(self, instance: int) -> None:
        """End an instance and all it has."""
        self._do(f"cancel {instance}", lambda: self._cancel(instance))

    def _cancel(self, instance: int) -> None:
        if instance not in self.state.instances:
            raise JobGone(f"no instance {instance}")
        self._told(f"engine: instance {instance} is cancelled")
        self._end(instance)

    def alive(self, instance: int) -> bool:
        """Whether an instance is there."""
        return instance in self.state.instances

    # ---- tokens -----------------------------------------------------------------------------------------------------

    def _enter(self, instance: int, shape: Shape, id: str) -> None:
        node = shape.nodes[id]
        match node.kind:
            case "task" | "gate" | "end":
                self._add_job(instance, self._key(), id, node.type)
            case "message":
                self._add_job(instance, self._key(), id, PARK)
            case "fork":
                for target in node.next:
                    self._enter(instance, shape, target)
            case "join":
                self._join(instance, shape, node)
            case "choice":
                carried = self.state.instances[instance][1]
                self._enter(instance, shape, node.next[0 if carried.get(node.type) is True else 1])

    def _join(self, instance: int, shape: Shape, node: Node) -> None:
        place = (instance, node.id)
        arrived = self.state.arrived.get(place, 0) + 1
        self.state.arrived[place] = arrived
        if arrived == sum(node.id in other.next for other in shape.nodes.values()):
            del self.state.arrived[place]
            self._enter(instance, shape, node.next[0])

    def _go_on(self, job: ModelJob, shape: Shape) -> None:
        node = shape.nodes[job.node]
        if node.kind == "end":
            self._told(f"engine: instance {job.instance} is completed")
            self._end(job.instance)
        elif job.type == PARK:
            key = str(self.state.instances[job.instance][1].get("corr_number", ""))
            self.state.subscriptions[job.element] = Subscription(job.instance, job.element, job.node, node.type, key)
            self._deliver()
        else:
            self._enter(job.instance, shape, node.next[0])

    def _end(self, instance: int) -> None:
        state = self.state
        del state.instances[instance]
        state.jobs = {key: job for key, job in state.jobs.items() if job.instance != instance}
        state.subscriptions = {key: one for key, one in state.subscriptions.items() if one.instance != instance}
        state.arrived = {place: count for place, count in state.arrived.items() if place[0] != instance}

    # ---- jobs -------------------------------------------------------------------------------------------------------

    def _job(self, job_key: int) -> ModelJob:
        job = self.state.jobs.get(job_key)
        if job is None:
            raise JobGone(f"no job {job_key}")
        return job

    def _answerable(self, job_key: int) -> ModelJob:
        job = self._job(job_key)
        if job.state in ("incident", "backoff"):
            raise JobNotActive(f"job {job_key} is in {job.state}")
        return job

    def _add_job(self, instance: int, element: int, node: str, type: str) -> None:
        retries = 100 if type.startswith("verbworker.") else 3
        self._put(ModelJob(self._key(), type, instance, element, node, retries=retries))

    def _put(self, job: ModelJob) -> None:
        """Keep a job as it is now, and see to it that it is handed out when its time comes."""
        self.state.jobs[job.key] = job
        self._watch(job)

    def _watch(self, job: ModelJob) -> None:
        if job.state == "ready":
            delay = self._decisions.latency("engine.hand_out", least=0.002, spread=0.05)
            self._loop.after(delay, self._hand_out, job.key)
        elif job.state == "backoff" or (job.state == "active" and not job.is_timeout_lost):
            self._loop.after(job.until - self._loop.now, self._time_out, job.key, job.until)

    def _time_out(self, job_key: int, until: float) -> None:
        job = self.state.jobs.get(job_key)
        if job is None or job.until != until or job.state not in ("active", "backoff") or job.is_timeout_lost:
            return
        self._told(f"engine: the time of job {job_key} is over")
        self._put(replace(job, state="ready"))

    def _hand_out(self, job_key: int) -> None:
        job = self.state.jobs.get(job_key)
        if job is None or job.state != "ready":
            return
        take = self.choose(job.type)
        if take is None:
            return  # a worker that connects asks for it
        self._do(f"activate {job_key}", lambda: self._activate(job_key, take))

    def _activate(self, job_key: int, take: Callable[[Job], None]) -> None:
        job = self.state.jobs[job_key]
        lost = self._decisions.fault("engine.timeout", self.timeout_losses)
        early = None if lost is None or lost.kind != "timeout early" else lost.amount
        timeout = self.timeout_of(job.type)
        until = self._loop.now + (timeout if early is None else early)
        activated_ms = max(_EPOCH_MS + int(self._loop.now * 1000), job.activated_ms + 1)
        is_lost = lost is not None and lost.kind == "timeout lost"
        active = replace(
            job,
            state="active",
            until=until,
            activated_ms=activated_ms,
            activation=job.activation + 1,
            is_timeout_lost=is_lost,
        )
        self._put(active)
        take(self._delivery(active, int(timeout * 1000)))

    def timeout_of(self, type: str) -> float:
        """How long a job of a type may take before it is handed out again."""
        return 60.0

    def _delivery(self, job: ModelJob, timeout_ms: int) -> Job:
        process, carried = self.state.instances[job.instance]
        return Job(
            key=job.key,
            type=job.type,
            retries=job.retries,
            activated_ms=job.activated_ms,
            timeout_ms=timeout_ms,
            process_instance_key=job.instance,
            element_instance_key=job.element,
            process_definition_key=DEFINITION_KEYS[process],
            process_version=1,
            process_id=process,
            element_id=job.node,
            tenant_id=TENANT,
            variables=dict(carried),
        )

    def kick(self) -> None:
        """A worker connected: hand out what waits."""
        for job in list(self.state.jobs.values()):
            if job.state == "ready":
                self._watch(job)

    # ---- crashes ----------------------------------------------------------------------------------------------------

    def crash(self, lost: int, *, again: bool, reuse: bool, horizon: float) -> None:
        """Restart, with up to `lost` records of the last `horizon` seconds taken back.

        With `again` their commands are carried out anew.
        """
        since = self._loop.now - horizon
        records = [record for record in self._records[-lost:] if record.at >= since] if lost else []
        self._records = []
        words = ", ".join(record.words for record in records)
        self._told(f"engine: crash; taken back: {words or 'nothing'}{' and done again' if again else ''}")
        if records:
            self.state = records[0].before.snapshot()
        if not reuse:
            self.state.next_key = self._highest + 1
        elif again and lost % 2:
            # As with one more instance before all others: each gets the keys of the one behind it.
            self.state.next_key += _KEYS_OF_A_START
        if again:
            for record in records:
                if not record.words.startswith("activate"):
                    self._repeat(record)
        for job in list(self.state.jobs.values()):
            # Timers are set anew from what is kept.
            self._put(replace(job, is_timeout_lost=False))

    def _repeat(self, record: Record) -> None:
        try:
            record.act()
        except (JobGone, JobNotActive, CommandInvalid):
            self._told(f"engine: {record.words} is refused this time")
