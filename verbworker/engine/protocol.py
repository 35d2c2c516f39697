"""The process engine protocol, implemented by every package in `engine/`."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from verbworker.job.job import Job

Variables = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Resource:
    """A model to deploy: its file name and its exact bytes."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Deployed:
    """A deployed process of a resource."""

    process_id: str
    version: int
    definition_key: int
    resource: str


@dataclass(frozen=True, slots=True)
class Start:
    """A process instance to create: by definition key if given, otherwise by process id and version."""

    process_id: str
    variables: Variables
    version: int = -1  # the latest
    definition_key: int | None = None
    tenant_id: str | None = None
    business_id: str | None = None  # the same for every try to start one case


@dataclass(frozen=True, slots=True)
class Started:
    """A created instance and the version it is pinned to."""

    instance_key: int
    definition_key: int
    process_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A worker's request for jobs of one type, with exactly these variables."""

    type: str
    worker: str
    timeout_ms: int
    variables: Sequence[str]
    tenant_ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Signal:
    """A message to publish; `message_id` deduplicates it while it is buffered."""

    name: str
    correlation_key: str
    message_id: str
    ttl_ms: int
    variables: Variables
    tenant_id: str | None = None


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The engine's description of itself."""

    version: str
    brokers: int
    partitions: int


@dataclass(frozen=True, slots=True)
class EngineIncident:
    """Why an instance cannot continue without an operator, in the engine's own words."""

    incident_key: int
    instance_key: int
    element_id: str
    element_instance_key: int
    kind: str  # the engine's type, such as JOB_NO_RETRIES
    message: str
    job_key: int | None = None
    raised_at: datetime | None = None
    process_id: str = ""
    definition_key: int | None = None


@dataclass(frozen=True, slots=True)
class ActiveElement:
    """An element that holds a token of an instance, and the message it waits for."""

    element_id: str
    element_instance_key: int
    type: str  # as Zeebe names it, such as SERVICE_TASK
    since: datetime | None = None
    message_name: str | None = None
    correlation_key: str | None = None


@dataclass(frozen=True, slots=True)
class EngineJob:
    """A job that has not ended, as a search reports it."""

    job_key: int
    instance_key: int
    type: str
    retries: int
    deadline: datetime | None = None


@dataclass(frozen=True, slots=True)
class EngineUserTask:
    """A native user task that waits for a person."""

    user_task_key: int
    instance_key: int
    element_id: str
    element_instance_key: int
    assignee: str | None = None
    created_at: datetime | None = None
    candidate_groups: tuple[str, ...] = ()
    candidate_users: tuple[str, ...] = ()
    due_at: datetime | None = None
    follow_up_at: datetime | None = None
    priority: int | None = None
    form: str | None = None


class InstanceState(StrEnum):
    """The state of an instance, as a search reports it."""

    ACTIVE = "ACTIVE"
    COMPLETED = "COMPLETED"
    TERMINATED = "TERMINATED"
    SUSPENDED = "SUSPENDED"


@dataclass(frozen=True, slots=True)
class Offer:
    """Whether a cluster offers one of its APIs, and why not; None if it could not be found out."""

    is_there: bool | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class EngineOffers:
    """The APIs of a cluster, as they were lately."""

    grpc: Offer
    rest: Offer
    search: Offer
    pushes_jobs: bool  # over gRPC, as long as that is the transport in use
    refused_searches: Sequence[str] = ()  # forms of a search that the cluster does not take, each in a sentence


class JobCommands(Protocol):
    """Receives the results of jobs. Running a job needs no more, so that a substitute can replace an engine.

    `lease_token` is the one of the delivery that the command answers. `LeaseLost` if the job is leased to another
    delivery, or if it is leased and the caller has no token.
    """

    async def complete(self, job_key: int, variables: Variables, *, lease_token: str | None = None) -> None:
        """Complete a job with these variables; `JobGone` if it is already completed or cancelled."""

    async def fail(
        self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0, lease_token: str | None = None
    ) -> None:
        """Give a job back with `retries` left; with zero the engine raises an incident."""

    async def throw(self, job_key: int, *, code: str, message: str, lease_token: str | None = None) -> None:
        """End a job with a BPMN error that the model may catch."""


@runtime_checkable
class JobTimeouts(Protocol):
    """Gives jobs more time."""

    async def extend(self, job_key: int, timeout_ms: int, *, lease_token: str | None = None) -> None:
        """Set the activation to expire `timeout_ms` from now; `JobGone` if the job does not exist.

        Without a token it applies to any delivery of the job, also to one that another worker has leased.
        """


class Engine(JobCommands, JobTimeouts, Protocol):
    """A process engine. Every method raises only `EngineError`s and has a deadline."""

    @property
    def engine_id(self) -> str:
        """The name under which this engine's job keys are unique."""

    async def facts(self) -> EngineFacts:
        """Contact the engine and describe it."""

    async def deploy(self, resources: Sequence[Resource]) -> list[Deployed]:
        """Deploy the models together; if the engine refuses, the error carries its reason."""

    async def start(self, start: Start) -> Started:
        """Create an instance. Not idempotent: the caller deduplicates by request key.

        `AlreadyStarted` from a cluster that keeps business ids unique, while an instance with the same one runs.
        """

    async def activate(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        """Activate up to `limit` jobs, waiting up to `wait_ms` for the first."""

    def stream(self, ask: Ask) -> AsyncGenerator[Job, None]:
        """Receive jobs as they are created. Unread jobs stay with the engine; closing gives them back."""

    async def release(self, job_key: int, *, retries: int, incident_key: int | None = None) -> None:
        """Give a job in an incident new retries, and resolve the incident if its key is known."""

    async def resolve_incident(self, incident_key: int) -> None:
        """Resolve an incident, so that its element tries again; `JobGone` if the engine does not have it."""

    async def set_flags(self, instance_key: int, flags: Variables) -> None:
        """Set flags of an instance from outside of its model, as an operator does; `JobGone` if it has ended."""

    async def incidents(self, instance_keys: Sequence[int] = ()) -> list[EngineIncident]:
        """Return the open incidents of these instances, or of all without keys.

        The answer may lag: it confirms what it contains and denies nothing. `NotOffered` if the engine cannot know.
        """

    async def waits(self, instance_key: int) -> list[ActiveElement]:
        """Return where the tokens of an instance are; it may lag in the same way. `NotOffered` likewise."""

    async def publish(self, signal: Signal) -> None:
        """Publish a message; one still buffered under the same id counts as published."""

    async def correlate(
        self, name: str, correlation_key: str, variables: Variables, *, tenant_id: str | None = None
    ) -> int | None:
        """Deliver a message to a current subscriber; return its instance key, or None without a subscriber.

        Nothing is buffered or deduplicated: after `EngineUnavailable` the message may have been delivered.
        """

    async def cancel(self, instance_key: int) -> None:
        """Cancel an instance; `JobGone` if it has ended."""

    async def alive(self, instance_key: int) -> bool:
        """Return whether an instance still exists. Changes nothing."""

    async def __aenter__(self) -> Self:
        """Open the engine's connections."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections. Closing twice is harmless."""


class PreparedCompletion(Protocol):
    """The completion of a job, saved together with its verdict."""

    async def finish(self, verdict: Sequence[object]) -> bool:
        """Store a verdict, as columns of its frame, and complete the job in one commit; False if nothing was written.

        Then the verdict is stored and the job completed one after the other, which finds out what is wrong.
        """

    async def finish_in(self, connection: Any, verdict: Sequence[object]) -> str:
        """Store a verdict, as columns of its frame, and complete the job by one statement, or write nothing.

        Returns `done`; `fenced` or `overtaken` for what is wrong with the frame; `refused` if the job needs more than
        one statement, or cannot be completed.
        """

    async def save_in(self, connection: Any) -> None:
        """Complete the job in the transaction that stored its verdict.

        A job that is gone or not active raises as in `complete` and leaves the transaction unchanged.
        """

    def end(self, *, is_saved: bool) -> None:
        """Wake waiters after the commit, or drop what was prepared. Must be called, once."""


@runtime_checkable
class SameDatabase(Protocol):
    """An engine whose tokens are in the database that verbs write to, so that one commit changes both."""

    def shares(self, database: Any) -> bool:  # Any, because the protocol must not import a store
        """Return whether a transaction on this database can move tokens."""

    async def start_with(
        self, starts: Sequence[Start], note: Callable[[Any, Sequence[Started]], Awaitable[None]]
    ) -> list[Started]:
        """Create instances and run `note` in the same commit; if `note` raises, no instance is created."""

    async def prepare_completion(self, job_key: int, variables: Variables) -> "PreparedCompletion":
        """Return the completion of a job for the caller's transaction. Nothing is saved yet."""


def same_database(engine: object, database: Any) -> SameDatabase | None:
    """Return an engine whose tokens are in this database; None for any other engine."""
    return engine if isinstance(engine, SameDatabase) and engine.shares(database) else None


@runtime_checkable
class KeepsModels(Protocol):
    """An engine that can return the models deployed to it."""

    async def model(self, definition_key: int) -> bytes | None:
        """Return the deployed bytes of a definition; None if it does not exist."""


@runtime_checkable
class UserTasks(Protocol):
    """An engine that keeps native user tasks, with their assignees, and asks listeners about each change.

    Completing and assigning wait until the listeners of the task have answered.
    """

    async def complete_user_task(self, key: int) -> None:
        """Complete a task without variables; `JobGone` if it has ended, `JobNotActive` while it takes no command."""

    async def assign_user_task(self, key: int, assignee: str, *, override: bool = False) -> None:
        """Assign a task; `TaskTaken` if another person has it and `override` is not set."""

    async def unassign_user_task(self, key: int) -> None:
        """Remove the assignee of a task."""

    async def deny(self, job_key: int, reason: str, *, lease_token: str | None = None) -> None:
        """Complete a listener's job with a no: the task stays as it was, and the person reads the reason."""


OWN_ACTION = "verbworker"
"""The action that our own completions and assignments name, so that a listener recognises them."""


@runtime_checkable
class Searchable(Protocol):
    """A remote engine with a search over what it exports. Answers may lag; `NotOffered` without such storage."""

    async def instance_states(self, instance_keys: Sequence[int]) -> dict[int, InstanceState]:
        """Return the states of those instances that the search finds."""

    async def terminations(self, since: datetime) -> list[int]:
        """Return the instances that were terminated since a moment."""

    async def open_jobs(self, instance_keys: Sequence[int]) -> list[EngineJob]:
        """Return the jobs of these instances that can still run."""

    async def user_tasks(self, instance_keys: Sequence[int] = ()) -> list[EngineUserTask]:
        """Return the native user tasks that wait for a person: of these instances, or of all without keys."""


@runtime_checkable
class TellsTime(Protocol):
    """A remote engine that can report its clock."""

    async def now(self) -> datetime | None:
        """Return the engine's clock, to the second; None if it does not report one."""


@runtime_checkable
class ChoosesTransport(Protocol):
    """A remote engine that is reached over one of several transports, not all of which can push jobs."""

    @property
    def pushes_jobs(self) -> bool:
        """Whether the transport in use can push jobs; otherwise no stream is worth opening."""


@runtime_checkable
class KnowsOffers(Protocol):
    """A remote engine with several APIs, some of which a cluster may lack."""

    async def offers(self) -> EngineOffers:
        """Return what the cluster offers. Asked at most once in a while; never raises for an API that is away."""


@runtime_checkable
class Interruptible(Protocol):
    """An engine whose connections another thread can close while the event loop is blocked."""

    def interrupt(self) -> int:
        """Close every connection to the engine and return how many there were; the next call reconnects.

        Called from a thread. Calls in progress end with `EngineUnavailable` once the loop runs again.
        """
