"""Tracing as a job sees it: one span around its life here, or nothing at all."""

from contextlib import AbstractContextManager
from typing import Protocol

from verbworker.job.frame import Claim
from verbworker.job.job import Job


class Span(Protocol):
    """One job's life in this process."""

    def claimed(self, claim: Claim) -> None:
        """The frame is ours."""

    def ended(self, outcome: str) -> None:
        """How it ended; a name, never words of a payload."""


class Tracer(Protocol):
    """Makes spans."""

    def job(self, job: Job) -> AbstractContextManager[Span]:
        """A span around everything that happens to one delivery."""


class Untraced:
    """The tracer when nobody traces, and its only span: nothing is made and nothing is kept."""

    def job(self, job: Job) -> "Untraced":
        """The one span there is."""
        return self

    def claimed(self, claim: Claim) -> None:
        """Nobody listens."""

    def ended(self, outcome: str) -> None:
        """Nobody listens."""

    def __enter__(self) -> "Untraced":
        return self

    def __exit__(self, *_: object) -> None:
        return None


UNTRACED = Untraced()
