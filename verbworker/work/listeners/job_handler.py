"""Handlers of jobs that are not verbs: how each is served, and the skeleton that all of them share."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol, runtime_checkable
from uuid import UUID

from verblint.contracts.contract import FlagType
from verbworker.background.poll_loop import Service
from verbworker.contract.flags import FLAG_PREFIX
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import Engine
from verbworker.errors import (
    DuplicateInstance,
    EngineError,
    InstanceSuspended,
    JobGone,
    LeaseLost,
    PermanentContract,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    TransientInfrastructure,
)
from verbworker.job.frame import InstanceFacts
from verbworker.job.job import RESERVED, Job
from verbworker.job.outcome import NO_RESULT, describe_failure
from verbworker.model.weave import COMPLETE
from verbworker.payload.boundary import JobVariables, correlate
from verbworker.retrying import DATABASE
from verbworker.runbook.event import ParkedToken, Wait
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.cases.suspensions import Suspensions
from verbworker.stores.database import Connection, Database
from verbworker.stores.jobs.deliveries import Deliveries
from verbworker.work.feeds.leases import first_timeout_ms
from verbworker.work.jobs.flag_guard import check_flags
from verbworker.work.starts.duplicate_instances import InstanceIdentity, has_job

_log = logging.getLogger(__name__)

# Long enough for a Postgres restart; short enough that a slot is not held for the five minutes of a gate.
_STORE_WITHIN_S = 30.0
# A job that cannot be served now is redelivered after this time.
_SOON_MS = 2_000


class JobHandler(Protocol):
    """Serves one type of job. Every call may be repeated."""

    @property
    def type(self) -> str:
        """Return the type of the jobs it serves."""

    @property
    def concurrency(self) -> int:
        """Return how many jobs it serves concurrently."""

    @property
    def timeout(self) -> timedelta | None:
        """Return the timeout to request from the engine; None for the worker's timeout for verbs."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names of all variables that its jobs bring."""

    async def serve(self, job: Job) -> bool:
        """Serve one delivery; return False if the engine has no answer, so that the job must be redelivered.

        Never raises because of a job.
        """


@runtime_checkable
class Stoppable(Protocol):
    """A handler that can hand back its running jobs, so that the next worker need not wait for a lease to expire."""

    def stop(self) -> None:
        """Stop running jobs, because the process shuts down."""


def with_texts(registry: Registry) -> tuple[str, ...]:
    """Return the variables of a job whose wait may end by a timer: a text flag may hold the due time."""
    contracts = [workflow.flag_contract for workflow in registry.workflows.values()]
    texts = (FlagType.STRING, FlagType.ENUM)
    return (
        *RESERVED,
        *sorted({flag.name for contract in contracts for flag in contract.flags.values() if flag.type in texts}),
    )


class Serving:
    """Keeps a delivery row for each job that a handler serves, until the engine has an answer."""

    def __init__(self, deliveries: Deliveries, give_back: Callable[[Job, StoreError], Awaitable[None]]) -> None:
        self._deliveries = deliveries
        self._give_back = give_back

    @property
    def services(self) -> tuple[Service, ...]:
        """Return the services that write the rows and keep them alive."""
        return self._deliveries.services

    async def serve(self, handler: JobHandler, job: Job) -> None:
        """Serve a job with its handler. An unfinished job keeps its row, and the sweep hands it out again."""
        try:
            has_row = await self._begin(job)
        except (StoreUnavailable, StoreConflict) as error:
            # Every handler needs the database, so none could do anything now.
            await self._give_back(job, error)
            return
        is_answered = False
        try:
            is_answered = await handler.serve(job)
        finally:
            if has_row and not is_answered:
                self._deliveries.leave(job)
        if has_row and is_answered:
            await self._end(job)

    async def _begin(self, job: Job) -> bool:
        """Write the row, waiting for an unavailable database; return False if it is refused for another reason."""
        begin = partial(self._deliveries.begin, job, JobVariables.of(job).instance_uid)
        try:
            await DATABASE.run(begin, within=min(job.timeout_ms / 2000, _STORE_WITHIN_S))
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


@dataclass(frozen=True, slots=True)
class JobVisit:
    """A job of an instance that is known. A listener gets it while the instance runs, and is locked."""

    job: Job
    reserved: JobVariables
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


Act = Callable[[Connection, JobVisit], Awaitable[bool]]
"""Handles a job in one transaction; returns False if the engine must not continue because of it."""


@dataclass(frozen=True, slots=True)
class ListenerKind:
    """The handler of one type of listener."""

    type: str
    answer: Callable[[Job], Awaitable[bool]]
    concurrency: int = 16
    timeout: timedelta | None = None
    variables: tuple[str, ...] = RESERVED

    async def serve(self, job: Job) -> bool:
        """Serve one delivery; return False if it must be redelivered."""
        return await self.answer(job)


class InternalJobs:
    """What all handlers share: whose job it is, and what becomes of a job that cannot be served now or at all."""

    def __init__(self, database: Database, engine: Engine, identity: InstanceIdentity | None) -> None:
        self._engine = engine
        self._instances = Instances(database)
        self._suspensions = Suspensions(database, engine_id=engine.engine_id)
        self._identity = identity or InstanceIdentity(self._instances)

    async def admit(self, job: Job) -> JobVisit:
        """Return a job with its instance, pinned to the engine instance of the job. Raises `DuplicateInstance`."""
        reserved = JobVariables.of(job)
        uid = reserved.instance_uid
        known = None if uid is None else await self._instances.facts(uid)
        instance, uid = correlate(job, reserved, await self._identity.admit(job, reserved, known))
        return JobVisit(job, reserved, instance, uid)

    async def admit_running(self, job: Job) -> JobVisit:
        """Return the same if the entry has not ended; otherwise the instance is cancelled, as a duplicate is."""
        visit = await self.admit(job)
        await self._identity.refuse_after_end(job, visit.instance)
        return visit

    async def admit_ended(self, visit: JobVisit) -> None:
        """Check a job whose entry has ended: a cancelled entry has no job to complete. Raises `DuplicateInstance`."""
        await self._identity.admit(visit.job, visit.reserved, visit.instance)
        # The engine may not have received that the last job of a completed entry was done.
        if visit.job.type != COMPLETE:
            await self._identity.refuse_after_end(visit.job, visit.instance)

    async def is_lost(self, job: Job) -> bool:
        """Return whether a worker that was suspended has a job that the engine lost meanwhile, with what it reports.

        Raises `TransientInfrastructure` while the engine cannot be asked.
        """
        is_late = datetime.now(UTC).timestamp() * 1000 - job.activated_ms > first_timeout_ms(job.timeout_ms)
        return is_late and not await has_job(self._engine, job)

    async def serve(
        self,
        job: Job,
        act: Callable[[], Awaitable[bool]],
        *,
        refuse: Callable[[PermanentContract], Awaitable[bool]],
        retry: Callable[[TransientInfrastructure], Awaitable[bool]] | None = None,
    ) -> bool:
        """Act on a job; return False if it must be redelivered. Never raises because of a job.

        `refuse` answers for a job that can never be served. One that cannot be served now is redelivered soon, unless
        `retry` answers for it.
        """
        try:
            try:
                return await self._act(job, act)
            except DuplicateInstance:
                return True  # its instance was cancelled
            except PermanentContract as error:
                return await refuse(error)
            except TransientInfrastructure as error:
                if retry is None:
                    raise
                return await retry(error)
        except JobGone:
            return True  # our twin was first, or the instance was cancelled
        except LeaseLost as error:
            _log.info("job belongs to another delivery", extra={**_about(job), "reason": str(error)})
            return True
        except (StoreUnavailable, StoreConflict, EngineError, TransientInfrastructure) as error:
            _log.warning("job is delivered again", extra={**_about(job), "reason": str(error)})
            await self.extend(job, _SOON_MS)
        except StoreError as error:
            _log.error("the database refuses a job", extra={**_about(job), "reason": str(error)})
        except Exception:
            _log.exception("job failed with an unexpected error; it will be redelivered", extra=_about(job))
        return False

    async def _act(self, job: Job, act: Callable[[], Awaitable[bool]]) -> bool:
        try:
            return await act()
        except InstanceSuspended:
            # Acting again changes nothing: the job is served once more when its instance is resumed.
            await self._suspensions.park(job.key, job.process_instance_key)
            return False

    async def stop(self, job: Job, error: PermanentContract | TransientInfrastructure) -> bool:
        """Stop a job for a person, and return True."""
        entry_id = JobVariables.of(job).entry_id
        message = describe_failure(
            error.kind, error.code, str(error), verb=job.type, entry_id=entry_id, job_key=job.key
        )
        _log.error("a job is refused", extra={**_about(job), "reason": message})
        await self._engine.fail(job.key, retries=0, message=message, lease_token=job.lease_token)
        return True

    async def extend(self, job: Job, timeout_ms: int) -> None:
        """Have a job redelivered after `timeout_ms`. If the engine's timeout is lost, the sweep hands the job out."""
        try:
            await self._engine.extend(job.key, timeout_ms, lease_token=job.lease_token)
        except EngineError as error:
            _log.debug("optional step failed", extra={"job_key": job.key, "reason": str(error)})


class ListenerJobs:
    """Handles listener jobs. They have no frames: each is one commit, and repeating it changes nothing."""

    def __init__(self, database: Database, engine: Engine, identity: InstanceIdentity) -> None:
        self._database = database
        self._engine = engine
        self._instances = Instances(database)
        self._runbook = Runbook(database)
        self._jobs = InternalJobs(database, engine, identity)

    async def receive(self, job: Job, act: Act) -> bool:
        """Act on a job of a running instance of ours, then complete it; return False if it must be redelivered.

        Never raises because of a job.
        """

        async def settle() -> bool:
            if await self._jobs.is_lost(job):
                return True
            if await self._settle(job, act):
                await self._engine.complete(job.key, NO_RESULT, lease_token=job.lease_token)
            return True

        refuse, retry = partial(self._refuse, job), partial(self._retry, job)
        return await self._jobs.serve(job, settle, refuse=refuse, retry=retry)

    async def has(self, job: Job) -> bool:
        """Return whether the engine has a job; raises `TransientInfrastructure` while it cannot be asked."""
        return await has_job(self._engine, job)

    async def _settle(self, job: Job, act: Act) -> bool:
        """Act on a job; return False if the engine must not continue because of it."""
        visit = await self._jobs.admit(job)
        async with self._database.transaction() as connection:
            instance = await self._instances.hold_in(connection, visit.instance_uid)
            assert instance is not None, "instances are never deleted"
            visit = replace(visit, instance=instance)
            if not instance.has_ended:
                brought = [name for name in job.variables if name.startswith(FLAG_PREFIX)]
                await check_flags(connection, job, instance, visit.instance_uid, brought)
                await self._runbook.let_go_in(connection, visit.token(Wait.INCIDENT, ""), _once(job), _about(job))
                return await act(connection, visit)
        await self._jobs.admit_ended(visit)
        return True

    async def _refuse(self, job: Job, error: PermanentContract | TransientInfrastructure) -> bool:
        """Stop the job for a person: in the runbook if there is an entry, and always in the engine."""
        reserved = JobVariables.of(job)
        uid = reserved.instance_uid
        async with self._database.transaction() as connection:
            instance = None if uid is None else await self._instances.hold_in(connection, uid)
            # Without an entry, the engine's incident is all there is to see.
            if uid is not None and instance is not None and instance.instance_key == job.process_instance_key:
                reason = f"Waiting for an operator: {error}"
                token = JobVisit(job, reserved, instance, uid).token(Wait.INCIDENT, reason)
                detail = {**_about(job), "class": error.kind, "code": error.code, "text": str(error)}
                await self._runbook.hold_up_in(connection, token, _once(job), detail)
        return await self._jobs.stop(job, error)

    async def _retry(self, job: Job, error: TransientInfrastructure) -> bool:
        if job.retries <= 1:
            return await self._refuse(job, error)
        await self._engine.fail(
            job.key, retries=job.retries - 1, message=str(error), backoff_ms=_SOON_MS, lease_token=job.lease_token
        )
        return True


def _once(job: Job) -> str:
    return f"{job.key}:{job.activated_ms}"


def _about(job: Job) -> dict[str, object]:
    return {"verb": job.type, "job_key": job.key, "instance_key": job.process_instance_key}
