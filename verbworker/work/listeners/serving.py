"""Serve jobs without a frame, so that none is stuck when its worker dies."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from verbworker.background.poll_loop import Service
from verbworker.errors import StoreConflict, StoreError, StoreUnavailable
from verbworker.job.job import Job
from verbworker.payload.boundary import JobVariables
from verbworker.retrying import DATABASE
from verbworker.stores.jobs.deliveries import Deliveries
from verbworker.work.listeners.job_handler import JobHandler

_log = logging.getLogger(__name__)

# Long enough for a Postgres restart; short enough that a slot is not held for the five minutes of a gate.
_PATIENCE_S = 30.0


class Serving:
    """Keeps a delivery row for each job that a handler serves, until the engine has an answer."""

    def __init__(self, deliveries: Deliveries, give_back: Callable[[Job, str], Awaitable[None]]) -> None:
        self._deliveries = deliveries
        self._give_back = give_back

    @property
    def services(self) -> tuple[Service, ...]:
        """Return the services that write the rows and keep them alive."""
        return self._deliveries.services

    async def serve(self, desk: JobHandler, job: Job) -> None:
        """Serve a job with its handler. An unfinished job keeps its row, and the sweep hands it out again."""
        try:
            has_row = await self._begin(job)
        except (StoreUnavailable, StoreConflict) as error:
            # Every handler needs the database, so none could do anything now. Returning the job needs the engine only,
            # and unlike its timeout that cannot get lost. The wait in `_begin` keeps this from becoming a hot loop.
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
        """Write the row, waiting for an unavailable database; return False if it is refused for another reason."""
        begin = partial(self._deliveries.begin, job, JobVariables.of(job).instance_uid)
        try:
            await DATABASE.run(begin, within=min(job.timeout_ms / 2000, _PATIENCE_S))
        except (StoreUnavailable, StoreConflict):
            raise
        except StoreError as error:
            # The row only insures against our own death: without it the job is served as usual.
            _log.error("delivery not written; the job is served all the same", extra={"reason": str(error)})
            return False
        return True

    async def _end(self, job: Job) -> None:
        try:
            await self._deliveries.end(job)
        except StoreError as error:
            # Its lease now expires: the sweep asks the engine, learns that the job is gone, and removes the row.
            _log.warning("delivery not removed", extra={"job_key": job.key, "reason": str(error)})
