"""Verdicts: stored in the frame, sent to the engine, and sent again until it has them."""

import logging
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from hashlib import sha256

from verbworker import metrics
from verbworker.background.poll_loop import PollLoop
from verbworker.engine.protocol import JobCommands
from verbworker.errors import (
    EngineError,
    EngineUnavailable,
    InstanceSuspended,
    JobGone,
    JobNotActive,
    LeaseLost,
    PermanentContract,
    StoreError,
)
from verbworker.job.frame import Claim, Delivery, Frame, FrameState, FrameStep, decide, incident_of, is_same_job
from verbworker.job.job import Job
from verbworker.job.outcome import Incident, JobResult, Retry, Thrown, Verdict, Yielded, describe_failure
from verbworker.payload.boundary import AdmittedJob, JobVariables, leave, overtaken
from verbworker.retrying import DATABASE, ENGINE
from verbworker.stores.cases import payloads
from verbworker.stores.cases.suspensions import Suspensions
from verbworker.stores.database import Connection
from verbworker.stores.jobs.frames import Frames, Unacknowledged, VerdictRow
from verbworker.work.feeds.leases import RunningJob
from verbworker.work.jobs.lease_tokens import redeliver
from verbworker.work.jobs.step_guard import StepGuard

_log = logging.getLogger(__name__)

# Each try means that another delivery changed the frame between our look and our claim.
_TRIES = 3


class Verdicts:
    """Stores verdicts inside a transaction, and finds out what a lost connection left."""

    def __init__(self, frames: Frames, guard: StepGuard | None) -> None:
        self._frames = frames
        self._guard = guard

    async def pop_in(self, connection: Connection, entered: AdmittedJob, claim: Claim, answer: object) -> JobResult:
        """Store a verb's answer, merged if the payload has changed."""
        completed = leave(entered, answer)
        if await self._frames.pop_completed_in(connection, verdict(entered, claim, completed, entered.base_hash)):
            return completed
        return await self.merge_in(connection, entered, claim, answer)

    async def merge_in(self, connection: Connection, entered: AdmittedJob, claim: Claim, answer: object) -> JobResult:
        """Merge our changes into the version that a parallel branch wrote, or fail.

        Raises `StepDone` if the payload was changed not by a branch but by another job of the same step.
        """
        head = await payloads.hold_head(connection, entered.instance_uid)
        if self._guard is not None:
            await self._guard.check_in(connection, entered.job, entered.instance_uid, entered.input_hash)
        completed = leave(overtaken(entered, head.correlation), answer, head=head)
        if not await self._frames.pop_completed_in(connection, verdict(entered, claim, completed, head.hash)):
            raise StoreError("the payload of record moved while it was held")
        metrics.MERGES.labels(entered.verb.name).inc()
        return completed

    async def find_state(self, claim: Claim) -> FrameState:
        """Return the state that our last write left, as soon as the database answers again."""
        return await DATABASE.run(partial(self._frames.settle, claim))


def verdict(entered: AdmittedJob, claim: Claim, completed: JobResult, base_hash: bytes) -> VerdictRow:
    """Return a completed run as its frame stores it."""
    return VerdictRow(
        claim=claim,
        instance_uid=entered.instance_uid,
        base_hash=base_hash,
        output=completed.payload,
        output_hash=sha256(completed.payload).digest(),
        seal=completed.seal,
        flags=completed.flags,
        correlation=completed.correlation,
    )


class JobResults:
    """Sends verdicts until the engine answers, and failures only while the lease is certain."""

    def __init__(
        self,
        engine: JobCommands,
        frames: Frames,
        *,
        timeout: timedelta = timedelta(seconds=30),
        suspensions: Suspensions | None = None,
    ) -> None:
        self._engine = engine
        self._frames = frames
        self._suspensions = suspensions
        self._timeout_s = timeout.total_seconds()

    async def verdict(self, job_key: int, verdict: Verdict, *, lease_token: str | None = None) -> bool:
        """Send a final verdict. Return True if the engine has it; otherwise the relay sends it again.

        If the job was delivered again, under another lease, that delivery finds the verdict in the frame and sends it.
        """
        command = "throw" if isinstance(verdict, Thrown) else "complete"
        try:
            await ENGINE.run(lambda: self._send(job_key, verdict, lease_token), within=self._timeout_s)
        except JobGone:
            # Completed by our twin, or cancelled: both look the same and neither leaves anything to do.
            return self._settle(job_key, command, "gone")
        except LeaseLost as error:
            await self._unusual(job_key, command, "fenced", str(error))
            if lease_token is None:
                return await self._redeliver(job_key, command)
        except InstanceSuspended as error:
            await self._unusual(job_key, command, "suspended", str(error))
            await self._park(job_key)
        except JobNotActive as error:
            await self._unusual(job_key, command, "not active", str(error))
        except EngineUnavailable as error:
            await self._unusual(job_key, command, "unavailable", str(error))
        except EngineError as error:
            _log.error("the engine refuses a verdict", extra={"job_key": job_key, "reason": str(error)})
            await self._unusual(job_key, command, "refused", str(error))
        else:
            return self._settle(job_key, command, "ok")
        return False

    async def _send(self, job_key: int, verdict: Verdict, lease_token: str | None) -> None:
        if isinstance(verdict, JobResult):
            await self._engine.complete(job_key, verdict, lease_token=lease_token)
        else:
            await self._engine.throw(job_key, code=verdict.code, message=verdict.message, lease_token=lease_token)

    async def _redeliver(self, job_key: int, command: str) -> bool:
        """Have the job delivered again; True if it is gone meanwhile."""
        try:
            await redeliver(self._engine, job_key)
        except JobGone:
            return self._settle(job_key, command, "gone")
        except EngineError as error:
            _log.info("leased job not delivered again yet", extra={"job_key": job_key, "reason": str(error)})
        return False

    def _settle(self, job_key: int, command: str, answer: str) -> bool:
        metrics.ANSWERS.labels(command, answer).inc()
        self._frames.acknowledge(job_key, answer)
        return True

    async def _unusual(self, job_key: int, command: str, answer: str, reason: str) -> None:
        metrics.ANSWERS.labels(command, answer).inc()
        _log.warning("verdict not taken", extra={"job_key": job_key, "answer": answer, "reason": reason})
        await self._note(job_key, f"verdict {answer}", reason)

    async def failure(self, running: RunningJob, failed: Retry | Yielded | Incident) -> None:
        """Report a failed job, but only while its lease is certain: a late report could stop another worker's run."""
        job, claim = running.job, running.claim
        entry_id = claim.instance.entry_id if claim.instance else None
        message = describe_failure(
            failed.kind, failed.code, failed.message, verb=job.type, entry_id=entry_id, job_key=job.key
        )
        match failed:
            case Retry(delay=delay):
                retries = claim.retries_left - 1
            case Yielded(delay=delay):
                retries = claim.retries_left
            case Incident():
                retries, delay = 0, 0.0
        await self._fail(job, claim.epoch, retries, delay, message, sure=running.is_sure)

    async def report(self, job: Job, epoch: int, *, retries: int, delay: float, message: str) -> None:
        """Repeat a report that never reached the engine; the current delivery is ours right now."""
        await self._fail(job, epoch, retries, delay, message, sure=lambda: True)

    async def give_back_without_claim(self, job: Job, error: StoreError) -> None:
        """Hand back a job that the database was away for too long to claim.

        It is not left to the engine's timeout, which a broker may lose. The claim has waited, so this is no hot loop.
        """
        _log.warning("database away, job given back", extra={"job_key": job.key, "reason": str(error)})
        await self.unbegun(job, "the database is away")

    async def unbegun(self, job: Job, reason: str) -> None:
        """Hand a job that was not started back to the engine: it costs no retry, and there is nothing to store."""
        message = f"given back: {reason}"
        try:
            fail = partial(
                self._engine.fail, job.key, retries=job.retries, message=message, lease_token=job.lease_token
            )
            await ENGINE.run(fail, within=self._timeout_s)
        except EngineError as error:
            # The engine redelivers it after its timeout.
            _log.info("job not given back", extra={"job_key": job.key, "reason": str(error)})

    async def _fail(
        self, job: Job, epoch: int, retries: int, delay: float, message: str, *, sure: Callable[[], bool]
    ) -> None:
        job_key, pause, lease_token = job.key, int(delay * 1000), job.lease_token

        async def send() -> bool:
            if sure():
                await self._engine.fail(
                    job_key, retries=retries, message=message, backoff_ms=pause, lease_token=lease_token
                )
                return True
            return False

        try:
            if not await ENGINE.run(send, within=self._timeout_s):
                return
            metrics.ANSWERS.labels("fail", "ok").inc()
            await self._frames.record_report(job_key, epoch)
        except JobGone:
            # The sweep closes the frame, and checks whether its instance has ended as well.
            metrics.ANSWERS.labels("fail", "gone").inc()
            await self._note(job_key, "failure gone", "the engine no longer has the job")
        except LeaseLost as error:
            # The delivery that holds the lease finds the failure in the frame, and reports it or runs the job again.
            metrics.ANSWERS.labels("fail", "fenced").inc()
            await self._note(job_key, "failure fenced", str(error))
        except InstanceSuspended as error:
            # The sweep reports it after the instance was resumed.
            metrics.ANSWERS.labels("fail", "suspended").inc()
            await self._note(job_key, "failure suspended", str(error))
            await self._park(job_key)
        except (EngineError, StoreError) as error:
            # An unreported failure is safe: the sweep reports it once the lease is over, or the next delivery does.
            metrics.ANSWERS.labels("fail", "unavailable").inc()
            _log.warning("failure not reported", extra={"job_key": job_key, "reason": str(error)})

    async def _park(self, job_key: int) -> None:
        if self._suspensions is None:
            return
        try:
            await self._suspensions.park(job_key)
        except StoreError as error:
            # The next refusal parks it.
            _log.warning("suspended entry not parked yet", extra={"job_key": job_key, "reason": str(error)})

    async def _note(self, job_key: int, kind: str, detail: str) -> None:
        try:
            await self._frames.note(job_key, kind, detail=detail[:500])
        except StoreError:
            _log.warning("note not written", extra={"job_key": job_key, "kind": kind})


class Redelivery:
    """Follows the decision table for deliveries that `push` did not claim."""

    def __init__(self, frames: Frames, engine: JobCommands, returns: JobResults) -> None:
        self._frames = frames
        self._engine = engine
        self._returns = returns

    async def settle(self, delivery: Delivery, reserved: JobVariables) -> Claim | None:
        """Do what the existing frame requires; return a claim if the job is ours to run after all."""
        job = delivery.job
        for _ in range(_TRIES):
            frame = await self._frames.observe(job.key)
            if frame is not None:
                step = decide(frame, job, delivery.instance_uid, self._frames.owner)
                metrics.DELIVERIES.labels(job.type, step.value).inc()
                if step is FrameStep.CONTINUE:
                    await self._frames.note(job.key, step.value, epoch=frame.epoch)
                    return await self._frames.resume(job.key)
                if step is FrameStep.QUARANTINE and await self._is_reused(frame, delivery):
                    await self._displace(frame, delivery, reserved)
                elif step is not FrameStep.CLAIM_AGAIN:
                    await self._follow(step, frame, delivery, reserved)
                    return None
            claim = await self._frames.push(delivery)
            if claim is not None:
                return claim
        # The worker that was faster runs the job, or the engine hands it out again when our activation ends.
        await self._frames.note(job.key, "outpaced", detail=f"other deliveries were faster {_TRIES} times")
        return None

    async def _follow(self, step: FrameStep, frame: Frame, delivery: Delivery, reserved: JobVariables) -> None:
        job = delivery.job
        match step:
            case FrameStep.REPLAY:
                await self._replay(frame, delivery)
            case FrameStep.BUSY:
                # The engine is not asked: if the other worker dies, any worker's sweep finds its frame.
                await self._frames.note(job.key, "busy", epoch=frame.epoch, detail="another worker holds a live lease")
            case FrameStep.REPORT_RETRY:
                rest = (frame.next_retry_at - frame.now).total_seconds() if frame.next_retry_at else 0.0
                await self._report(frame, delivery, retries=frame.retries_left, delay=max(rest, 0.0))
            case FrameStep.REPORT_INCIDENT:
                await self._report(frame, delivery, retries=0, delay=0.0)
            case FrameStep.HOLD_POISON | FrameStep.HOLD_UNKNOWN:
                await self._hold(frame, delivery, incident_of(step, frame))
            case FrameStep.QUARANTINE:
                await self._quarantine(frame, delivery, reserved)
            case _:  # superseded, or an incident that the engine knows of: nothing to do
                await self._frames.note(job.key, step.value, epoch=frame.epoch)

    async def _replay(self, frame: Frame, delivery: Delivery) -> None:
        if frame.input_hash != delivery.input_hash:
            metrics.DRIFTS.labels(frame.verb).inc()
            await self._frames.note(frame.job_key, "input drift", detail="the variables changed after the verdict")
        # A delivery from before the acknowledgement was merely late, for example in the socket of a frozen worker.
        if frame.acked_at is not None and delivery.job.activated_ms > frame.acked_at.timestamp() * 1000:
            _log.error("an acknowledged job came back; was the engine restored?", extra={"job_key": frame.job_key})
        metrics.REPLAYS.labels(frame.verb).inc()
        await self._frames.note(frame.job_key, "replay", epoch=frame.epoch, detail="the stored verdict was sent again")
        await self._returns.verdict(frame.job_key, verdict_of(frame), lease_token=delivery.job.lease_token)

    async def _report(self, frame: Frame, delivery: Delivery, *, retries: int, delay: float) -> None:
        message = _message(delivery, str(frame.fail_class), str(frame.fail_code), str(frame.fail_text))
        await self._frames.note(frame.job_key, "report repeated", epoch=frame.epoch)
        await self._returns.report(delivery.job, frame.epoch, retries=retries, delay=delay, message=message)

    async def _hold(self, frame: Frame, delivery: Delivery, incident: Incident) -> None:
        activated_ms, code, text = delivery.job.activated_ms, incident.code, incident.message
        epoch = await self._frames.hold(frame, activated_ms, code=code, message=text)
        if epoch is not None:
            message = _message(delivery, incident.kind, code, text)
            await self._returns.report(delivery.job, epoch, retries=0, delay=0.0, message=message)

    async def _is_reused(self, frame: Frame, delivery: Delivery) -> bool:
        """Return whether the engine gave the key of an old job to this one, whose payload is its own."""
        is_another = not is_same_job(frame, delivery.job, delivery.instance_uid)
        return is_another and not frame.archived and await self._frames.is_genuine(delivery)

    async def _displace(self, frame: Frame, delivery: Delivery, reserved: JobVariables) -> None:
        """Displace the frame of a reused job key; the next push claims the new job.

        A frame that changed meanwhile is looked at again: the sweep took it, or another delivery displaced it first.
        """
        if await self._frames.displace(frame, delivery):
            await self._keep_conflict(delivery, reserved)
            what = {"job_key": frame.job_key, "verb": delivery.job.type}
            _log.warning("the engine gave a job key out again", extra=what)

    async def _keep_conflict(self, delivery: Delivery, reserved: JobVariables) -> None:
        hidden = ("variables", "headers", "lease_token")
        seen = {name: value for name, value in asdict(delivery.job).items() if name not in hidden}
        await self._frames.quarantine(delivery.job.key, {**seen, "instance_uid": reserved.instance_uid})

    async def _quarantine(self, frame: Frame, delivery: Delivery, reserved: JobVariables) -> None:
        job = delivery.job
        await self._keep_conflict(delivery, reserved)
        _log.error("a delivery carries another job's key", extra={"job_key": job.key, "verb": job.type})
        code, text = "IdentityMismatch", "this key is another job's; was the engine recreated?"
        if frame.state is FrameState.FAILED and frame.acked_at is not None:
            code, text = "JobReturned", "the engine had no such job before; was it restored from a backup?"
        try:
            message = _message(delivery, PermanentContract.kind, code, text)
            await self._engine.fail(job.key, retries=0, message=message, lease_token=job.lease_token)
        except EngineError as error:
            _log.warning("quarantined job not failed", extra={"job_key": job.key, "reason": str(error)})


def _message(delivery: Delivery, kind: str, code: str, text: str) -> str:
    job = delivery.job
    return describe_failure(kind, code, text, verb=job.type, entry_id=delivery.entry_id, job_key=job.key)


def verdict_of(frame: Frame | Unacknowledged) -> Verdict:
    """Return the verdict that a completed frame holds."""
    if frame.outcome == "bpmn_error":
        return Thrown(frame.error_code or "", frame.fail_text or "")
    return JobResult(frame.output or b"", frame.output_seal or "", frame.flags, frame.correlation)


_CONCURRENT_CALLS = 8  # the relay leaves room for the workers' own answers
_BATCH = 200  # verdicts per round; the others come next


class Relay:
    """Looks for unacknowledged verdicts every few seconds. Safe from any worker at any time."""

    def __init__(self, frames: Frames, returns: JobResults, *, every: timedelta = timedelta(seconds=10)) -> None:
        self._frames = frames
        self._returns = returns
        self._every = every
        self.service = PollLoop("relay", self.sweep, every=every.total_seconds(), first_after=every.total_seconds())

    async def sweep(self) -> int:
        """Send each due verdict once and return how many the engine accepted."""
        due = await self._frames.claim_unsent(older_than=self._every, hold=self._every * 3, limit=_BATCH)
        return sum(await self.service.for_each(due, _CONCURRENT_CALLS, self._send))

    async def _send(self, frame: Unacknowledged) -> bool:
        metrics.RELAYS.labels(frame.verb).inc()
        await self._note(frame.job_key)
        return await self._returns.verdict(frame.job_key, verdict_of(frame))

    async def _note(self, job_key: int) -> None:
        try:
            await self._frames.note(job_key, "relay")
        except StoreError as error:
            # The note is for people; the verdict matters more.
            _log.warning("relay not noted", extra={"job_key": job_key, "reason": str(error)})
