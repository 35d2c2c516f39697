"""Jobs without a frame (listeners, gates, compensation) that this process is handling: one small row each.

The row is all that Postgres knows of such a job. When its worker dies, another worker's sweep finds the expired row and
has the engine deliver the job again, whether or not the engine's own timeout still works.
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
class ExpiredDelivery:
    """A row whose owner's lease expired, now leased to this process until `lease_until`."""

    job_key: int
    type: str
    instance_uid: UUID | None
    retries: int
    lease_until: datetime


class Deliveries:
    """The rows of one process. A single writer keeps each job's writes in order, so no row outlives its job."""

    def __init__(
        self, database: Database, *, engine_id: str, owner: UUID, lease: timedelta = timedelta(seconds=30)
    ) -> None:
        self._database = database
        self._engine_id = engine_id
        self._owner = owner
        self._lease = lease
        self._rows: Batch[_Write, None] = Batch(self._write_many, lambda write: write.job.key, name="deliveries")
        heartbeat = PollLoop("delivery-beats", self.beat, every=lease.total_seconds() / 3)
        self.services: tuple[Service, ...] = (self._rows, heartbeat)
        self._handled: Counter[int] = Counter()
        self._kept_alive: dict[int, _Write] = {}

    async def run(self) -> None:
        """Write batched rows, and renew their leases as often as the frames' heartbeat does, until cancelled."""
        await run_all(self.services)

    async def begin(self, job: Job, instance_uid: UUID | None) -> None:
        """Write a job's row before the job is handled. Two deliveries of one job share it."""
        self._handled[job.key] += 1
        self._kept_alive[job.key] = _Write(job, instance_uid)
        try:
            await self._rows.add(_Write(job, instance_uid, is_new=True))
        except BaseException:
            self.leave(job)
            raise

    def leave(self, job: Job) -> None:
        """Stop renewing a row: its job was not answered, and the sweep has it delivered again."""
        self._handled[job.key] -= 1
        if self._handled[job.key] <= 0:
            del self._handled[job.key]
            del self._kept_alive[job.key]

    async def end(self, job: Job) -> None:
        """Remove the row of an answered job, unless this process is handling another delivery of it."""
        self.leave(job)
        if job.key not in self._handled:
            await self._rows.add(_Write(job, is_end=True))

    async def beat(self) -> int:
        """Renew the lease of every row, and rewrite rows that another delivery removed."""
        beats = [self._rows.add(write) for write in self._kept_alive.values()]
        for failed in await asyncio.gather(*beats, return_exceptions=True):
            if isinstance(failed, BaseException):
                raise failed
        return 0

    async def _write_many(self, writes: list[_Write]) -> list[None]:
        # A job may have ended, or been delivered again, since its write was queued.
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

    async def take(self, *, grace: timedelta, limit: int) -> Sequence[ExpiredDelivery]:
        """Claim, for one lease, rows whose lease expired at least `grace` ago."""
        rows = await self._database.fetch(
            query("deliveries", "take"), self._engine_id, self._owner, self._lease, grace, limit
        )
        return [ExpiredDelivery(**row) for row in rows]

    async def remove(self, lapsed: ExpiredDelivery) -> None:
        """Remove a claimed row, unless a worker received the job meanwhile."""
        await self._database.execute(
            query("deliveries", "remove"), self._engine_id, lapsed.job_key, self._owner, lapsed.lease_until
        )

    async def postpone(self, lapsed: ExpiredDelivery, *, grace: timedelta, pause: timedelta) -> None:
        """Let any worker claim a row again after the pause."""
        await self._database.execute(
            query("deliveries", "postpone"),
            *(self._engine_id, lapsed.job_key, self._owner, lapsed.lease_until, grace, pause),
        )
