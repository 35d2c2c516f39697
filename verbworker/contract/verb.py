"""What a verb is, what it may know while it runs, and what it answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from logging import Logger, LoggerAdapter
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from pydantic import BaseModel

from verbworker.errors import PermanentContract

Case = TypeVar("Case", bound=BaseModel)

MOST_CODE = 200
"""The longest error code, in characters: what is longer is cut, and then is another code."""
ERROR_CODE = rf"[!-~](?:[ -~]{{0,{MOST_CODE - 2}}}[!-~])?"
"""How an error code is written that a verb declares: as it can stand in a model, a contract and a log."""


class Mode(StrEnum):
    """Where a verb's effect lives: in our own database, or outside of it."""

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
    """What a person decided at a human gate."""

    gate: str
    decision: str
    reason: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message from outside that reached this case; `at` is when it was taken in, not when it was sent."""

    name: str
    message_id: str
    correlation_key: str
    payload: Mapping[str, Any] | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Call:
    """What a verb may know of the run it is in. Nothing here is about the process around it."""

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

    @property
    def db(self) -> Db:
        """The open transaction of a transactional verb."""
        if self.connection is None:
            raise PermanentContract(
                f"{self.verb} is external and has no transaction to write through", code="NoDatabase"
            )
        return self.connection

    def decision(self, gate: str) -> Decision | None:
        """The latest decision at a gate of this case, or None when nobody decided there."""
        return next((made for made in reversed(self.decisions) if made.gate == gate), None)

    def message(self, name: str) -> ReceivedMessage | None:
        """The latest message of that name that reached this case, or None when none did."""
        return next((received for received in reversed(self.messages) if received.name == name), None)

    def remaining(self) -> timedelta:
        """How long this run may still take."""
        return max(self.deadline - datetime.now(UTC), timedelta(0))


@dataclass(frozen=True, slots=True)
class Result(Generic[Case]):
    """A verb's answer: the case as it is now, the flags it sets, the correlation keys it found."""

    case: Case
    flags: Mapping[str, object] = field(default_factory=dict)
    correlation: Mapping[str, str] = field(default_factory=dict)
    outcome: str = "ok"


@dataclass(frozen=True, slots=True)
class Act:
    """A function of a verb's author, and the names by which its parameters are called."""

    function: Callable[..., Any]
    case_name: str
    call_name: str | None
    is_async: bool

    def arguments(self, case: BaseModel, call: Call) -> dict[str, object]:
        """The function's arguments, whatever order and names its author chose."""
        named: dict[str, object] = {self.case_name: case}
        if self.call_name is not None:
            named[self.call_name] = call
        return named


@dataclass(frozen=True, slots=True)
class Verb:
    """A direct verb: what is done, and how the runtime treats it."""

    name: str
    act: Act
    model: type[BaseModel]
    mode: Mode
    on_unknown: OnUnknown
    idempotency_window: timedelta
    writes: tuple[str, ...] | None
    errors: tuple[str, ...] | None  # the codes it may end with; None when it does not say
    probe: Act | None  # asks the other side whether an earlier run happened
    concurrency: int
    max_runs: int
    policy: str | None
    sentence: str

    @property
    def needs_threads(self) -> bool:
        """Whether any part of it would stop the event loop, and so runs on a thread."""
        return not self.act.is_async or (self.probe is not None and not self.probe.is_async)
