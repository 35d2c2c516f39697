"""Slots: a job is asked for only when there is a place to work on it, and every place comes back exactly once."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from verbworker import metrics
from verbworker.work.feeds.limit import Limit


class Slot:
    """The slot of one job. It belongs to the job from `Reservation.assign` on; releasing it twice releases it once."""

    def __init__(self, slots: "Slots") -> None:
        self._slots: Slots | None = slots

    def release(self) -> None:
        """Give the slot back."""
        slots, self._slots = self._slots, None
        if slots is not None:
            slots._change(assigned=-1)


class Reservation:
    """Slots held by one request for jobs. Leaving the context gives back those that no job got."""

    def __init__(self, slots: "Slots", count: int) -> None:
        self._slots = slots
        self._count = count

    @property
    def count(self) -> int:
        """How many slots no job got yet."""
        return self._count

    def assign(self) -> Slot:
        """Hand one slot over to a job."""
        if self._count < 1:
            raise ValueError("no slot is left in this reservation")
        self._count -= 1
        self._slots._change(reserved=-1, assigned=1)
        return Slot(self._slots)

    def release(self) -> None:
        """Give back what no job got."""
        count, self._count = self._count, 0
        if count:
            self._slots._change(reserved=-count)

    def __enter__(self) -> Self:
        """Hold the slots."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give back what no job got, whatever ended the request."""
        self.release()


class Slots:
    """The slots of one verb. Each is free, reserved by a request for jobs, or assigned to one job.

    There is no call that gives back a bare number: a slot is given back by the one object that holds it.
    """

    def __init__(self, verb: str, concurrency: int) -> None:
        self._gauge = metrics.LIMIT.labels(verb)
        self._limit = Limit.of(concurrency)
        self._reserved = 0
        self._assigned = 0
        self._changed = asyncio.Event()
        self._gauge.set(concurrency)

    @property
    def free(self) -> int:
        """How many more jobs may be asked for now."""
        return max(0, self._limit.granted() - self._reserved - self._assigned)

    @property
    def room(self) -> int:
        """How many slots no job works in: free ones and those reserved by requests for jobs."""
        return self._limit.granted() - self._assigned

    async def reserve(self, *, most: int, patience: float = 0.0) -> Reservation:
        """Reserve up to `most` slots: waits for the first, and up to `patience` seconds for a third of them.

        One request for many jobs costs the engine hardly more than one for a single job.
        """
        await self._until(1)
        worth = min(most, max(1, self._limit.granted() // 3))
        if self.free < worth and patience > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._until(worth)
            await self._until(1)
        # No await from here on: a cancelled caller has either nothing or the reservation.
        reservation = Reservation(self, min(most, self.free))
        self._reserved += reservation.count
        return reservation

    async def _until(self, free: int) -> None:
        while self.free < free:
            await self._changed.wait()

    def praise(self, jobs: int) -> None:
        """The engine gave `jobs` without complaint."""
        self._adapt(self._limit.raised(jobs))

    def blame(self) -> None:
        """The engine asked for less."""
        self._adapt(self._limit.cut())

    def _adapt(self, limit: Limit) -> None:
        self._limit = limit
        self._gauge.set(limit.granted())
        self._wake()

    def _change(self, *, reserved: int = 0, assigned: int = 0) -> None:
        self._reserved += reserved
        self._assigned += assigned
        self._wake()

    def _wake(self) -> None:
        """Have every waiter look again."""
        self._changed.set()
        self._changed = asyncio.Event()
