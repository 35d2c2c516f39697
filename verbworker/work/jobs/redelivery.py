"""Redelivery: handles a delivery whose frame already exists."""

import logging
from dataclasses import asdict

from verbworker import metrics
from verbworker.errors import EngineError, PermanentContract
from verbworker.job.frame import Claim, Delivery, Frame, FrameState, FrameStep, decide, incident_of, is_same_job
from verbworker.job.outcome import Completed, Incident, Thrown, Verdict, describe_failure
from verbworker.payload.boundary import JobVariables
from verbworker.stores.jobs.frames import Frames, Unacknowledged
from verbworker.work.jobs.job_commands import JobCommands
from verbworker.work.jobs.job_results import JobResults

_log = logging.getLogger(__name__)
_TRIES = 3


class Redelivery:
    """Follows the decision table for deliveries that `push` did not claim."""

    def __init__(self, frames: Frames, engine: JobCommands, returns: JobResults) -> None:
        self._frames = frames
        self._engine = engine
        self._returns = returns

    async def settle(self, delivery: Delivery, luggage: JobVariables) -> Claim | None:
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
                is_displaced = step is FrameStep.QUARANTINE and await self._displace(frame, delivery, luggage)
                if step is not FrameStep.CLAIM_AGAIN and not is_displaced:
                    await self._follow(step, frame, delivery, luggage)
                    return None
            claim = await self._frames.push(delivery)
            if claim is not None:
                return claim
        return None

    async def _follow(self, step: FrameStep, frame: Frame, delivery: Delivery, luggage: JobVariables) -> None:
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
                await self._quarantine(frame, delivery, luggage)
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
        await self._returns.verdict(frame.job_key, verdict_of(frame))

    async def _report(self, frame: Frame, delivery: Delivery, *, retries: int, delay: float) -> None:
        message = _message(delivery, str(frame.fail_class), str(frame.fail_code), str(frame.fail_text))
        await self._frames.note(frame.job_key, "report repeated", epoch=frame.epoch)
        await self._returns.report(frame.job_key, frame.epoch, retries=retries, delay=delay, message=message)

    async def _hold(self, frame: Frame, delivery: Delivery, incident: Incident) -> None:
        activated_ms, code, text = delivery.job.activated_ms, incident.code, incident.message
        epoch = await self._frames.hold(frame, activated_ms, code=code, message=text)
        if epoch is not None:
            message = _message(delivery, incident.kind, code, text)
            await self._returns.report(frame.job_key, epoch, retries=0, delay=0.0, message=message)

    async def _displace(self, frame: Frame, delivery: Delivery, luggage: JobVariables) -> bool:
        """Displace the frame of a job key that the engine reused; the next push claims the new job."""
        is_another = not is_same_job(frame, delivery.job, delivery.instance_uid)
        if not is_another or not await self._frames.displace(frame, delivery):
            return False
        await self._keep_conflict(delivery, luggage)
        _log.warning("the engine gave a job key out again", extra={"job_key": frame.job_key, "verb": delivery.job.type})
        return True

    async def _keep_conflict(self, delivery: Delivery, luggage: JobVariables) -> None:
        seen = {name: value for name, value in asdict(delivery.job).items() if name not in ("variables", "headers")}
        await self._frames.quarantine(delivery.job.key, {**seen, "instance_uid": luggage.instance_uid})

    async def _quarantine(self, frame: Frame, delivery: Delivery, luggage: JobVariables) -> None:
        job = delivery.job
        await self._keep_conflict(delivery, luggage)
        _log.error("a delivery carries another job's key", extra={"job_key": job.key, "verb": job.type})
        code, text = "IdentityMismatch", "this key is another job's; was the engine recreated?"
        if frame.state is FrameState.FAILED and frame.acked_at is not None:
            code, text = "JobReturned", "the engine had no such job before; was it restored from a backup?"
        try:
            message = _message(delivery, PermanentContract.kind, code, text)
            await self._engine.fail(job.key, retries=0, message=message)
        except EngineError as error:
            _log.warning("quarantined job not failed", extra={"job_key": job.key, "reason": str(error)})


def _message(delivery: Delivery, kind: str, code: str, text: str) -> str:
    job = delivery.job
    return describe_failure(kind, code, text, verb=job.type, entry_id=delivery.entry_id, job_key=job.key)


def verdict_of(frame: Frame | Unacknowledged) -> Verdict:
    """Return the verdict that a completed frame holds."""
    if frame.outcome == "bpmn_error":
        return Thrown(frame.error_code or "", frame.fail_text or "")
    return Completed(frame.output or b"", frame.output_seal or "", frame.flags, frame.correlation)
