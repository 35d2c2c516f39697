"""The relay: resends verdicts that the engine has not acknowledged, from any worker."""

import logging
from datetime import timedelta

from verbworker import metrics
from verbworker.background.poll_loop import PollLoop
from verbworker.errors import StoreError
from verbworker.stores.jobs.frames import Frames, Unacknowledged
from verbworker.work.jobs.job_results import JobResults
from verbworker.work.jobs.redelivery import verdict_of

_log = logging.getLogger(__name__)

_CONCURRENT_CALLS = 8
_BATCH = 200


class Relay:
    """Looks for unacknowledged verdicts every few seconds. Safe from any worker at any time."""

    def __init__(self, frames: Frames, returns: JobResults, *, every: timedelta = timedelta(seconds=10)) -> None:
        self._frames = frames
        self._returns = returns
        self._every = every
        self.service = PollLoop("relay", self.sweep, every=every.total_seconds(), first_after=every.total_seconds())

    async def sweep(self) -> int:
        """Send each due verdict once and return how many the engine accepted."""
        due = await self._frames.claim_unsent(older_than=self._every, hold=self._every * 3, limit=_BATCH)
        return sum(await self.service.for_each(due, _CONCURRENT_CALLS, self._send))

    async def _send(self, frame: Unacknowledged) -> bool:
        metrics.RELAYS.labels(frame.verb).inc()
        await self._note(frame.job_key)
        return await self._returns.verdict(frame.job_key, verdict_of(frame))

    async def _note(self, job_key: int) -> None:
        try:
            await self._frames.note(job_key, "relay")
        except StoreError as error:
            # The note is for people; the verdict matters more.
            _log.warning("relay not noted", extra={"job_key": job_key, "reason": str(error)})
