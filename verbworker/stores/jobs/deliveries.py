"""Jobs without a frame (listeners, gates, compensation) while this process handles them: one light row each.

The row is all that Postgres knows of such a job. When its worker dies, the sweep of another finds the row with its
lease over and has the engine hand the job out again, whether or not the engine's own timeout still works.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from verbworker.background.poll_loop import PollLoop, Service, run_all
from verbworker.job.job import Job
from verbworker.stores.batch import Batch
from verbworker.stores.database import Database
from verbworker.stores.sql import query


@dataclass(frozen=True, slots=True)
class _Write:
    """One change of a row: a new delivery, a heartbeat, or the end."""

    job: Job
    instance_uid: UUID | None = None
    is_new: bool = False
    is_end: bool = False


@dataclass(frozen=True, slots=True)
class Lapsed:
    """A row whose owner was not heard of any more, now held by this process until `lease_until`."""

    job_key: int
    type: str
    instance_uid: UUID | None
    retries: int
    lease_until: datetime


class Deliveries:
    """The rows of one process. One writer keeps the order of each job's writes, so no row outlives its job."""

    def __init__(
        self, database: Database, *, engine_id: str, owner: UUID, lease: timedelta = timedelta(seconds=30)
    ) -> None:
        self._database = database
        self._engine_id = engine_id
        self._owner = owner
        self._lease = lease
        self._rows: Batch[_Write, None] = Batch(self._write_many, lambda write: write.job.key, name="deliveries")
        beating = PollLoop("delivery-beats", self.beat, every=lease.total_seconds() / 3)
        self.services: tuple[Service, ...] = (self._rows, beating)
        self._handled: Counter[int] = Counter()
        self._beating: dict[int, _Write] = {}

    async def run(self) -> None:
        """Write the gathered rows, and keep them alive in the rhythm of the frames' heartbeat, until cancelled."""
        await run_all(self.services)

    async def begin(self, job: Job, instance_uid: UUID | None) -> None:
        """Write the row of a job before it is handled. Two deliveries of one job share it."""
        self._handled[job.key] += 1
        self._beating[job.key] = _Write(job, instance_uid)
        try:
            await self._rows.add(_Write(job, instance_uid, is_new=True))
        except BaseException:
            self.leave(job)
            raise

    def leave(self, job: Job) -> None:
        """Stop keeping a row alive: its job is not answered for, and the sweep hands it out again."""
        self._handled[job.key] -= 1
        if self._handled[job.key] <= 0:
            del self._handled[job.key]
            del self._beating[job.key]

    async def end(self, job: Job) -> None:
        """Remove the row of a job that is answered for, unless another delivery of it is being handled here."""
        self.leave(job)
        if job.key not in self._handled:
            await self._rows.add(_Write(job, is_end=True))

    async def beat(self) -> int:
        """Extend the lease of every row, and write those anew that another delivery removed."""
        beats = [self._rows.add(write) for write in self._beating.values()]
        for failed in await asyncio.gather(*beats, return_exceptions=True):
            if isinstance(failed, BaseException):
                raise failed
        return 0

    async def _write_many(self, writes: list[_Write]) -> list[None]:
        # A job may have ended, or come again, since its write was queued.
        alive = [one for one in writes if not one.is_end and one.job.key in self._handled]
        ended = [one.job.key for one in writes if one.is_end and one.job.key not in self._handled]
        await self._database.execute(
            query("deliveries", "write"),
            self._engine_id,
            self._owner,
            self._lease,
            sorted(ended),
            [one.job.key for one in alive],
            [one.job.type for one in alive],
            [one.instance_uid for one in alive],
            [one.job.retries for one in alive],
            [one.job.key for one in alive if one.is_new],
        )
        return [None] * len(writes)

    # ---- the sweep ------------------------------------------------------------------------------------------------

    async def take(self, *, grace: timedelta, limit: int) -> Sequence[Lapsed]:
        """Take rows whose lease has been over for the grace, for the length of a lease."""
        rows = await self._database.fetch(
            query("deliveries", "take"), self._engine_id, self._owner, self._lease, grace, limit
        )
        return [Lapsed(**row) for row in rows]

    async def remove(self, lapsed: Lapsed) -> None:
        """Remove a row that was taken, unless a worker got the job meanwhile."""
        await self._database.execute(
            query("deliveries", "remove"), self._engine_id, lapsed.job_key, self._owner, lapsed.lease_until
        )

    async def postpone(self, lapsed: Lapsed, *, grace: timedelta, pause: timedelta) -> None:
        """Have a row taken again after the pause, by any worker."""
        await self._database.execute(
            query("deliveries", "postpone"),
            *(self._engine_id, lapsed.job_key, self._owner, lapsed.lease_until, grace, pause),
        )
