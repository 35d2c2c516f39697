"""The tracing interface of a job: one span per delivery, or none."""

from contextlib import AbstractContextManager
from typing import Protocol

from verbworker.job.frame import Claim
from verbworker.job.job import Job


class Span(Protocol):
    """One job's span in this process."""

    def record_claim(self, claim: Claim) -> None:
        """Record that the frame is ours."""

    def record_end(self, outcome: str) -> None:
        """Record the outcome's name; never payload content."""


class Tracer(Protocol):
    """Creates spans."""

    def job(self, job: Job) -> AbstractContextManager[Span]:
        """Return a span around everything that happens to one delivery."""


class Untraced:
    """The tracer when tracing is off, and its only span: creates and keeps nothing."""

    def job(self, job: Job) -> "Untraced":
        """Return the only span."""
        return self

    def record_claim(self, claim: Claim) -> None:
        """Do nothing."""

    def record_end(self, outcome: str) -> None:
        """Do nothing."""

    def __enter__(self) -> "Untraced":
        return self

    def __exit__(self, *_: object) -> None:
        return None


UNTRACED = Untraced()
