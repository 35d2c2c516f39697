"""An engine in memory with the leases and suspensions of 8.10: it refuses in the words that were recorded."""

from dataclasses import replace
from uuid import uuid4

from tests.support.recorded_8_10 import recorded
from tests.support.worker_boot import ToldEngine
from verbworker.engine.protocol import Ask
from verbworker.errors import EngineError, InstanceSuspended, LeaseLost
from verbworker.job.job import Job
from verbworker.job.outcome import JobResult


class LeasingEngine(ToldEngine):
    """Gives every delivery a token, and accepts a report only with the one of the latest delivery."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: dict[int, str] = {}
        self.suspended: set[int] = set()
        self.refused: list[tuple[str, int]] = []

    async def activate(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        jobs = await super().activate(ask, limit, wait_ms)
        return [self._lease(job) for job in jobs if job.process_instance_key not in self.suspended]

    async def complete(self, job_key: int, result: JobResult, *, lease_token: str | None = None) -> None:
        self._check("complete", job_key, lease_token)
        await super().complete(job_key, result)

    async def fail(
        self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0, lease_token: str | None = None
    ) -> None:
        self._check("fail", job_key, lease_token)
        await super().fail(job_key, retries=retries, message=message, backoff_ms=backoff_ms)

    async def throw(self, job_key: int, *, code: str, message: str, lease_token: str | None = None) -> None:
        self._check("throw", job_key, lease_token)
        await super().throw(job_key, code=code, message=message)

    async def extend(self, job_key: int, timeout_ms: int, *, lease_token: str | None = None) -> None:
        self._check("extend", job_key, lease_token)
        await super().extend(job_key, timeout_ms)

    def _lease(self, job: Job) -> Job:
        token = self.tokens[job.key] = str(uuid4())
        return replace(job, lease_token=token)

    def _check(self, command: str, job_key: int, lease_token: str | None) -> None:
        known, token = self.jobs.get(job_key), self.tokens.get(job_key)
        if known is None or known.is_done:
            return  # the engine itself says that it is gone
        if known.job.process_instance_key in self.suspended:
            raise self._refuse(command, job_key, InstanceSuspended, "the process instance is suspended")
        if lease_token is None and token is not None and command != "extend":
            raise self._refuse(command, job_key, LeaseLost, "a matching lease token must be provided")
        if lease_token is not None and lease_token != token:
            raise self._refuse(command, job_key, LeaseLost, "the supplied lease token does not match")

    def _refuse(self, command: str, job_key: int, kind: type[EngineError], words: str) -> EngineError:
        self.refused.append((command, job_key))
        return kind(next(one.reason for one in recorded() if words in one.reason))
