"""Compensation: undoes the steps of a case, newest first, each by a frame of its own, none twice."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from uuid import UUID

from verblint.names import COMPENSATE
from verbworker.background.poll_loop import PollLoop, Service
from verbworker.contract.policy import Policy
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Verb
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Engine
from verbworker.errors import CommandInvalid, EngineError, EngineUnavailable, JobGone, LeaseLost, PermanentBusiness
from verbworker.job.classify import Failed, classify
from verbworker.job.frame import InstanceFacts
from verbworker.job.job import RESERVED, Job
from verbworker.job.outcome import NO_RESULT, Incident, JobResult, Thrown
from verbworker.job.trace import UNTRACED, Tracer
from verbworker.model.start_variables import seal_of
from verbworker.payload.boundary import owner
from verbworker.payload.signature import KeyRing
from verbworker.retrying import ENGINE
from verbworker.stores.cases import payloads
from verbworker.stores.jobs.compensations import Compensations, Record
from verbworker.stores.jobs.frames import Frames
from verbworker.work.feeds.leases import Leases, StopReason
from verbworker.work.jobs.executor import Databases, Executor
from verbworker.work.jobs.perform import VerbRun
from verbworker.work.listeners.job_handler import InternalJobs
from verbworker.work.starts.duplicate_instances import InstanceIdentity

_log = logging.getLogger(__name__)

_CONCURRENT_EXTENSIONS = 16  # calls of the engine; more would only queue there
_INSIST_S = 30.0  # then the job is redelivered and answered from its record
# With the jitter of a tick, two beats are never more than a third of the engine's timeout apart.
_BEATS_PER_TIMEOUT = 4


@dataclass(slots=True, eq=False)
class _Walk:
    """One delivery of a compensate job, while it is being served."""

    job: Job
    is_gone: bool = False  # the engine dropped the job: finish the current undo, and start no more


class CompensationJobs:
    """Serves the compensate tasks of a model. Any number of workers may share one walk: a step is undone once."""

    type = COMPENSATE
    variables = RESERVED

    def __init__(
        self,
        registry: Registry,
        engine: Engine,
        databases: Databases,
        verb_run: VerbRun,
        *,
        owner: UUID,
        lease: timedelta = timedelta(seconds=30),
        timeout: timedelta = timedelta(seconds=60),
        concurrency: int = 8,
        ring: KeyRing | None = None,
        tracer: Tracer = UNTRACED,
        identity: InstanceIdentity | None = None,
    ) -> None:
        self.timeout = timeout
        self.concurrency = concurrency
        self._registry = registry
        self._engine = engine
        self._databases = databases
        self._verb_run = verb_run
        self._ring = ring
        self._tracer = tracer
        self._jobs = InternalJobs(databases.control, engine, identity)
        self._records = Compensations(databases.control, engine_id=engine.engine_id)
        self._frames = Frames(
            databases.control, engine_id=self._records.engine_id, owner=owner, lease=lease, prefix="undo-"
        )
        self._leases = Leases(self._frames, _NoExtensions(), engine_timeout_ms=0, prefix="undo-")
        self._walks: set[_Walk] = set()
        self._heartbeat = PollLoop("undo-walks", self.beat, every=timeout.total_seconds() / _BEATS_PER_TIMEOUT)
        self.services: tuple[Service, ...] = (*self._frames.services, *self._leases.services, self._heartbeat)

    def stop(self) -> None:
        """Stop for a shutdown: a running undo is handed back, and the next worker continues from there."""
        self._leases.end_all(StopReason.SHUTDOWN)

    async def serve(self, job: Job) -> bool:
        """Undo the steps of the case; return False if the job must be redelivered, to continue from there."""
        with self._keep_walk(job) as walk:
            return await self._jobs.serve(job, partial(self._serve, walk), refuse=partial(self._jobs.stop, job))

    async def _serve(self, walk: _Walk) -> bool:
        job = walk.job
        visit = await self._jobs.admit_running(job)
        instance, uid = visit.instance, visit.instance_uid
        workflow = owner(job, instance, self._registry)
        while (record := await self._records.next(uid, job, workflow.compensation)) is not None:
            if walk.is_gone:
                return True
            if not await self._undo(job, record):
                # The engine has a failure, or another worker is at the step. If the engine has the job back, the sweep
                # does nothing; if the other worker dies, the sweep hands the job out again and so frees its frame.
                return False
        return await self._complete(job, await self._result(job, uid, instance, workflow))

    async def _undo(self, job: Job, record: Record) -> bool:
        """Deliver one record to its frame; return False if it is not undone and the engine knows or will know why."""
        if record.is_held and record.job_key != job.key:
            await self._records.adopt(record)
        if not await self._records.take(record, job):
            return True
        await self._executor(job, record).execute(
            replace(
                job,
                key=record.record_id,
                type=record.undo,
                element_id=record.element_id,
                element_instance_key=record.element_instance_key,
            )
        )
        return await self._records.is_undone(record)

    def _executor(self, job: Job, record: Record) -> Executor:
        return Executor(
            self._registry,
            _Undoing(self._engine, job, record, self._records.engine_id),
            self._frames,
            self._databases,
            self._leases,
            self._verb_run,
            ring=self._ring,
            tracer=self._tracer,
            judge=judge,
            has_engine_keys=False,
        )

    # ---- commands to the engine ----------------------------------------------------------------------------------

    async def _result(self, job: Job, uid: UUID, instance: InstanceFacts, workflow: WorkflowVerb) -> JobResult:
        """Return the payload as the undos left it, and the flags they set; empty if nothing was undone."""
        returned = await self._records.variables_of(uid, job)
        if not returned:
            return NO_RESULT
        head = await payloads.head(self._databases.control, uid)
        seal = seal_of(workflow, self._ring)
        content = head.check(seal, tenant=instance.tenant_id, instance_uid=uid)
        sealed = seal.seal(content, tenant=instance.tenant_id, instance_uid=str(uid), version=head.version)
        flags = {name: value for each in returned for name, value in each.items()}
        return JobResult(content, sealed, flags)

    async def _complete(self, job: Job, result: JobResult) -> bool:
        try:
            send = partial(self._engine.complete, job.key, result, lease_token=job.lease_token)
            await ENGINE.run(send, within=_INSIST_S)
        except (JobGone, LeaseLost):
            return True  # our twin was first, or has the job now, or the instance was cancelled
        except EngineUnavailable as error:
            _log.warning(
                "steps are undone, but the engine could not be reached",
                extra={"job_key": job.key, "reason": str(error)},
            )
            return False
        except EngineError as error:
            _log.error(
                "steps are undone, but the engine refused the completion",
                extra={"job_key": job.key, "reason": str(error)},
            )
            return False
        return True

    # ---- the engine's timeout ------------------------------------------------------------------------------------

    @contextmanager
    def _keep_walk(self, job: Job) -> Iterator[_Walk]:
        walk = _Walk(job)
        self._walks.add(walk)
        try:
            yield walk
        finally:
            self._walks.discard(walk)

    async def beat(self) -> int:
        """Ask the engine for more time for every walk and return 0, so that a long undo is not delivered twice."""
        await self._heartbeat.for_each(list(self._walks), _CONCURRENT_EXTENSIONS, self._keep)
        return 0

    async def _keep(self, walk: _Walk) -> None:
        is_gone = False
        try:
            timeout_ms = int(self.timeout / timedelta(milliseconds=1))
            await self._engine.extend(walk.job.key, timeout_ms, lease_token=walk.job.lease_token)
        except (JobGone, LeaseLost):
            is_gone = True
        except EngineUnavailable as error:
            self._heartbeat.report(error)
        except EngineError as error:
            # A walk that is delivered twice does no harm.
            _log.info("engine timeout not moved", extra={"job_key": walk.job.key, "reason": str(error)})
        walk.is_gone = is_gone


def judge(
    error: Exception, verb: Verb | None, policy: Policy, *, attempt: int, retries_left: int, jitter: float
) -> Failed:
    """Classify a failed undo like any run, except that it cannot throw: a business error becomes an incident."""
    failed = classify(error, verb, policy, attempt=attempt, retries_left=retries_left, jitter=jitter)
    if isinstance(failed, Thrown):
        return Incident(PermanentBusiness.kind, failed.code, failed.message)
    return failed


class _Undoing:
    """The engine of one undo: its job is a record, and its failures are reported for the compensate job."""

    def __init__(self, engine: Engine, job: Job, record: Record, engine_id: str) -> None:
        self._engine = engine
        self._job = job
        self._record = record
        self._engine_id = engine_id

    async def complete(self, job_key: int, result: JobResult, *, lease_token: str | None = None) -> None:
        """Do nothing: the frame's commit updates the record, and the engine is informed after the whole walk."""

    async def fail(
        self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0, lease_token: str | None = None
    ) -> None:
        """Stop the walk here: for a person, or until the engine redelivers the compensate job."""
        hint = f"; see frames explain {job_key} --engine-id {self._engine_id}"
        await self._engine.fail(
            self._job.key,
            retries=max(self._job.retries, 1) if retries > 0 else 0,
            message=f"undoing {self._record.verb}: {message}{hint}",
            backoff_ms=backoff_ms,
            lease_token=self._job.lease_token,
        )

    async def throw(self, job_key: int, *, code: str, message: str, lease_token: str | None = None) -> None:
        """Raise `CommandInvalid`: an undo throws nothing, `judge` prevents it."""
        raise CommandInvalid(f"the undo {self._record.undo} cannot end with {code}")


class _NoExtensions:
    """The engine of the undo frames' `Leases`: the handler itself extends the real job, between two steps too."""

    async def extend(self, job_key: int, timeout_ms: int, *, lease_token: str | None = None) -> None:
        """Do nothing."""
