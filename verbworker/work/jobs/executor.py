"""One job: call, push, run, pop, return. These five steps show what a crash leaves behind."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from verbworker import metrics
from verbworker.contract.policy import DEFAULT_POLICY, Policy
from verbworker.contract.registry import Registry
from verbworker.contract.task import PlainTask
from verbworker.contract.verb import Mode, Verb
from verbworker.engine.protocol import JobCommands
from verbworker.errors import (
    DuplicateInstance,
    EngineError,
    Fenced,
    LeaseLost,
    PermanentContract,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    VerbworkerError,
)
from verbworker.job.classify import Failed, classify
from verbworker.job.failpoint import Point, reach
from verbworker.job.frame import Claim, Delivery, FrameState, InstanceFacts, idempotency_key
from verbworker.job.job import Job
from verbworker.job.outcome import Incident, JobResult, Retry, Thrown, Yielded
from verbworker.job.trace import UNTRACED, Tracer
from verbworker.payload.boundary import AdmittedJob, JobVariables, enter
from verbworker.payload.signature import KeyRing
from verbworker.profile.task_profile import TaskProfile
from verbworker.retrying import DATABASE
from verbworker.stores.cases import payloads
from verbworker.stores.cases.gates import GateStore
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.suspensions import Suspensions
from verbworker.stores.database import Database
from verbworker.stores.deployments import Deployments
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.task_profiles import TaskProfileStore
from verbworker.work.feeds.leases import Abandoned, JobVanished, Leases, RunningJob
from verbworker.work.jobs.error_catchers import ErrorCatchers
from verbworker.work.jobs.flag_guard import FlagGuard
from verbworker.work.jobs.perform import External, Transactional, VerbRun
from verbworker.work.jobs.plain import PlainJobs, plain_variables
from verbworker.work.jobs.step_guard import StepDone, StepGuard, StepMovedOn
from verbworker.work.jobs.task_profiles import JobProfile, TaskProfiles
from verbworker.work.jobs.verdicts import JobResults, Redelivery, Verdicts
from verbworker.work.starts.duplicate_instances import InstanceIdentity

_log = logging.getLogger(__name__)

# Concurrent statements of two workers that cannot see each other's frame overlap by milliseconds, not by this.
_SLOW_CLAIM = 1.0


@dataclass(frozen=True, slots=True)
class JobKind:
    """What the registry says of the jobs of one type in one process."""

    verb: Verb | PlainTask | None
    policy: Policy
    is_task: bool

    @classmethod
    def of(cls, registry: Registry, job: Job) -> "JobKind":
        """Look a job's kind up."""
        task = registry.find_task(job.type)
        verb = registry.find(job.type) or task
        policy = DEFAULT_POLICY if verb is None else registry.policy_of(verb, registry.workflow_of(job.process_id))
        return cls(verb, policy, is_task=task is not None)


@dataclass(frozen=True, slots=True)
class Databases:
    """Two pools: even if verbs hold all their connections, claims and heartbeats still get one."""

    control: Database
    verbs: Database


class Executor:
    """Takes one job from delivery to the engine's acknowledgement. Never raises because of a job.

    It does not use the skeleton of internal jobs (`InternalJobs.serve`), which answers an error with a command to the
    engine: the errors of a verb job end in its frame, and a job that was not claimed is given back.
    """

    def __init__(
        self,
        registry: Registry,
        engine: JobCommands,
        frames: Frames,
        databases: Databases,
        leases: Leases,
        verb_run: VerbRun,
        *,
        ring: KeyRing | None = None,
        tracer: Tracer = UNTRACED,
        judge: Callable[..., Failed] = classify,
        identity: InstanceIdentity | None = None,
        has_engine_keys: bool = True,
    ) -> None:
        self._registry = registry
        self._kinds: dict[tuple[str, str], JobKind] = {}
        self._frames = frames
        self._databases = databases
        self._identity = identity or InstanceIdentity(Instances(databases.control))
        self._gates = GateStore(databases.control)
        self._leases = leases
        self._verb_run = verb_run
        self._ring = ring
        self._tracer = tracer
        self._judge = judge
        self._profiles = TaskProfiles(TaskProfileStore(databases.control, engine_id=frames.engine_id))
        # Keys that we create are never reused for another job, so only the engine's keys need the guard.
        self._guard = StepGuard.of(databases.control, frames.engine_id) if has_engine_keys else None
        # The engine gets the flags of undos after the last of them.
        self._flags = FlagGuard(registry, databases.control) if has_engine_keys else None
        self._error_catchers = ErrorCatchers(Deployments(databases.control, engine_id=frames.engine_id), engine)
        self._verdicts = Verdicts(frames, self._guard)
        self._external = External(databases.control, frames, verb_run, engine, self._verdicts, self._persist)
        self._transactional = Transactional(databases.verbs, frames, verb_run, engine, self._verdicts)
        self._plain = PlainJobs(frames, verb_run, self._error_catchers, self._persist, judge)
        suspensions = Suspensions(databases.control, engine_id=frames.engine_id)
        self._returns = JobResults(engine, frames, suspensions=suspensions)
        self._redelivery = Redelivery(frames, engine, self._returns)

    async def execute(self, job: Job) -> None:
        """Execute one delivery. A job it cannot finish is redelivered, by its sweep if not by the engine."""
        began = asyncio.get_running_loop().time()
        claim: Claim | None = None
        parent = await self._tracer.find_parent(job)
        with self._tracer.job(job, parent) as span:
            try:
                reach(Point.DELIVERED)
                reserved = plain_variables(job) if self._kind(job).is_task else JobVariables.of(job)
                claim, profile = await self._claim(job, reserved, began)
                if claim is None:
                    span.record_end("not claimed")
                    return
                span.record_claim(claim)
                reach(Point.PUSHED)
                with self._leases.keep_lease(claim, job, began) as running:
                    outcome = await self._run(running, reserved, profile)
                    stored = await self._pop(running, outcome)
                    reach(Point.POPPED if isinstance(stored, JobResult | Thrown) else Point.FAILED)
                    await self._return(running, stored)
                    span.record_end(stored.label, getattr(stored, "kind", None))
                    reach(Point.RETURNED)
            except (DuplicateInstance, JobVanished, StepMovedOn) as error:
                span.record_end("job gone")
                await self._close(claim, error)
            except (Fenced, LeaseLost) as error:
                span.record_end("fenced")
                metrics.FENCED.labels(job.type).inc()
                owned = "the job's lease" if isinstance(error, LeaseLost) else "the frame"
                await self._quietly(self._frames.note(job.key, "fenced", detail=f"another worker owns {owned}"))
            except Abandoned as error:
                span.record_end("abandoned")
                await self._quietly(self._frames.note(job.key, "abandoned", detail=str(error)))
            except (StoreUnavailable, StoreConflict) as error:
                span.record_end("database away")
                await self._returns.give_back_without_claim(job, error)
            except Exception:
                span.record_end("bug")
                _log.exception(
                    "job failed with an unexpected error; it will be redelivered",
                    extra={"job_key": job.key, "verb": job.type},
                )
            else:
                metrics.LATENCY.labels(job.type).observe(asyncio.get_running_loop().time() - began)

    async def _close(self, claim: Claim | None, error: VerbworkerError) -> None:
        """Close the frame of a job that the engine has dropped; if the database is unavailable, the sweep closes it."""
        assert claim is not None, "only a claimed job is run"
        code = error.code if isinstance(error, DuplicateInstance | StepMovedOn) else "JobGone"
        await self._quietly(self._frames.close(claim.job_key, claim.epoch, code=code, message=str(error)))

    async def give_back(self, job: Job) -> None:
        """Hand a job that was not started back to the engine at shutdown; it costs no retry."""
        await self._returns.unbegun(job, "the worker is shutting down")

    async def give_back_without_claim(self, job: Job, error: StoreError) -> None:
        """Hand a job back that the database was away for too long to claim."""
        await self._returns.give_back_without_claim(job, error)

    # ---- PUSH: the frame exists before anything can fail --------------------------------------------------------

    async def _claim(self, job: Job, reserved: JobVariables, began: float) -> tuple[Claim | None, JobProfile]:
        """Push until the database answers or half the timeout is over; find a claim whose answer was lost (C1)."""
        claim, profile = await DATABASE.run(partial(self._push, job, reserved), within=job.timeout_ms / 2000)
        if claim is not None:
            metrics.CLAIMS.labels(job.type, claim.claimed_from).inc()
            # A claim that took long may have overlapped one of another worker for the same step.
            if asyncio.get_running_loop().time() - began > _SLOW_CLAIM:
                claim = replace(claim, may_have_twin=True)
        return claim, profile

    async def _push(self, job: Job, reserved: JobVariables) -> tuple[Claim | None, JobProfile]:
        profile = await self._profiles.read(job, reserved)
        delivery = self._delivery(job, reserved, profile)
        return await self._frames.push(delivery) or await self._redelivery.settle(delivery, reserved), profile

    def _delivery(self, job: Job, reserved: JobVariables, profile: JobProfile) -> Delivery:
        verb = self._kind(job).verb
        return Delivery(
            job=job,
            instance_uid=reserved.instance_uid,
            entry_id=reserved.entry_id,
            mode=verb.mode.value if verb else Mode.EXTERNAL.value,
            on_unknown=verb.on_unknown.value if verb else "rerun",
            max_runs=verb.max_runs if verb else 5,
            idempotency_window=verb.idempotency_window if verb else timedelta(hours=24),
            idempotency_key=profile.key or idempotency_key(self._frames.engine_id, job),
            retries=self._retries(job, profile.task_profile),
            input_hash=reserved.hash,
        )

    def _retries(self, job: Job, task_profile: TaskProfile) -> int:
        kind = self._kind(job)
        # Nothing is woven into the model of a plain task: without a policy, its own retries count.
        if kind.is_task and kind.verb is not None and kind.verb.policy is None:
            return max(job.retries, 1)
        return self._policy(job, task_profile).retry.maximum_attempts

    def _policy(self, job: Job, task_profile: TaskProfile) -> Policy:
        return task_profile.policy or self._kind(job).policy

    def _kind(self, job: Job) -> JobKind:
        """Return a job's kind. The registry of a running worker does not change, so each is looked up once."""
        place = job.type, job.process_id
        kind = self._kinds.get(place)
        if kind is None:
            kind = self._kinds[place] = JobKind.of(self._registry, job)
        return kind

    # ---- run: check, perform, check -----------------------------------------------------------------------------

    async def _run(self, running: RunningJob, reserved: JobVariables, profile: JobProfile) -> JobResult | Failed:
        """Run the verb. A `JobResult` that it returns is stored already, in the verb's transaction if it has one."""
        job, claim, policy = running.job, running.claim, self._policy(running.job, profile.task_profile)
        if isinstance(task := self._kind(job).verb, PlainTask):
            return await self._plain.run(task, running, policy)
        try:
            profile.check_known()
            instance = await self._identity.admit(job, reserved, claim.instance)
            if instance is not claim.instance:
                claim = replace(claim, instance=instance)
            if self._guard is not None and claim.has_doubt and reserved.instance_uid is not None:
                admitted = await self._guard.admit(job, claim, reserved.instance_uid, reserved.hash)
                if isinstance(admitted, JobResult):
                    return admitted
                claim = admitted
            if claim.instance is not None:
                await self._identity.refuse_after_end(job, claim.instance)
                await self._check_flags(job, claim.instance, reserved)
            head = None
            if claim.input_known and not claim.input_is_head and reserved.instance_uid is not None:
                head = await payloads.head(self._databases.control, reserved.instance_uid)
            entered = enter(
                job, reserved, claim, self._registry, ring=self._ring, head=head, task_profile=profile.task_profile
            )
            await self._profiles.check(job, profile, entered.instance)
            _within_schedule(claim, policy)
            entered = await self._add_inputs(entered)
            if entered.verb.mode is Mode.TRANSACTIONAL:
                return await self._transactional.run(entered, claim, running, policy)
            return await self._external.run(entered, claim, running, policy)
        except (Fenced, LeaseLost, Abandoned, DuplicateInstance, JobVanished, StepMovedOn):
            raise
        except StepDone as error:
            return await error.guard.repeat(job, claim, error.twin)
        except Exception as error:
            verb = self._registry.find(job.type)
            failed = self._judge(
                error,
                verb,
                policy,
                attempt=claim.runs,
                retries_left=claim.retries_left,
                jitter=random.random(),  # spreads retries, decides nothing
            )
            if isinstance(failed, Thrown):
                failed = await self._error_catchers.judge(job, failed)
            self._verb_run.log_failure(error, failed, verb, {"verb": job.type, "job_key": job.key})
            return failed

    async def _check_flags(self, job: Job, instance: InstanceFacts, reserved: JobVariables) -> None:
        """Refuse a job whose flags were changed in the engine, and note one whose flags are only older."""
        if self._flags is None or reserved.instance_uid is None:
            return
        if older := await self._flags.check_verb(job, instance, reserved.instance_uid):
            await self._quietly(self._frames.note(job.key, "older flags", detail=older))

    async def _add_inputs(self, entered: AdmittedJob) -> AdmittedJob:
        """Return the job with its decisions and messages; runs no statement for processes that have neither."""
        gates, messages = bool(entered.workflow.gates), bool(entered.workflow.messages)
        if not gates and not messages:
            return entered
        made, came = await self._gates.heard(entered.instance_uid, decisions=gates, messages=messages)
        return replace(entered, decisions=made, messages=came)

    # ---- POP: the outcome is durable before it is sent to the engine ----------------------------------------------

    async def _pop(self, running: RunningJob, outcome: JobResult | Failed) -> JobResult | Failed:
        """Store how a run ended, unless its own transaction did so."""
        if isinstance(outcome, JobResult):
            return outcome
        failed = outcome
        if not await self._persist(running.claim, lambda: self._write(running.claim, failed)):
            text = f"given back too often; the last time: {failed.message}"
            return await self._pop(running, Incident(Yielded.kind, failed.code, text))
        return failed

    async def _write(self, claim: Claim, failed: Failed) -> bool:
        """Store one outcome; return False if the run was handed back too often to be handed back once more."""
        match failed:
            case Thrown():
                await self._frames.pop_thrown(claim, failed)
            case Retry():
                await self._frames.pop_failed(claim, failed)
            case Incident():
                await self._frames.pop_incident(claim, failed)
            case Yielded():
                return await self._frames.pop_yielded(claim, failed) is not None
        return True

    async def _persist(self, claim: Claim, write: Callable[[], Awaitable[bool]]) -> bool:
        """Write until it is written. A lost answer is looked up first, so nothing is written twice."""
        is_first = True

        async def write_once() -> bool:
            nonlocal is_first
            if not is_first and await self._verdicts.find_state(claim) is not FrameState.STARTED:
                return True
            is_first = False
            return await write()

        return await DATABASE.run(write_once)

    # ---- RET: send the frame's outcome to the engine ---------------------------------------------------------------

    async def _return(self, running: RunningJob, outcome: JobResult | Failed) -> None:
        kind = "" if isinstance(outcome, JobResult | Thrown | Yielded) else outcome.kind
        metrics.OUTCOMES.labels(running.job.type, outcome.label, kind).inc()
        match outcome:
            case JobResult() if running.is_answered:
                metrics.ANSWERS.labels("complete", "together").inc()
            case JobResult() | Thrown():
                await self._returns.verdict(running.job.key, outcome, lease_token=running.job.lease_token)
            case Retry() | Yielded() | Incident():
                await self._returns.failure(running, outcome)

    async def _quietly(self, work: Awaitable[object]) -> None:
        """Await work that may fail without harm."""
        try:
            await work
        except (EngineError, StoreError) as error:
            _log.debug("left undone", extra={"reason": str(error)})


def _within_schedule(claim: Claim, policy: Policy) -> None:
    limit = timedelta(seconds=policy.schedule_to_close_timeout_seconds)
    if claim.now - claim.first_run_at > limit:
        raise PermanentContract(
            f"the verb did not succeed within {policy.schedule_to_close_timeout_seconds} s of its first run",
            code="ScheduleToCloseExceeded",
        )
