"""A desk serves the jobs of one type that are no verbs: listeners, gates, the undoing of a case."""

from datetime import timedelta
from typing import Protocol

from verbworker.job import Job


class Desk(Protocol):
    """Serves one type of job. Everything it does may be asked of it twice."""

    @property
    def type(self) -> str:
        """The type of the jobs it serves."""

    @property
    def concurrency(self) -> int:
        """How many it serves at once."""

    @property
    def timeout(self) -> timedelta | None:
        """How long the engine waits before it delivers a job again; None for what the worker uses for verbs."""

    async def serve(self, job: Job) -> None:
        """Serve one delivery. Never raises for a job's sake: what is left undone the engine delivers again."""
