"""What verbworker asks of a process engine: a dozen promises, kept by everything in `engines/`."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from verbworker.job.job import Job

Variables = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Resource:
    """One model to deploy: its file name and its exact bytes."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Deployed:
    """What the engine made of one process of a deployed resource."""

    process_id: str
    version: int
    definition_key: int
    resource: str


@dataclass(frozen=True, slots=True)
class Start:
    """A process instance to create: by definition key when given, else by process id and version."""

    process_id: str
    variables: Variables
    version: int = -1  # the latest
    definition_key: int | None = None
    tenant_id: str | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """A created instance and the version it is pinned to."""

    instance_key: int
    definition_key: int
    process_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Ask:
    """What a worker asks for: jobs of one type, with exactly these variables."""

    type: str
    worker: str
    timeout_ms: int
    variables: Sequence[str]
    tenant_ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Signal:
    """A message to publish; `message_id` makes a repetition harmless while it is buffered."""

    name: str
    correlation_key: str
    message_id: str
    ttl_ms: int
    variables: Variables
    tenant_id: str | None = None


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What the engine says of itself."""

    version: str
    brokers: int
    partitions: int


class Engine(Protocol):
    """A process engine. Every method raises `EngineError`s only, and none waits without a deadline."""

    @property
    def engine_id(self) -> str:
        """The name under which this engine's job keys are unique."""

    async def facts(self) -> EngineFacts:
        """Reach the engine and say what it is."""

    async def deploy(self, resources: Sequence[Resource]) -> list[Deployed]:
        """Deploy the models together; the engine's own reason is in the error when it refuses."""

    async def start(self, start: Start) -> Started:
        """Create one instance. Not idempotent: the caller's request key makes it so."""

    async def activate(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        """Take up to `limit` jobs, waiting up to `wait_ms` for the first."""

    def stream(self, ask: Ask) -> AsyncGenerator[Job, None]:
        """Have jobs pushed as they arise. Unread jobs stay with the engine; closing gives them back."""

    async def complete(self, job_key: int, variables: Variables) -> None:
        """Complete a job with these variables; `JobGone` when it is completed or cancelled already."""

    async def fail(self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0) -> None:
        """Give a job back with `retries` left; with none the engine raises an incident."""

    async def throw(self, job_key: int, *, code: str, message: str) -> None:
        """End a job by a BPMN error that the model may catch."""

    async def extend(self, job_key: int, timeout_ms: int) -> None:
        """Let the activation end `timeout_ms` from now."""

    async def release(self, job_key: int, *, retries: int, incident_key: int | None = None) -> None:
        """Give a job in an incident new retries, and resolve the incident where its key is known."""

    async def publish(self, signal: Signal) -> None:
        """Publish a message; one that is still buffered under the same id counts as published."""

    async def correlate(
        self, name: str, correlation_key: str, variables: Variables, *, tenant_id: str | None = None
    ) -> int | None:
        """Hand a message to whoever waits for it now: the instance's key, or None when nobody waits.

        Nothing is buffered, and no id makes a repetition harmless: after `EngineUnavailable` it may have happened.
        """

    async def cancel(self, instance_key: int) -> None:
        """Cancel an instance; `JobGone` when it has ended."""

    async def alive(self, instance_key: int) -> bool:
        """Whether an instance is still there. Nothing of it is changed by asking."""

    async def __aenter__(self) -> Self:
        """Open the engine's connections."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close them. Closing twice is harmless."""


@runtime_checkable
class SameDatabase(Protocol):
    """An engine whose tokens lie in the database that verbs write to, so that both can change by one commit."""

    def shares(self, database: Any) -> bool:  # a word names no store
        """Whether a transaction on this database can move tokens."""

    async def start_with(
        self, starts: Sequence[Start], note: Callable[[Any, Sequence[Started]], Awaitable[None]]
    ) -> list[Started]:
        """Create instances and have `note` written by the same commit; when `note` raises, none of them exists."""

    async def complete_in(self, connection: Any, job_key: int, variables: Variables) -> Callable[[], None]:
        """Complete a job inside the caller's transaction; call the answer when it is committed, to wake who waits.

        A job that is gone or not active raises as in `complete` and leaves the transaction as it was.
        """


@runtime_checkable
class KeepsModels(Protocol):
    """An engine that hands back the models it was given."""

    async def model(self, definition_key: int) -> bytes | None:
        """The deployed bytes of a definition; None when there is no such definition."""


@runtime_checkable
class TellsTime(Protocol):
    """An engine on another machine that can say what time it is there."""

    async def now(self) -> datetime | None:
        """Its clock, to the second; None where it does not tell."""


@runtime_checkable
class Interruptible(Protocol):
    """An engine whose connections another thread can cut while the event loop stands still."""

    def interrupt(self) -> int:
        """Cut every connection to the engine and return how many there were; the next call connects anew.

        Called from a thread. Calls under way end as `EngineUnavailable` once the loop runs again.
        """
