"""What a verb is, what it can see while it runs, and what it returns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from logging import Logger, LoggerAdapter
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from pydantic import BaseModel

from verbworker.errors import PermanentContract

Case = TypeVar("Case", bound=BaseModel)


class Mode(StrEnum):
    """Where a verb's effect takes place: in our own database, or outside."""

    TRANSACTIONAL = "transactional"
    EXTERNAL = "external"


class OnUnknown(StrEnum):
    """What to do when a crash leaves it unknown whether an external call happened."""

    RERUN = "rerun"  # the other side recognises the idempotency key
    PROBE = "probe"  # ask the other side first
    HOLD = "hold"  # neither: stop for a person


class Db(Protocol):
    """The connection a transactional verb writes through; the runtime ends its transaction."""

    async def fetch(self, query: str, *args: object) -> list[Any]: ...
    async def fetchrow(self, query: str, *args: object) -> Any: ...
    async def fetchval(self, query: str, *args: object) -> Any: ...
    async def execute(self, query: str, *args: object) -> str: ...
    async def executemany(self, query: str, args: Sequence[Sequence[object]]) -> None: ...


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision at a human gate. `inputs` is what was filled in with it; an amount is text: `"1250.00"`."""

    gate: str
    decision: str
    reason: str
    by: str
    at: datetime
    inputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message from outside that reached this case; `at` is when it was received, not when it was sent.

    Its payload is a JSON object, or `payload_bytes`, which only the verb can read.
    """

    name: str
    message_id: str
    correlation_key: str
    payload: Mapping[str, Any] | None
    at: datetime
    payload_bytes: bytes | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """What a verb may know about its run. Nothing here is about the surrounding process."""

    verb: str
    entry_id: UUID
    tenant_id: str
    idempotency_key: str
    attempt: int
    epoch: int
    deadline: datetime
    log: "Logger | LoggerAdapter[Logger]"
    connection: Db | None = None
    decisions: tuple[Decision, ...] = ()
    messages: tuple[ReceivedMessage, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)  # the static headers of the task in the model
    clock: Callable[[], datetime] = field(default=partial(datetime.now, UTC), kw_only=True, repr=False, compare=False)

    @property
    def db(self) -> Db:
        """Return the open transaction of a transactional verb."""
        if self.connection is None:
            raise PermanentContract(
                f"{self.verb} is external and has no transaction to write through", code="NoDatabase"
            )
        return self.connection

    def decision(self, gate: str) -> Decision | None:
        """Return the latest decision at a gate of this case, or None."""
        return next((made for made in reversed(self.decisions) if made.gate == gate), None)

    def message(self, name: str) -> ReceivedMessage | None:
        """Return the latest message of that name that reached this case, or None."""
        return next((received for received in reversed(self.messages) if received.name == name), None)

    def remaining(self) -> timedelta:
        """Return how long this run may still take."""
        return max(self.deadline - self.clock(), timedelta(0))


@dataclass(frozen=True, slots=True)
class Result(Generic[Case]):
    """A verb's answer: the updated case, the flags it sets, and the correlation keys it found."""

    case: Case
    flags: Mapping[str, object] = field(default_factory=dict)
    correlation: Mapping[str, str] = field(default_factory=dict)
    outcome: str = "ok"


@dataclass(frozen=True, slots=True)
class Act:
    """A verb author's function, and the names of its parameters."""

    function: Callable[..., Any]
    case_name: str
    call_name: str | None
    is_async: bool

    def arguments(self, case: object, call: Call) -> dict[str, object]:
        """Return the function's arguments, independent of the order and names its author chose."""
        named: dict[str, object] = {self.case_name: case}
        if self.call_name is not None:
            named[self.call_name] = call
        return named


@dataclass(frozen=True, slots=True)
class Verb:
    """A direct verb: its function, and how the runtime treats it."""

    name: str
    act: Act
    model: type[BaseModel]
    mode: Mode
    on_unknown: OnUnknown
    idempotency_window: timedelta
    writes: tuple[str, ...] | None
    errors: tuple[str, ...] | None  # the codes it may end with; None when undeclared
    probe: Act | None  # asks the other side whether an earlier run happened
    concurrency: int
    max_runs: int
    policy: str | None
    sentence: str
    timeout: timedelta | None = None  # of the engine's activation; None for the worker's setting
    before: tuple[Act, ...] = ()  # hooks that see the case; one that raises fails the run
    after: tuple[Act, ...] = ()  # hooks that see the result, before it is stored

    @property
    def needs_threads(self) -> bool:
        """Return whether a part of it would block the event loop and so runs on a thread."""
        parts = (self.act, *self.before, *self.after, *(() if self.probe is None else (self.probe,)))
        return not all(part.is_async for part in parts)

    def result_of(self, answer: object) -> Result[Any]:
        """Return what the verb's function returned as a `Result`; `PermanentContract` for anything but its model."""
        result: Result[Any] = answer if isinstance(answer, Result) else Result(answer)
        if not isinstance(result.case, self.model):
            raise PermanentContract(
                f"{self.name} answered {type(result.case).__name__}; a verb returns a Result or its model",
                code="AnswerInvalid",
            )
        return result
