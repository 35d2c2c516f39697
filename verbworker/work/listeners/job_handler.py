"""A desk serves the jobs of one type that are no verbs: listeners, gates, the undoing of a case."""

from datetime import timedelta
from typing import Protocol, runtime_checkable

from verblint.contracts.contract import FlagType
from verbworker.contract.registry import Registry
from verbworker.job.job import RESERVED, Job


class JobHandler(Protocol):
    """Serves one type of job. Everything it does may be asked of it twice."""

    @property
    def type(self) -> str:
        """The type of the jobs it serves."""

    @property
    def concurrency(self) -> int:
        """How many it serves at once."""

    @property
    def timeout(self) -> timedelta | None:
        """The timeout to ask the engine for; None for what the worker uses for verbs."""

    async def serve(self, job: Job) -> bool:
        """Serve one delivery; False when the engine has no answer, so that the job must be delivered again.

        Never raises for a job's sake.
        """


@runtime_checkable
class JobReader(Protocol):
    """A desk whose jobs bring more than the variables that all bring."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of all they bring."""


@runtime_checkable
class Stoppable(Protocol):
    """A desk that can give back what it is at, so that the next worker need not wait for a lease to run out."""

    def stop(self) -> None:
        """The process must go: end what runs."""


def variables_for(desk: JobHandler) -> tuple[str, ...]:
    """What the jobs of a desk bring."""
    return desk.variables if isinstance(desk, JobReader) else RESERVED


def with_texts(registry: Registry) -> tuple[str, ...]:
    """What a job brings whose wait may end by a timer: a flag that holds text may say when."""
    contracts = [workflow.flag_contract for workflow in registry.workflows.values()]
    texts = (FlagType.STRING, FlagType.ENUM)
    return (
        *RESERVED,
        *sorted({flag.name for contract in contracts for flag in contract.flags.values() if flag.type in texts}),
    )
