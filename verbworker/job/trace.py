"""The tracing interface: one trace per case, with a span for its request, every job and message, and its end."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from verbworker.job.frame import Claim
from verbworker.job.job import Job
from verbworker.job.trace_context import ambient_traceparent


class Span(Protocol):
    """One job's span in this process."""

    def record_claim(self, claim: Claim) -> None:
        """Record that the frame is ours."""

    def record_end(self, outcome: str, error: str | None = None) -> None:
        """Record the outcome's name and the class of a failure; never payload content."""


@dataclass(frozen=True, slots=True)
class RequestSpan:
    """The span of a request: what is stored with the entry so that the case belongs to its trace."""

    traceparent: str | None
    record_entry: Callable[[UUID], None]


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message on its way to a case, the trace of its sender, and what it belongs to and follows from."""

    name: str
    message_id: str
    entry_id: UUID
    traceparent: str | None
    correlation_id: str | None = None
    causation_id: str | None = None


class Tracer(Protocol):
    """Creates spans."""

    async def find_parent(self, job: Job) -> str | None:
        """Return the trace of a job's case; None if it has none, or nothing is traced."""

    def job(self, job: Job, parent: str | None = None) -> AbstractContextManager[Span]:
        """Return a span around everything that happens to one delivery."""

    def request(self, verb: str, traceparent: str | None) -> AbstractContextManager[RequestSpan]:
        """Return a span around the start of a verb, below the caller's trace if there is one."""

    def message(self, sent: SentMessage) -> AbstractAsyncContextManager[None]:
        """Return a span around the publication of a message."""

    async def record_case_end(self, entry_id: UUID, status: str) -> None:
        """Record that a case has ended; call it after the commit."""


class Untraced:
    """The tracer when tracing is off, and its only span: creates and keeps nothing."""

    async def find_parent(self, job: Job) -> None:
        """Return nothing."""

    def job(self, job: Job, parent: str | None = None) -> "Untraced":
        """Return the only span."""
        return self

    def request(self, verb: str, traceparent: str | None) -> "_Request":
        """Pass on the trace of the caller, whose own tracing we then belong to."""
        return _Request(traceparent or ambient_traceparent())

    def message(self, sent: SentMessage) -> "Untraced":
        """Return the only span."""
        return self

    async def record_case_end(self, entry_id: UUID, status: str) -> None:
        """Do nothing."""

    def record_claim(self, claim: Claim) -> None:
        """Do nothing."""

    def record_end(self, outcome: str, error: str | None = None) -> None:
        """Do nothing."""

    def __enter__(self) -> "Untraced":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        return None


class _Request:
    """A request that is not traced here."""

    def __init__(self, traceparent: str | None) -> None:
        self._span = RequestSpan(traceparent, lambda _: None)

    def __enter__(self) -> RequestSpan:
        return self._span

    def __exit__(self, *_: object) -> None:
        return None


UNTRACED = Untraced()
