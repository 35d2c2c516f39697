"""Redelivery: what is done with a delivery whose frame stands already."""

import logging
from dataclasses import asdict

from verbworker import metrics
from verbworker.crossing import Luggage
from verbworker.errors import EngineError, PermanentContract
from verbworker.frame import Claim, Delivery, Frame, Step, decide
from verbworker.outcome import Completed, Thrown, Verdict, told
from verbworker.stores.frames import Frames, Unacknowledged
from verbworker.work.reporting import Reporting
from verbworker.work.returns import Returns

_log = logging.getLogger(__name__)
_TRIES = 3


class Redelivery:
    """Follows the decision table for deliveries that `push` did not claim."""

    def __init__(self, frames: Frames, engine: Reporting, returns: Returns) -> None:
        self._frames = frames
        self._engine = engine
        self._returns = returns

    async def settle(self, delivery: Delivery, luggage: Luggage) -> Claim | None:
        """Do what the standing frame asks for; a claim when the job is ours to run after all."""
        job = delivery.job
        for _ in range(_TRIES):
            frame = await self._frames.observe(job.key)
            if frame is not None:
                step = decide(frame, job, delivery.instance_uid, self._frames.owner)
                metrics.DELIVERIES.labels(job.type, step.value).inc()
                if step is Step.CONTINUE:
                    await self._frames.note(job.key, step.value, epoch=frame.epoch)
                    return await self._frames.resume(job.key)
                if step is not Step.CLAIM_AGAIN:
                    await self._follow(step, frame, delivery, luggage)
                    return None
            claim = await self._frames.push(delivery)
            if claim is not None:
                return claim
        return None

    async def _follow(self, step: Step, frame: Frame, delivery: Delivery, luggage: Luggage) -> None:
        job = delivery.job
        match step:
            case Step.REPLAY:
                await self._replay(frame, delivery)
            case Step.BUSY:
                await self._frames.note(job.key, "busy", epoch=frame.epoch, detail="another worker holds a live lease")
                await self._wait_for_rival(frame, job.key)
            case Step.REPORT_RETRY:
                rest = (frame.next_retry_at - frame.now).total_seconds() if frame.next_retry_at else 0.0
                await self._report(frame, delivery, retries=frame.retries_left, delay=max(rest, 0.0))
            case Step.REPORT_INCIDENT:
                await self._report(frame, delivery, retries=0, delay=0.0)
            case Step.HOLD_POISON:
                text = f"the verb was begun {frame.runs} times and its worker never answered"
                await self._hold(frame, delivery, "CrashLoop", text)
            case Step.HOLD_UNKNOWN:
                text = "a worker vanished during an external call, and repeating it is not allowed"
                await self._hold(frame, delivery, "OutcomeUnknown", text)
            case Step.QUARANTINE:
                await self._quarantine(delivery, luggage)
            case _:  # superseded, or an incident that is told already: the engine delivers again if it must
                await self._frames.note(job.key, step.value, epoch=frame.epoch)

    async def _replay(self, frame: Frame, delivery: Delivery) -> None:
        if frame.input_hash != delivery.input_hash:
            metrics.DRIFTS.labels(frame.verb).inc()
            await self._frames.note(frame.job_key, "input drift", detail="the variables changed after the verdict")
        # A delivery from before the acknowledgement only lay about, in the socket of a frozen worker for one.
        if frame.acked_at is not None and delivery.job.activated_ms > frame.acked_at.timestamp() * 1000:
            _log.error("an acknowledged job came back; was the engine restored?", extra={"job_key": frame.job_key})
        metrics.REPLAYS.labels(frame.verb).inc()
        await self._frames.note(frame.job_key, "replay", epoch=frame.epoch, detail="the stored verdict was sent again")
        await self._returns.verdict(frame.job_key, verdict_of(frame))

    async def _wait_for_rival(self, frame: Frame, job_key: int) -> None:
        rest = (frame.lease_until - frame.now).total_seconds()
        try:
            # The engine is the timer: it delivers again when the rival's lease has run out.
            await self._engine.extend(job_key, int(rest * 1000) + 1000)
        except EngineError as error:
            _log.info("rival's job not extended", extra={"job_key": job_key, "reason": str(error)})

    async def _report(self, frame: Frame, delivery: Delivery, *, retries: int, delay: float) -> None:
        message = _message(delivery, str(frame.fail_class), str(frame.fail_code), str(frame.fail_text))
        await self._frames.note(frame.job_key, "report repeated", epoch=frame.epoch)
        await self._returns.report(frame.job_key, frame.epoch, retries=retries, delay=delay, message=message)

    async def _hold(self, frame: Frame, delivery: Delivery, code: str, text: str) -> None:
        epoch = await self._frames.hold(frame, delivery.job.activated_ms, code=code, message=text)
        if epoch is not None:
            message = _message(delivery, PermanentContract.kind, code, text)
            await self._returns.report(frame.job_key, epoch, retries=0, delay=0.0, message=message)

    async def _quarantine(self, delivery: Delivery, luggage: Luggage) -> None:
        job = delivery.job
        seen = {name: value for name, value in asdict(job).items() if name not in ("variables", "headers")}
        await self._frames.quarantine(job.key, {**seen, "instance_uid": luggage.instance_uid})
        _log.error("a delivery carries another job's key", extra={"job_key": job.key, "verb": job.type})
        try:
            text = "this key is another job's; was the engine recreated?"
            message = _message(delivery, PermanentContract.kind, "IdentityMismatch", text)
            await self._engine.fail(job.key, retries=0, message=message)
        except EngineError as error:
            _log.warning("quarantined job not failed", extra={"job_key": job.key, "reason": str(error)})


def _message(delivery: Delivery, kind: str, code: str, text: str) -> str:
    job = delivery.job
    return told(kind, code, text, verb=job.type, entry_id=delivery.entry_id, job_key=job.key)


def verdict_of(frame: Frame | Unacknowledged) -> Verdict:
    """The verdict a completed frame holds."""
    if frame.outcome == "bpmn_error":
        return Thrown(frame.error_code or "", frame.fail_text or "")
    return Completed(frame.output or b"", frame.output_seal or "", frame.flags, frame.correlation)
