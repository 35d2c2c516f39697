"""Strays: instances the engine runs and nobody wants, because they were started twice or their entry ended first."""

import logging
from uuid import UUID

from verbworker.engine import Engine
from verbworker.errors import EngineError, JobGone, PermanentContract, TransientInfrastructure
from verbworker.frame import Correlation
from verbworker.job import Job
from verbworker.stores.dispatches import Dispatches

_log = logging.getLogger(__name__)


class Strays:
    """Tells strays by their jobs, and has the engine end them: an instance nobody would ever finish is not left."""

    def __init__(self, engine: Engine, dispatches: Dispatches) -> None:
        self._engine = engine
        self._dispatches = dispatches

    async def catch(self, job: Job, instance: Correlation | None, instance_uid: UUID) -> bool:
        """End the instance of a job when it is a stray; False when it is none.

        Raises `TransientInfrastructure` while the engine cannot be told: the job comes again.
        """
        if instance is None or not await self._is_stray(job, instance, instance_uid):
            return False
        _log.warning(
            "an instance nobody wants is cancelled",
            extra={"instance_key": job.process_instance_key, "entry_id": str(instance.entry_id)},
        )
        try:
            await self._engine.cancel(job.process_instance_key)
        except JobGone:
            return True
        except EngineError as error:
            raise TransientInfrastructure(
                f"the instance cannot be cancelled now: {error}", code="NotCancelled"
            ) from error
        return True

    async def refuse(self, job: Job, instance: Correlation | None, instance_uid: UUID | None) -> None:
        """End the instance of a job when it is a stray, and raise `PermanentContract`: its verb is not performed."""
        if instance_uid is not None and await self.catch(job, instance, instance_uid):
            raise PermanentContract("nobody wants this instance any more; it was cancelled", code="InstanceStray")

    async def _is_stray(self, job: Job, instance: Correlation, instance_uid: UUID) -> bool:
        if instance.instance_key == job.process_instance_key:
            # An entry that ended well has an instance that is just ending; one that was cancelled has none.
            return instance.status == "cancelled"
        if instance.instance_key is None:
            return instance.has_ended
        # Another one has the identity of this. If its start was surely sent once, somebody forged it: a person looks.
        return await self._dispatches.is_doubtful(instance_uid)
