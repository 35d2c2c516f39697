"""The cancel listener of a process: a cancellation made in the engine ends the entry at once.

Camunda 8.10 creates its job when an instance is cancelled, by us or by a person in Operate, and ends the instance when
the job is completed. So the job is always completed, whatever is known of its instance: one that is left would keep a
cancelled instance in the engine. Older engines have no such listener; there the reconciler finds out.
"""

from datetime import timedelta
from functools import partial

from verbworker.engine.protocol import Engine
from verbworker.errors import PermanentContract
from verbworker.job.job import RESERVED, Job
from verbworker.job.outcome import NO_RESULT
from verbworker.model.weave import CANCEL
from verbworker.payload.boundary import JobVariables
from verbworker.stores.cases.instances import Instances
from verbworker.stores.database import Database
from verbworker.work.listeners.job_handler import InternalJobs
from verbworker.work.starts.cancel import Cancellation

_WHY = "cancelled in the engine"


class CancelListener:
    """The handler of the cancel listener."""

    type = CANCEL
    timeout: timedelta | None = None
    variables = RESERVED

    def __init__(self, database: Database, engine: Engine, cancelling: Cancellation, *, concurrency: int = 16) -> None:
        self._engine = engine
        self._cancelling = cancelling
        self._instances = Instances(database)
        self._jobs = InternalJobs(database, engine, None)
        self.concurrency = concurrency

    async def serve(self, job: Job) -> bool:
        """End the entry of a cancelled instance; return False if the job must be redelivered."""
        return await self._jobs.serve(job, partial(self._end, job), refuse=partial(self._complete, job))

    async def _end(self, job: Job) -> bool:
        if await self._jobs.is_lost(job):
            return True
        uid = JobVariables.of(job).instance_uid
        known = None if uid is None else await self._instances.facts(uid)
        # A duplicate of the entry is cancelled by us, and its own instance goes on.
        if known is not None and not known.has_ended and known.instance_key == job.process_instance_key:
            key = job.process_instance_key
            await self._cancelling.end_outside(known.entry_id, key, why=_WHY, is_reported=True)
        return await self._complete(job)

    async def _complete(self, job: Job, why: PermanentContract | None = None) -> bool:
        await self._engine.complete(job.key, NO_RESULT, lease_token=job.lease_token)
        return True
