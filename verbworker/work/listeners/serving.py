"""Serving: what surrounds the handling of a job without a frame, so that no such job hangs when its worker dies."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from itertools import count

from verbworker.background.poll_loop import Service
from verbworker.errors import StoreConflict, StoreError, StoreUnavailable
from verbworker.job.job import Job
from verbworker.payload.boundary import JobVariables
from verbworker.retrying import backoff
from verbworker.stores.jobs.deliveries import Deliveries
from verbworker.work.listeners.job_handler import JobHandler

_log = logging.getLogger(__name__)

# Long enough for a Postgres that restarts; short enough that a slot is not held for the five minutes of a gate.
_PATIENCE_S = 30.0


class Serving:
    """Keeps a delivery row for each job that a desk serves, until the engine has an answer."""

    def __init__(self, deliveries: Deliveries, give_back: Callable[[Job, str], Awaitable[None]]) -> None:
        self._deliveries = deliveries
        self._give_back = give_back

    @property
    def services(self) -> tuple[Service, ...]:
        """Return the services that write the rows and keep them alive."""
        return self._deliveries.services

    async def serve(self, desk: JobHandler, job: Job) -> None:
        """Have a desk serve a job. What it leaves undone keeps its row, and the sweep hands it out again."""
        try:
            has_row = await self._begin(job)
        except (StoreUnavailable, StoreConflict) as error:
            # Every desk needs the database, so none could do anything now. Giving the job back needs the engine only,
            # and unlike its timeout that cannot get lost. The wait behind us keeps this from going round quickly.
            _log.warning("database away, job given back", extra={"job_key": job.key, "reason": str(error)})
            await self._give_back(job, "the database is away")
            return
        is_answered = False
        try:
            is_answered = await desk.serve(job)
        finally:
            if has_row and not is_answered:
                self._deliveries.leave(job)
        if has_row and is_answered:
            await self._end(job)

    async def _begin(self, job: Job) -> bool:
        """Write the row, waiting for a database that is away; False when it is refused for another reason."""
        clock = asyncio.get_running_loop().time
        give_up = clock() + min(job.timeout_ms / 2000, _PATIENCE_S)
        for failures in count():
            try:
                await self._deliveries.begin(job, JobVariables.of(job).instance_uid)
            except (StoreUnavailable, StoreConflict):
                if clock() >= give_up:
                    raise
                await asyncio.sleep(backoff(failures, random.random()))
            except StoreError as error:
                # The row only insures against our own death: without it the job is served as ever.
                _log.error("delivery not written; the job is served all the same", extra={"reason": str(error)})
                return False
            else:
                return True
        raise AssertionError("counting never ends")

    async def _end(self, job: Job) -> None:
        try:
            await self._deliveries.end(job)
        except StoreError as error:
            # Its lease runs out now: the sweep asks the engine, hears that the job is gone, and removes the row.
            _log.warning("delivery not removed", extra={"job_key": job.key, "reason": str(error)})
