"""The engine commands that running a job needs, and no more, so that a substitute can replace an engine."""

from typing import Protocol

from verbworker.engine.protocol import Variables


class WaitingJobs(Protocol):
    """Gives jobs more time."""

    async def extend(self, job_key: int, timeout_ms: int) -> None:
        """Extend the timeout of a job that takes longer."""


class JobCommands(Protocol):
    """Receives the results of jobs. Raises only `EngineError`s; every engine implements it."""

    async def complete(self, job_key: int, variables: Variables) -> None:
        """Complete a job with these variables."""

    async def fail(self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0) -> None:
        """Fail a job that has `retries` left; with 0 a person is needed."""

    async def throw(self, job_key: int, *, code: str, message: str) -> None:
        """End a job with a business error."""
