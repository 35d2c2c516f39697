"""The reaper: moves acknowledged frames into the archive, forgets what has ended, counts what waits for a person."""

import asyncio
import logging
import random
from datetime import timedelta

from verbworker import metrics
from verbworker.errors import StoreError
from verbworker.stores.frames import Frames
from verbworker.stores.terms import TermsBook

_log = logging.getLogger(__name__)
_BATCH = 2000


class Reaper:
    """Keeps the hot table small. Any number of workers may reap at once."""

    def __init__(
        self,
        frames: Frames,
        terms: TermsBook | None = None,
        *,
        after: timedelta = timedelta(minutes=10),
        every: timedelta = timedelta(seconds=30),
    ) -> None:
        self._frames = frames
        self._terms = terms
        self._after = after
        self._every = every

    async def run(self) -> None:
        """Reap until cancelled."""
        while True:
            await asyncio.sleep(self._every.total_seconds() * (0.5 + random.random()))
            try:
                await self.sweep()
            except StoreError as error:
                _log.warning("reaper could not sweep", extra={"reason": str(error)})

    async def sweep(self) -> int:
        """Archive what is due, refresh the gauges, and return how many frames moved."""
        moved = 0
        while (batch := await self._frames.archive(older_than=self._after, limit=_BATCH)) > 0:
            moved += batch
        if self._terms is not None:
            await self._terms.forget_visits(ended_before=self._after, limit=_BATCH)
        waiting = await self._frames.waiting()
        metrics.HELD.set(waiting.held)
        metrics.UNACKNOWLEDGED.set(waiting.unacknowledged)
        metrics.UNACKNOWLEDGED_AGE.set(waiting.oldest_unacknowledged)
        return moved
