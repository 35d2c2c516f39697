"""Protocols for handlers of jobs that are not verbs: listeners, gates, compensation."""

from datetime import timedelta
from typing import Protocol, runtime_checkable

from verblint.contracts.contract import FlagType
from verbworker.contract.registry import Registry
from verbworker.job.job import RESERVED, Job


class JobHandler(Protocol):
    """Serves one type of job. Every call may be repeated."""

    @property
    def type(self) -> str:
        """Return the type of the jobs it serves."""

    @property
    def concurrency(self) -> int:
        """Return how many jobs it serves concurrently."""

    @property
    def timeout(self) -> timedelta | None:
        """Return the timeout to request from the engine; None for the worker's timeout for verbs."""

    async def serve(self, job: Job) -> bool:
        """Serve one delivery; return False if the engine has no answer, so that the job must be redelivered.

        Never raises because of a job.
        """


@runtime_checkable
class JobReader(Protocol):
    """A handler whose jobs bring more than the reserved variables."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names of all variables they bring."""


@runtime_checkable
class Stoppable(Protocol):
    """A handler that can hand back its running jobs, so that the next worker need not wait for a lease to expire."""

    def stop(self) -> None:
        """Stop running jobs, because the process shuts down."""


def variables_for(desk: JobHandler) -> tuple[str, ...]:
    """Return the variables that the jobs of a handler bring."""
    return desk.variables if isinstance(desk, JobReader) else RESERVED


def with_texts(registry: Registry) -> tuple[str, ...]:
    """Return the variables of a job whose wait may end by a timer: a text flag may hold the due time."""
    contracts = [workflow.flag_contract for workflow in registry.workflows.values()]
    texts = (FlagType.STRING, FlagType.ENUM)
    return (
        *RESERVED,
        *sorted({flag.name for contract in contracts for flag in contract.flags.values() if flag.type in texts}),
    )
