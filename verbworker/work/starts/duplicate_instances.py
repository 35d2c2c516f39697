"""Decide which engine instance carries out an entry, and end the others.

Exactly one engine instance belongs to an entry: the one it is pinned to. Pinning is a compare-and-set, and the instance
that loses it is a duplicate. A duplicate never runs a verb; it is cancelled in the engine.
"""

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from verbworker import metrics
from verbworker.engine.protocol import Engine
from verbworker.errors import DuplicateInstance, EngineError, JobGone, JobNotActive, LeaseLost, TransientInfrastructure
from verbworker.job.frame import InstanceFacts
from verbworker.job.job import Job
from verbworker.payload.boundary import JobVariables
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.instances import Instances

_log = logging.getLogger(__name__)

# Each round means that another worker pinned or re-pinned the same instance meanwhile.
_ROUNDS = 5

CONTENDED_FOR = timedelta(seconds=60)
"""How long a living key proves nothing. A broker that lost its last records gives keys out again, each to the entry
behind the one that had it; every entry gets its own key as soon as a job of the one before it comes."""
_MOST_CONTENDED = 10_000  # more entries than a broker can lose at once; a megabyte


async def has_job(engine: Engine, job: Job) -> bool:
    """Return whether the engine has a job; raises `TransientInfrastructure` while it cannot be asked.

    Raises `LeaseLost` if the engine has given it to another worker since.
    """
    try:
        await engine.extend(job.key, job.timeout_ms, lease_token=job.lease_token)
    except LeaseLost:
        raise
    except JobGone:
        return False
    except JobNotActive:
        return True
    except EngineError as error:
        raise TransientInfrastructure(f"the engine cannot be asked now: {error}", code="NotAsked") from error
    return True


class InstanceIdentity:
    """Admits jobs of an entry's own instance and refuses all others.

    Without an engine it pins and refuses, and neither cancels nor adopts. A job whose entry has another key, which is
    alive, is put off for `patience` before its identity counts as forged.
    """

    def __init__(
        self,
        instances: Instances,
        engine: Engine | None = None,
        dispatches: Dispatches | None = None,
        *,
        patience: timedelta = timedelta(0),
    ) -> None:
        self._instances = instances
        self._engine = engine
        self._dispatches = dispatches
        self._patience = patience.total_seconds()
        self._contended: dict[int, float] = {}  # since when, by job

    async def admit(self, job: Job, reserved: JobVariables, known: InstanceFacts | None) -> InstanceFacts | None:
        """Return the job's instance in its current state, pinned to the engine instance of the job.

        Returns `known` unchanged if nothing can be pinned: the caller reports what is wrong with such a job. Raises
        `DuplicateInstance` after its engine instance was cancelled, and `TransientInfrastructure` while the engine
        cannot be asked.
        """
        uid = reserved.instance_uid
        for _ in range(_ROUNDS):
            if known is None or uid is None or not _is_ours(reserved, known):
                return known
            if known.instance_key == job.process_instance_key:
                return await self._admit_own(job, known)
            if known.has_ended:
                return await self._admit_after_end(job, known, uid)
            if known.instance_key is None:
                if await self._instances.pin_to(uid, job, reserved.hash):
                    return replace(
                        known,
                        instance_key=job.process_instance_key,
                        definition_key=job.process_definition_key,
                        status="active",
                    )
            elif not await self._adopt(job, reserved, known, known.instance_key, uid):
                return known
            known = await self._instances.facts(uid)
        raise TransientInfrastructure("other workers keep pinning the instance", code="PinContended")

    async def refuse_after_end(self, job: Job, known: InstanceFacts) -> None:
        """Cancel the instance of a job whose entry has ended: the engine forgot its end. Raises `DuplicateInstance`.

        Not for the job that ends an instance: it is redelivered if the engine did not receive its completion. A late
        delivery of any other completed job is refused, and its instance is left to end by itself.
        """
        if self._engine is None or not known.has_ended:
            return
        if not await has_job(self._engine, job):
            raise DuplicateInstance("the entry has ended, and the job is gone", code="InstanceEnded")
        await self._refuse(job, known)

    async def _admit_own(self, job: Job, known: InstanceFacts) -> InstanceFacts:
        # A completed entry has an instance that is just ending; a cancelled entry must have none.
        if known.status == "cancelled":
            await self._refuse(job, known)
        return known

    async def _admit_after_end(self, job: Job, known: InstanceFacts, uid: UUID) -> InstanceFacts:
        """Cancel a second instance of an entry that has ended, unless its identity may be forged."""
        if known.instance_key is None or await self._is_doubtful(uid) or not await self._is_alive(known.instance_key):
            await self._refuse(job, known)
        return known

    async def _adopt(self, job: Job, reserved: JobVariables, known: InstanceFacts, pinned: int, uid: UUID) -> bool:
        """Adopt a job's engine instance if the pinned one is gone; return False if the identity may be forged.

        A broker that lost its last records creates an instance again under another key.
        """
        if self._engine is None:
            return False
        if await self._is_alive(pinned):
            if await self._is_doubtful(uid):
                await self._refuse(job, known)
            self._be_patient(job)
            # Its start was sent once, so this identity was copied: a person must look.
            return False
        # A late delivery of an instance that was cancelled as a duplicate must not make it the entry's own.
        if not await has_job(self._engine, job):
            raise DuplicateInstance("the job's instance is gone, as the entry's own is", code="InstanceGone")
        if not await self._instances.knows(uid, reserved.hash):
            return False
        if await self._instances.adopt(uid, job, instead_of=pinned):
            metrics.ADOPTED.inc()
            _log.warning(
                "the engine re-created an instance under another key; it was adopted",
                extra={"instance_key": job.process_instance_key, "was": pinned, "entry_id": str(known.entry_id)},
            )
        return True

    def _be_patient(self, job: Job) -> None:
        """Raise `TransientInfrastructure` as long as the living key of an entry may have become another's."""
        now = asyncio.get_running_loop().time()
        if now - self._contended.setdefault(job.key, now) < self._patience:
            if len(self._contended) > _MOST_CONTENDED:
                del self._contended[next(iter(self._contended))]
            raise TransientInfrastructure("the key of the entry's instance may be another's now", code="KeyContended")
        del self._contended[job.key]

    async def _refuse(self, job: Job, known: InstanceFacts) -> None:
        """Cancel the engine instance of a job and raise `DuplicateInstance`."""
        if self._engine is None:
            return
        extra = {"instance_key": job.process_instance_key, "entry_id": str(known.entry_id)}
        _log.warning("a duplicate or unwanted instance is cancelled", extra=extra)
        try:
            await self._engine.cancel(job.process_instance_key)
        except JobGone:
            pass
        except EngineError as error:
            raise TransientInfrastructure(
                f"the instance cannot be cancelled now: {error}", code="NotCancelled"
            ) from error
        metrics.DUPLICATES.inc()
        raise DuplicateInstance(
            "this engine instance no longer belongs to its entry; it was cancelled", code="DuplicateInstance"
        )

    async def _is_doubtful(self, uid: UUID) -> bool:
        return self._dispatches is not None and await self._dispatches.is_doubtful(uid)

    async def _is_alive(self, instance_key: int) -> bool:
        if self._engine is None:
            return True
        try:
            return await self._engine.alive(instance_key)
        except EngineError as error:
            raise TransientInfrastructure(f"the engine cannot be asked now: {error}", code="NotAsked") from error


def _is_ours(reserved: JobVariables, known: InstanceFacts) -> bool:
    return reserved.entry_id == known.entry_id and reserved.tenant_id == known.tenant_id
