"""Slots: a job is requested only if a slot is free for it, and every slot is released exactly once."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from verbworker import metrics


@dataclass(frozen=True, slots=True)
class Limit:
    """Additive increase, multiplicative decrease, between 1 and `ceiling`."""

    ceiling: int
    value: float

    @classmethod
    def of(cls, ceiling: int) -> "Limit":
        """Start at the ceiling: a healthy engine needs no warm-up."""
        return cls(ceiling, float(ceiling))

    def whole(self) -> int:
        """Return the limit as a whole number."""
        return max(1, int(self.value))

    def increase(self, jobs: int) -> "Limit":
        """Return the limit after `jobs` were taken without complaint: about one more per full round."""
        return replace(self, value=min(float(self.ceiling), self.value + jobs / max(self.value, 1.0)))

    def cut(self) -> "Limit":
        """Return the limit after the engine asked for less."""
        return replace(self, value=max(1.0, self.value / 2))


class Slot:
    """The slot of one job. It belongs to the job after `Reservation.assign`; a second release has no effect."""

    def __init__(self, slots: "Slots") -> None:
        self._slots: Slots | None = slots

    def release(self) -> None:
        """Release the slot."""
        slots, self._slots = self._slots, None
        if slots is not None:
            slots._change(assigned=-1)


class Reservation:
    """Slots held by one request for jobs. Leaving the context releases those that no job got."""

    def __init__(self, slots: "Slots", count: int) -> None:
        self._slots = slots
        self._count = count

    @property
    def count(self) -> int:
        """Return how many slots no job got yet."""
        return self._count

    def assign(self) -> Slot:
        """Assign one slot to a job."""
        if self._count < 1:
            raise ValueError("no slot is left in this reservation")
        self._count -= 1
        self._slots._change(reserved=-1, assigned=1)
        return Slot(self._slots)

    def release(self) -> None:
        """Release the slots that no job got."""
        count, self._count = self._count, 0
        if count:
            self._slots._change(reserved=-count)

    def __enter__(self) -> Self:
        """Return the reservation, which already holds its slots."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the slots that no job got, however the request ended."""
        self.release()


class Slots:
    """The slots of one verb. Each is free, reserved by a request for jobs, or assigned to one job.

    No method releases a bare number: a slot is released by the one object that holds it.
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
        """Return how many more jobs may be requested now."""
        return max(0, self._limit.whole() - self._reserved - self._assigned)

    @property
    def room(self) -> int:
        """Return how many slots no job works in: free ones and those reserved by requests for jobs."""
        return self._limit.whole() - self._assigned

    async def reserve(self, *, most: int, linger: float = 0.0) -> Reservation:
        """Reserve up to `most` slots: wait for the first, and up to `linger` seconds for a third of them.

        One request for many jobs costs the engine hardly more than one for a single job.
        """
        await self._until(1)
        worth = min(most, max(1, self._limit.whole() // 3))
        if self.free < worth and linger > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(linger):
                    await self._until(worth)
            await self._until(1)
        # No await from here on: a cancelled caller has either nothing or the reservation.
        reservation = Reservation(self, min(most, self.free))
        self._reserved += reservation.count
        return reservation

    async def _until(self, free: int) -> None:
        while self.free < free:
            await self._changed.wait()

    def note_answer(self, jobs: int) -> None:
        """Raise the limit: the engine delivered `jobs` without complaint."""
        self._adapt(self._limit.increase(jobs))

    def note_refusal(self) -> None:
        """Cut the limit: the engine asked for less."""
        self._adapt(self._limit.cut())

    def _adapt(self, limit: Limit) -> None:
        self._limit = limit
        self._gauge.set(limit.whole())
        self._wake()

    def _change(self, *, reserved: int = 0, assigned: int = 0) -> None:
        self._reserved += reserved
        self._assigned += assigned
        self._wake()

    def _wake(self) -> None:
        """Wake every waiter to check again."""
        self._changed.set()
        self._changed = asyncio.Event()
