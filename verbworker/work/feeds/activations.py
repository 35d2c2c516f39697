"""Keep the engine's activation of every delivered job alive until the job is done.

The engine hands a job out for a few seconds only, so that a worker that stops reading blocks nothing for long: Zeebe
8.6 pushes even to a stopped process, and pushes timed-out jobs there again. A job that finishes quickly costs no
further command. One that takes longer gets its whole timeout by one command, even while it still waits to be claimed.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from verbworker import metrics
from verbworker.background.poll_loop import PollLoop
from verbworker.errors import EngineError, JobGone, JobNotActive
from verbworker.job.job import Job
from verbworker.work.jobs.job_commands import WaitingJobs

_log = logging.getLogger(__name__)

FIRST_TIMEOUT_MS = 5_000
"""The timeout of a new activation. A stopped worker holds a job that long, plus the second until Zeebe looks again."""

# Two of five seconds: quick jobs are done by then, and three seconds remain for a slow loop and a slow engine.
_EXTEND_AFTER = 0.4
_LOOK_EVERY = 0.25
# One UpdateJobTimeout takes Zeebe 2-5 ms: with sixteen concurrent calls, 500 jobs take less than 200 ms.
_CONCURRENT_EXTENSIONS = 16


def first_timeout_ms(timeout_ms: int) -> int:
    """Return the first timeout to request for a job that may take `timeout_ms`."""
    return min(timeout_ms, FIRST_TIMEOUT_MS)


class _Activation:
    """One delivery in progress: when its timeout must be extended, and whether it is done."""

    def __init__(self, job: Job, due_at: float) -> None:
        self.job = job
        self.due_at = due_at
        self.is_done = False


class Activations:
    """Extends jobs that outlive their first timeout to the timeout of their kind, each once.

    Beyond that timeout, `Leases` extends verbs, and the compensation handler extends its own jobs.
    """

    def __init__(self, engine: WaitingJobs) -> None:
        self._engine = engine
        self._waiting: set[_Activation] = set()
        self.service = PollLoop("activations", self._extend_due, every=_LOOK_EVERY)

    @contextmanager
    def held(self, job: Job) -> Iterator[None]:
        """Keep a job's activation alive while it is worked on."""
        after = first_timeout_ms(job.timeout_ms) / 1000 * _EXTEND_AFTER
        activation = _Activation(job, asyncio.get_running_loop().time() + after)
        self._waiting.add(activation)
        try:
            yield
        finally:
            activation.is_done = True
            self._waiting.discard(activation)

    async def _extend_due(self) -> int:
        now = asyncio.get_running_loop().time()
        due = [activation for activation in self._waiting if activation.due_at <= now]
        self._waiting.difference_update(due)
        await self.service.for_each(due, _CONCURRENT_EXTENSIONS, self._extend)
        return 0

    async def _extend(self, activation: _Activation) -> None:
        job = activation.job
        if activation.is_done:
            return
        try:
            await self._engine.extend(job.key, job.timeout_ms)
        except (JobGone, JobNotActive) as error:
            # Too late, or ended in the engine. The frame or the handler finds out what that means for the job.
            _log.info("engine timeout not extended", extra={"job_key": job.key, "reason": str(error)})
        except EngineError:
            if not activation.is_done:
                self._waiting.add(activation)
            raise
        else:
            metrics.EXTENSIONS.labels(job.type).inc()
