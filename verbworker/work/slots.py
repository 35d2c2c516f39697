"""Slots: a job is asked for only when there is a place to work on it."""

import asyncio
from contextlib import suppress

from verbworker import metrics
from verbworker.limit import Limit


class Slots:
    """The places of one verb. A slot is taken before a job is read and given back when the job is done."""

    def __init__(self, verb: str, concurrency: int) -> None:
        self._gauge = metrics.LIMIT.labels(verb)
        self._limit = Limit.of(concurrency)
        self._taken = 0
        self._changed = asyncio.Event()
        self._gauge.set(concurrency)

    @property
    def free(self) -> int:
        """How many more jobs may be taken now."""
        return max(0, self._limit.granted() - self._taken)

    def room(self, asked: int) -> int:
        """How many slots are not at work, given that `asked` are taken by requests for jobs."""
        return self._limit.granted() - (self._taken - asked)

    async def take(self, *, most: int, patience: float = 0.0) -> int:
        """Take up to `most` slots: waits for the first, and up to `patience` seconds for a third of them.

        One request for many jobs costs the engine hardly more than one for a single job.
        """
        await self._until(1)
        worth = min(most, max(1, self._limit.granted() // 3))
        if self.free < worth and patience > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._until(worth)
            await self._until(1)
        count = min(most, self.free)
        self._taken += count
        return count

    async def _until(self, free: int) -> None:
        while self.free < free:
            await self._changed.wait()

    def give(self, count: int = 1) -> None:
        """Give slots back."""
        self._taken -= count
        self._stir()

    def praise(self, jobs: int) -> None:
        """The engine gave `jobs` without complaint."""
        self._adapt(self._limit.raised(jobs))

    def blame(self) -> None:
        """The engine asked for less."""
        self._adapt(self._limit.cut())

    def _adapt(self, limit: Limit) -> None:
        self._limit = limit
        self._gauge.set(limit.granted())
        self._stir()

    def _stir(self) -> None:
        """Have everybody who waits look again."""
        self._changed.set()
        self._changed = asyncio.Event()
