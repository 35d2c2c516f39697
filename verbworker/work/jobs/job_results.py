"""RET: sends stored outcomes to the engine, and records its acknowledgements."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import count
from typing import TypeVar

from verbworker import metrics
from verbworker.errors import EngineError, EngineUnavailable, JobGone, JobNotActive, StoreError
from verbworker.job.job import Job
from verbworker.job.outcome import Completed, Thrown, Verdict
from verbworker.payload.boundary import variables_of
from verbworker.retrying import backoff
from verbworker.stores.jobs.frames import Frames
from verbworker.work.feeds.leases import RunningJob
from verbworker.work.jobs.job_commands import JobCommands

_log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class JobResults:
    """Sends verdicts until the engine answers, and failures only while the lease is certain."""

    def __init__(self, engine: JobCommands, frames: Frames, *, patience: timedelta = timedelta(seconds=30)) -> None:
        self._engine = engine
        self._frames = frames
        self._patience = patience

    async def verdict(self, job_key: int, verdict: Verdict) -> bool:
        """Send a final verdict. Return True if the engine has it; otherwise the relay sends it again."""
        command = "throw" if isinstance(verdict, Thrown) else "complete"
        try:
            await self._insist(lambda: self._send(job_key, verdict))
        except JobGone:
            # Completed by our twin, or cancelled: both look the same and neither leaves anything to do.
            return self._settle(job_key, command, "gone")
        except JobNotActive as error:
            await self._unusual(job_key, command, "not active", str(error))
        except EngineUnavailable as error:
            await self._unusual(job_key, command, "unavailable", str(error))
        except EngineError as error:
            _log.error("the engine refuses a verdict", extra={"job_key": job_key, "reason": str(error)})
            await self._unusual(job_key, command, "refused", str(error))
        else:
            return self._settle(job_key, command, "ok")
        return False

    async def _send(self, job_key: int, verdict: Verdict) -> None:
        if isinstance(verdict, Completed):
            await self._engine.complete(job_key, variables_of(verdict))
        else:
            await self._engine.throw(job_key, code=verdict.code, message=verdict.message)

    def _settle(self, job_key: int, command: str, answer: str) -> bool:
        metrics.ANSWERS.labels(command, answer).inc()
        self._frames.acknowledge(job_key, answer)
        return True

    async def _unusual(self, job_key: int, command: str, answer: str, reason: str) -> None:
        metrics.ANSWERS.labels(command, answer).inc()
        _log.warning("verdict not taken", extra={"job_key": job_key, "answer": answer, "reason": reason})
        await self._note(job_key, f"verdict {answer}", reason)

    async def failure(self, life: RunningJob, *, retries: int, delay: float, message: str) -> None:
        """Report a failed job, but only while its lease is certain: a late report could stop another worker's run."""
        await self._fail(life.job.key, life.claim.epoch, retries, delay, message, sure=life.is_sure)

    async def report(self, job_key: int, epoch: int, *, retries: int, delay: float, message: str) -> None:
        """Repeat a report that never reached the engine; the current delivery is ours right now."""
        await self._fail(job_key, epoch, retries, delay, message, sure=lambda: True)

    async def unbegun(self, job: Job, reason: str) -> None:
        """Hand a job that was not started back to the engine: it costs no retry, and there is nothing to store."""
        message = f"given back: {reason}"
        try:
            await self._insist(lambda: self._engine.fail(job.key, retries=job.retries, message=message))
        except EngineError as error:
            # The engine redelivers it after its timeout.
            _log.info("job not given back", extra={"job_key": job.key, "reason": str(error)})

    async def _fail(
        self, job_key: int, epoch: int, retries: int, delay: float, message: str, *, sure: Callable[[], bool]
    ) -> None:
        async def send() -> bool:
            if sure():
                await self._engine.fail(job_key, retries=retries, message=message, backoff_ms=int(delay * 1000))
                return True
            return False

        try:
            if not await self._insist(send):
                return
            metrics.ANSWERS.labels("fail", "ok").inc()
            await self._frames.record_report(job_key, epoch)
        except JobGone:
            # The sweep closes the frame, and checks whether its instance has ended as well.
            metrics.ANSWERS.labels("fail", "gone").inc()
            await self._note(job_key, "failure gone", "the engine has no such job any more")
        except (EngineError, StoreError) as error:
            # An unreported failure is safe: the sweep reports it once the lease is over, or the next delivery does.
            metrics.ANSWERS.labels("fail", "unavailable").inc()
            _log.warning("failure not reported", extra={"job_key": job_key, "reason": str(error)})

    async def _insist(self, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """Send a command until the engine answers or the timeout is over."""
        clock = asyncio.get_running_loop().time
        give_up = clock() + self._patience.total_seconds()
        for failures in count():
            try:
                return await send()
            except EngineUnavailable:
                if clock() >= give_up:
                    raise
            await asyncio.sleep(backoff(failures, random.random()))
        raise AssertionError("counting never ends")

    async def _note(self, job_key: int, kind: str, detail: str) -> None:
        try:
            await self._frames.note(job_key, kind, detail=detail[:500])
        except StoreError:
            _log.warning("note not written", extra={"job_key": job_key, "kind": kind})
