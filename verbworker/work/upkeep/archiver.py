"""The archiver: moves acknowledged frames into the archive, drops ended visits, counts what waits for a person."""

from datetime import timedelta

from verbworker import metrics
from verbworker.background.poll_loop import PollLoop
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.task_profiles import TaskProfileStore

_BATCH = 2000


class Archiver:
    """Keeps the hot table small. Any number of workers may archive concurrently."""

    def __init__(
        self,
        frames: Frames,
        terms: TaskProfileStore | None = None,
        *,
        after: timedelta = timedelta(minutes=10),
        every: timedelta = timedelta(seconds=30),
    ) -> None:
        self._frames = frames
        self._terms = terms
        self._after = after
        seconds = every.total_seconds()
        self.service = PollLoop(
            "reaper", self.archive, every=seconds, chore=self.tidy, chore_every=seconds, first_after=seconds
        )

    async def archive(self) -> int:
        """Archive one batch of frames and return how many moved."""
        return await self._frames.archive(older_than=self._after, limit=_BATCH)

    async def tidy(self) -> None:
        """Drop visits of steps that ended, and refresh the gauges."""
        if self._terms is not None:
            await self._terms.forget_visits(ended_before=self._after, limit=_BATCH)
        waiting = await self._frames.waiting()
        metrics.HELD.set(waiting.held)
        metrics.UNACKNOWLEDGED.set(waiting.unacknowledged)
        metrics.UNACKNOWLEDGED_AGE.set(waiting.oldest_unacknowledged)

    async def sweep(self) -> int:
        """Archive all due frames, tidy up, and return how many frames moved."""
        moved = 0
        while (batch := await self.archive()) > 0:
            moved += batch
        await self.tidy()
        return moved
