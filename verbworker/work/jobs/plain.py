"""Plain jobs: run a task of a process that is not hollow, and store its variables in the job's frame."""

import json
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from hashlib import sha256

from verbworker.contract.policy import Policy
from verbworker.contract.task import (
    PlainTask,
    TaskCall,
    TaskDone,
    TaskEnd,
    TaskFailed,
    TaskThrown,
    running_task,
    variables_bytes,
)
from verbworker.contract.verb import Mode, OnUnknown
from verbworker.errors import Fenced, OutcomeUnknown, PermanentContract, StoreError, TransientExternal
from verbworker.job.classify import Failed, to_printable
from verbworker.job.error_place import RaisedError, locate_error
from verbworker.job.failpoint import Point, reach
from verbworker.job.frame import Claim
from verbworker.job.job import Job
from verbworker.job.outcome import PLAIN_SEAL, Incident, JobResult, Retry, Thrown
from verbworker.payload.boundary import JobVariables
from verbworker.stores.jobs.frames import Frames
from verbworker.work.feeds.leases import Abandoned, JobVanished, RunningJob
from verbworker.work.jobs.error_catchers import ErrorCatchers
from verbworker.work.jobs.perform import VerbRun

_task_log = logging.getLogger("verbworker.task")

Persist = Callable[[Claim, Callable[[], Awaitable[bool]]], Awaitable[bool]]


def plain_variables(job: Job) -> JobVariables:
    """Return what a frame needs of a plain job: a digest of its variables, and no instance of ours."""
    # Engines keep no order of variables, and a redelivery with the same ones must have the same digest.
    content = json.dumps(job.variables, sort_keys=True, separators=(",", ":")).encode()
    digest = sha256(content).digest()
    return JobVariables(content=content, hash=digest, seal=None, instance_uid=None, entry_id=None, tenant_id=None)


class PlainJobs:
    """Runs plain tasks for the executor, which has claimed the job and keeps its lease."""

    def __init__(
        self,
        frames: Frames,
        verb_run: VerbRun,
        error_catchers: ErrorCatchers,
        persist: Persist,
        judge: Callable[..., Failed],
    ) -> None:
        self._frames = frames
        self._verb_run = verb_run
        self._error_catchers = error_catchers
        self._persist = persist
        self._judge = judge

    async def run(self, task: PlainTask, running: RunningJob, policy: Policy) -> JobResult | Failed:
        """Run a task. A `JobResult` that it returns is stored already."""
        failed: Failed
        try:
            match await self._perform(task, running, policy):
                case TaskDone(variables):
                    return await self._store(running.claim, variables_bytes(task.name, variables))
                case TaskFailed() as end:
                    failed = _spend_retry(running.claim, end)
                    if end.error is not None:
                        self._verb_run.log_failure(end.error, failed, None, _about(running))
                    return failed
                case TaskThrown(code, message):  # pragma: no branch  # there is no other
                    failed = Thrown(code, to_printable(message))
        except (Fenced, Abandoned, JobVanished):
            raise
        except Exception as error:
            failed = self._classify(task, error, running, policy)
        return await self._error_catchers.judge_plain(running.job, failed) if isinstance(failed, Thrown) else failed

    async def _perform(self, task: PlainTask, running: RunningJob, policy: Policy) -> TaskEnd:
        # pyzeebe's timeout is also the longest duration that its author expects of a run.
        limit = max(timedelta(seconds=policy.start_to_close_timeout_seconds), task.timeout or timedelta())
        call = _call(task, running, limit)

        async def run() -> TaskEnd:
            with running_task(call):
                return await task.run(running.job, call, self._verb_run.call_by_names)

        async def invoke() -> TaskEnd:
            return await self._verb_run.invoke_task(task.name, run())

        end = await self._verb_run.run_within(limit, running, Mode.EXTERNAL, invoke)
        reach(Point.PERFORMED)
        return end

    async def _store(self, claim: Claim, content: bytes) -> JobResult:
        async def pop() -> bool:
            await self._frames.pop_variables(claim, content, sha256(content).digest(), PLAIN_SEAL)
            return True

        try:
            await self._persist(claim, pop)
        except StoreError as error:
            raise OutcomeUnknown("the task is done, but its variables cannot be stored", code="NotStored") from error
        return JobResult(content, PLAIN_SEAL)

    def _classify(self, task: PlainTask, error: Exception, running: RunningJob, policy: Policy) -> Failed:
        claim = running.claim
        failed = self._judge(
            error, None, policy, attempt=claim.runs, retries_left=claim.retries_left, jitter=random.random()
        )
        if task.on_unknown is OnUnknown.HOLD and isinstance(error, OutcomeUnknown | TimeoutError):
            text = f"{failed.message}; a call may have reached the outside, so it is not repeated"
            failed = Incident(PermanentContract.kind, "OutcomeUnknown", text)
        self._verb_run.log_failure(error, failed, None, _about(running))
        return failed


def _about(running: RunningJob) -> dict[str, object]:
    return {"verb": running.job.type, "job_key": running.job.key}


def _spend_retry(claim: Claim, end: TaskFailed) -> Retry | Incident:
    """Return what a handler decided, with the place of the exception that it was asked about."""
    raised = RaisedError("") if end.error is None else locate_error(end.error)
    where = f" ({raised.name} {raised.place})" if raised.place else ""
    message = f"{to_printable(end.message)}{where}"
    if claim.retries_left > 1:
        return Retry(TransientExternal.kind, "TaskFailed", message, max(end.delay, 0.0))
    return Incident(TransientExternal.kind, "TaskFailed", f"{message}; no retry is left")


def _call(task: PlainTask, running: RunningJob, limit: timedelta) -> TaskCall:
    claim, job = running.claim, running.job
    fields = {"task": task.name, "job_key": job.key, "attempt": claim.runs}
    return TaskCall(
        task=task.name,
        idempotency_key=claim.idempotency_key,
        attempt=claim.runs,
        deadline=claim.now + limit,
        log=logging.LoggerAdapter(_task_log, fields),
        headers=job.headers,
    )
