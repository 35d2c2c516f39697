"""Slots: a job is asked for only when there is a place to work on it."""

import asyncio

from verbworker import metrics
from verbworker.limit import Limit


class Slots:
    """The places of one verb. A slot is taken before a job is read and given back when the job is done."""

    def __init__(self, verb: str, concurrency: int) -> None:
        self._verb = verb
        self._limit = Limit.of(concurrency)
        self._taken = 0
        self._changed = asyncio.Condition()
        metrics.LIMIT.labels(verb).set(concurrency)

    @property
    def free(self) -> int:
        """How many more jobs may be taken now."""
        return max(0, self._limit.granted() - self._taken)

    @property
    def taken(self) -> int:
        """How many slots are taken, by running jobs or by a request for more."""
        return self._taken

    @property
    def is_roomy(self) -> bool:
        """Whether a push and a poll can be waited for at once: each needs a slot of its own."""
        return self._limit.granted() > 1

    async def take(self, *, most: int, patience: float = 0.0) -> int:
        """Take up to `most` slots: waits for the first, and up to `patience` seconds for a third of them.

        One request for many jobs costs the engine hardly more than one for a single job.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self.free > 0)
            worth = min(most, max(1, self._limit.granted() // 3))
            if self.free < worth and patience > 0:
                try:
                    async with asyncio.timeout(patience):
                        await self._changed.wait_for(lambda: self.free >= worth)
                except TimeoutError:
                    await self._changed.wait_for(lambda: self.free > 0)
            count = min(most, self.free)
            self._taken += count
            return count

    async def give(self, count: int = 1) -> None:
        """Give slots back."""
        async with self._changed:
            self._taken -= count
            self._changed.notify_all()

    async def praise(self, jobs: int) -> None:
        """The engine gave `jobs` without complaint."""
        await self._adapt(self._limit.raised(jobs))

    async def blame(self) -> None:
        """The engine asked for less."""
        await self._adapt(self._limit.cut())

    async def _adapt(self, limit: Limit) -> None:
        if limit == self._limit:
            return
        async with self._changed:
            self._limit = limit
            metrics.LIMIT.labels(self._verb).set(limit.granted())
            self._changed.notify_all()
