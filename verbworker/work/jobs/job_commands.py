"""What a job's life asks of an engine: no more than this, so that something else may stand in an engine's place."""

from typing import Protocol

from verbworker.engine.protocol import Variables


class WaitingJobs(Protocol):
    """Gives jobs more time."""

    async def extend(self, job_key: int, timeout_ms: int) -> None:
        """A job takes longer."""


class JobCommands(Protocol):
    """Hears how jobs go. Raises `EngineError`s only; every engine does this."""

    async def complete(self, job_key: int, variables: Variables) -> None:
        """A job is done, with these variables."""

    async def fail(self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0) -> None:
        """A job failed and has `retries` left; with none a person is needed."""

    async def throw(self, job_key: int, *, code: str, message: str) -> None:
        """A job ended by a business error."""
