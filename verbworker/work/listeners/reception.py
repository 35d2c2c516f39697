"""Listener jobs: check which instance they belong to, record them in one commit, and answer the engine."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from verbworker.engine.protocol import Engine
from verbworker.errors import (
    DuplicateInstance,
    EngineError,
    JobGone,
    PermanentContract,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    TransientInfrastructure,
)
from verbworker.job.frame import InstanceFacts
from verbworker.job.job import RESERVED, Job
from verbworker.job.outcome import describe_failure
from verbworker.model.weave import COMPLETE
from verbworker.payload.boundary import JobVariables, correlate
from verbworker.runbook.event import ParkedToken, Wait
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Connection, Database
from verbworker.work.starts.duplicate_instances import InstanceIdentity, has_job

_log = logging.getLogger(__name__)

_SOON_MS = 2_000


@dataclass(frozen=True, slots=True)
class ListenerVisit:
    """A listener job of an instance that is known, running, and locked."""

    job: Job
    luggage: JobVariables
    instance: InstanceFacts
    instance_uid: UUID

    def token(self, kind: Wait, reason: str, *, message: str | None = None, key: str | None = None) -> ParkedToken:
        """Return a wait at the job's element."""
        return ParkedToken(
            tenant_id=self.instance.tenant_id,
            entry_id=self.instance.entry_id,
            instance_uid=self.instance_uid,
            engine_id=self.instance.engine_id,
            instance_key=self.job.process_instance_key,
            element_instance_key=self.job.element_instance_key,
            element_id=self.job.element_id,
            kind=kind,
            reason=reason,
            message_name=message,
            correlation_key=key,
            job_key=self.job.key if kind is Wait.INCIDENT else None,
        )


Act = Callable[[Connection, ListenerVisit], Awaitable[bool]]
"""Handles a job in one transaction; returns False if the engine must not continue because of it."""


@dataclass(frozen=True, slots=True)
class ListenerKind:
    """The handler of one type of listener."""

    type: str
    reception: "ListenerJobs"
    act: Act
    concurrency: int = 16
    timeout: timedelta | None = None
    variables: tuple[str, ...] = RESERVED

    async def serve(self, job: Job) -> bool:
        """Serve one delivery; return False if it must be redelivered."""
        return await self.reception.receive(job, self.act)


class ListenerJobs:
    """Handles listener jobs. They have no frames: each is one commit, and repeating it changes nothing."""

    def __init__(self, database: Database, engine: Engine, identity: InstanceIdentity) -> None:
        self._database = database
        self._engine = engine
        self._identity = identity
        self._instances = Instances(database)
        self._runbook = Runbook(database)

    async def receive(self, job: Job, act: Act) -> bool:
        """Act on a job of a running instance of ours, then complete it; return False if it must be redelivered.

        Never raises because of a job.
        """
        luggage = JobVariables.of(job)
        try:
            if await self._settle(job, luggage, act):
                await self._engine.complete(job.key, {})
        except (JobGone, DuplicateInstance):
            return True  # our twin was first, or the instance was cancelled
        except PermanentContract as error:
            return await self._refuse(job, luggage, error)
        except TransientInfrastructure as error:
            return await self._try_again(job, luggage, error)
        except (StoreUnavailable, StoreConflict, EngineError) as error:
            _log.warning("listener job is delivered again", extra={"job_key": job.key, "reason": str(error)})
            return await self._come_again_soon(job)
        except Exception:
            _log.exception("a bug in the bridge; the job is delivered again", extra={"job_key": job.key})
            return False
        return True

    async def has(self, job: Job) -> bool:
        """Return whether the engine has a job; raises `TransientInfrastructure` while it cannot be asked."""
        return await has_job(self._engine, job)

    async def _settle(self, job: Job, luggage: JobVariables, act: Act) -> bool:
        """Act on a job; return False if the engine must not continue because of it. Raises `DuplicateInstance`."""
        uid = luggage.instance_uid
        known = None if uid is None else await self._instances.facts(uid)
        _, uid = correlate(job, luggage, await self._identity.admit(job, luggage, known))
        async with self._database.transaction() as connection:
            instance = await self._instances.hold_in(connection, uid)
            assert instance is not None, "instances are never deleted"
            if not instance.has_ended:
                visit = ListenerVisit(job, luggage, instance, uid)
                token = visit.token(Wait.INCIDENT, "")
                await self._runbook.let_go_in(connection, token, _once(job), _about(job))
                return await act(connection, visit)
        # A cancelled entry has no job to complete, and `admit` cancels the instance; for a completed one the engine may
        # not have received that its last job was done.
        await self._identity.admit(job, luggage, instance)
        if job.type != COMPLETE:
            await self._identity.refuse_after_end(job, instance)
        return True

    # ---- stopping a job -------------------------------------------------------------------------------------------

    async def _refuse(
        self, job: Job, luggage: JobVariables, error: PermanentContract | TransientInfrastructure
    ) -> bool:
        """Stop the job for a person: in the runbook if there is an entry, and always in the engine."""
        message = describe_failure(
            error.kind, error.code, str(error), verb=job.type, entry_id=luggage.entry_id, job_key=job.key
        )
        _log.error("a listener job is refused", extra={"job_key": job.key, "reason": message})
        try:
            await self._tell(job, luggage, error)
            await self._engine.fail(job.key, retries=0, message=message)
        except JobGone:
            return True
        except (StoreError, EngineError) as away:
            _log.warning("refusal not told", extra={"job_key": job.key, "reason": str(away)})
            return await self._come_again_soon(job)
        return True

    async def _tell(self, job: Job, luggage: JobVariables, error: PermanentContract | TransientInfrastructure) -> None:
        uid = luggage.instance_uid
        async with self._database.transaction() as connection:
            instance = None if uid is None else await self._instances.hold_in(connection, uid)
            if uid is None or instance is None or instance.instance_key != job.process_instance_key:
                return  # it has no entry; the engine's incident is all there is to see
            token = ListenerVisit(job, luggage, instance, uid).token(Wait.INCIDENT, f"Waiting for an operator: {error}")
            detail = {**_about(job), "class": error.kind, "code": error.code, "text": str(error)}
            await self._runbook.hold_up_in(connection, token, _once(job), detail)

    async def _try_again(self, job: Job, luggage: JobVariables, error: TransientInfrastructure) -> bool:
        if job.retries <= 1:
            return await self._refuse(job, luggage, error)
        try:
            await self._engine.fail(job.key, retries=job.retries - 1, message=str(error), backoff_ms=_SOON_MS)
        except EngineError as away:
            _log.debug("left undone", extra={"job_key": job.key, "reason": str(away)})
            return False
        return True

    async def _come_again_soon(self, job: Job) -> bool:
        """Ask for another delivery and return False. If the engine's timeout is lost, the sweep hands the job out."""
        try:
            await self._engine.extend(job.key, _SOON_MS)
        except EngineError as error:
            _log.debug("left undone", extra={"job_key": job.key, "reason": str(error)})
        return False


def _once(job: Job) -> str:
    return f"{job.key}:{job.activated_ms}"


def _about(job: Job) -> dict[str, object]:
    return {"verb": job.type, "job_key": job.key, "instance_key": job.process_instance_key}
