"""The sweep: finds jobs whose worker died and has another worker run them, even if the engine lost their timeout.

The engine is not the timer. A broker can lose the timeout of a job (camunda #29735); then extending it changes nothing
and only FailJob hands the job out again. So every worker looks for expired leases, in Postgres alone: frames of verbs,
and delivery rows of jobs without a frame (listeners, gates, compensation).
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from datetime import timedelta
from enum import StrEnum
from uuid import UUID

from verbworker import metrics
from verbworker.background.poll_loop import PollLoop
from verbworker.engine.protocol import Engine
from verbworker.errors import EngineError, InstanceSuspended, JobGone, JobNotActive, LeaseLost, TransientInfrastructure
from verbworker.job.frame import FrameStep, decide_swept, incident_of
from verbworker.job.outcome import describe_failure
from verbworker.retrying import spread
from verbworker.stores.jobs.deliveries import Deliveries, ExpiredDelivery
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.leases import ExpiredLeases, SweptFrame, UnconfirmedFrame
from verbworker.work.jobs.lease_tokens import redeliver
from verbworker.work.upkeep.reconciler import Reconciler

_log = logging.getLogger(__name__)

# One batch is reported well within the lease that protects it: an engine answers in milliseconds, sixteen at a time.
_BATCH = 100
_CONCURRENT_REPORTS = 16  # calls of the engine; more would only queue there
# More than any set of workers has in progress; beyond it the oldest leases come first.
_MOST_OPEN = 10_000
_ASK_EVERY_S = 60.0  # what it asks about makes no progress anyway
_ENGINE_AWAY = timedelta(seconds=5)  # long enough not to press an engine that restarts
# The engine has such a job in an incident or a backoff, so a person or the engine itself moves it on.
_NOT_ACTIVE = timedelta(minutes=5)
_SUSPENDED = timedelta(minutes=1)  # a person resumes the instance; until then nothing about its jobs changes
# A leased job is delivered again within seconds; its next delivery reports what is in the frame.
_LEASED = timedelta(seconds=15)
_ENDED_EVERY = timedelta(minutes=1)  # its entry has ended, so the job should be gone
_HELD_EVERY = timedelta(minutes=10)  # a person has it; only a cancel in the engine is news
_ASKED_TIMEOUT_MS = 60_000  # of no effect on a job that is not active
_SILENT = "its worker stopped reporting"


class SweepAnswer(StrEnum):
    """The engine's answer to a report."""

    OK = "ok"
    GONE = "gone"
    NOT_ACTIVE = "not active"
    SUSPENDED = "suspended"
    LEASED = "leased"  # the report was refused without a token, and the job is delivered again
    AWAY = "away"


class Sweep:
    """Recovers expired leases. Any number of workers sweep concurrently; each frame and row is taken by one of them."""

    def __init__(
        self,
        engine: Engine,
        frames: Frames,
        leases: ExpiredLeases,
        deliveries: Deliveries,
        reconciler: Reconciler,
        *,
        every: timedelta = timedelta(seconds=3),
    ) -> None:
        self._engine = engine
        self._frames = frames
        self._leases = leases
        self._deliveries = deliveries
        self._reconciler = reconciler
        self.service = PollLoop(
            "sweep",
            self.work,
            every=every.total_seconds(),
            chore=self.ask,
            chore_every=_ASK_EVERY_S,
            first_after=every.total_seconds(),
        )
        self._open: list[int] = []
        self._look_at = float("-inf")

    async def work(self) -> int:
        """Sweep once; return 0 if less than a full batch was due, so that the next sweep is at the next tick."""
        return await self.sweep() // _BATCH

    async def sweep(self) -> int:
        """Process one batch of frames and one of delivery rows; return the size of the larger."""
        return max(await self._sweep_frames(), await self._sweep_deliveries())

    # ---- frames ---------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Find out which frames are open, once per lease.

        A frame that is opened after this look is not due before the next one: its lease is as long as the pause.
        """
        clock = asyncio.get_running_loop().time
        if clock() >= self._look_at:
            next_at = clock() + spread(self._frames.lease.total_seconds() * 0.75, 1 / 3)
            self._open = await self._leases.open(_MOST_OPEN)
            self._look_at = next_at

    async def _sweep_frames(self) -> int:
        await self._look()
        lease = self._frames.lease.total_seconds()
        sure_until = asyncio.get_running_loop().time() + lease - min(2.0, lease / 3)
        taken = await self._leases.take(self._open, _BATCH) if self._open else []
        steps = {one.frame.job_key: decide_swept(one.frame) for one in taken}
        abandoned = [one for one in taken if steps[one.frame.job_key] is FrameStep.CLAIM_AGAIN]
        freed = await self._leases.run_again(abandoned) if abandoned else set()
        gone: set[UUID] = set()

        async def settle(one: SweptFrame) -> None:
            step = steps[one.frame.job_key]
            if step in (FrameStep.HOLD_POISON, FrameStep.HOLD_UNKNOWN):
                is_ours = await self._leases.hold(one, step, incident_of(step, one.frame))
            else:
                is_ours = step is not FrameStep.CLAIM_AGAIN or one.frame.job_key in freed
            # As for any report: a late one could stop the run of another worker, so it needs a certain lease.
            if is_ours and asyncio.get_running_loop().time() < sure_until:
                answer = await self._report(one, step)
                await self._note(one, step, answer, gone)

        await self.service.for_each(taken, _CONCURRENT_REPORTS, settle)
        await self._look_after(gone)
        return len(taken)

    async def _report(self, one: SweptFrame, step: FrameStep) -> SweepAnswer:
        """Hand the job out again with the retries its frame has left, or raise its incident."""
        frame, is_held = one.frame, step not in (FrameStep.CLAIM_AGAIN, FrameStep.REPORT_RETRY)
        kind, code, text = str(frame.fail_class), str(frame.fail_code), str(frame.fail_text)
        if step in (FrameStep.HOLD_POISON, FrameStep.HOLD_UNKNOWN):
            incident = incident_of(step, frame)
            kind, code, text = incident.kind, incident.code, incident.message
        elif step is FrameStep.CLAIM_AGAIN:
            kind, code, text = TransientInfrastructure.kind, "LeaseOver", _SILENT
        message = describe_failure(kind, code, text, verb=frame.verb, entry_id=one.entry_id, job_key=frame.job_key)
        return await self._fail(frame.job_key, 0 if is_held else max(frame.retries_left, 1), message)

    async def _note(self, one: SweptFrame, step: FrameStep, answer: SweepAnswer, gone: set[UUID]) -> None:
        frame = one.frame
        metrics.SWEPT.labels(frame.verb, step.value if answer is SweepAnswer.OK else answer.value).inc()
        match answer:
            case SweepAnswer.OK:
                await self._frames.record_report(frame.job_key, frame.epoch)
                if step in (FrameStep.REPORT_RETRY, FrameStep.REPORT_INCIDENT):
                    await self._leases.note(one, step)
            case SweepAnswer.GONE:
                await self._close(self._frames.engine_id, frame.job_key, frame.epoch)
                if frame.instance_uid is not None:
                    gone.add(frame.instance_uid)
            case SweepAnswer.NOT_ACTIVE if step not in (FrameStep.CLAIM_AGAIN, FrameStep.REPORT_RETRY):
                # The engine accepted the incident from a worker that died before it could record that.
                await self._frames.record_report(frame.job_key, frame.epoch)
            case SweepAnswer.NOT_ACTIVE:
                await self._leases.postpone(one, _NOT_ACTIVE)
            case SweepAnswer.SUSPENDED:
                await self._leases.postpone(one, _SUSPENDED)
            case SweepAnswer.LEASED:
                await self._leases.postpone(one, _LEASED)
            case SweepAnswer.AWAY:
                await self._leases.postpone(one, _ENGINE_AWAY)

    async def ask(self) -> int:
        """Close the frames of ended entries and of held jobs that the engine no longer has; return how many.

        A held job that a person released in the engine, and that was handed out but never claimed, is handed out again.
        """
        doubtful = await self._leases.ask(ended_every=_ENDED_EVERY, held_every=_HELD_EVERY, limit=_BATCH)
        closed: list[UnconfirmedFrame] = []
        gone: set[UUID] = set()

        async def ask(one: UnconfirmedFrame) -> None:
            # No command changes a job that is not active, and an active one keeps its worker: this only asks.
            answer = await self._tell(self._engine.extend(one.asked_key, _ASKED_TIMEOUT_MS))
            if answer is SweepAnswer.OK and one.engine_id == self._frames.engine_id:
                # A held job is not active, unless a person released it and the worker that got it never claimed it.
                metrics.SWEPT.labels(one.verb, FrameStep.CLAIM_AGAIN.value).inc()
                await self._fail(one.job_key, max(one.retries_left, 1), f"given back: {_SILENT}")
            if answer is SweepAnswer.GONE:
                metrics.SWEPT.labels(one.verb, answer.value).inc()
                closed.append(one)
                await self._close(one.engine_id, one.job_key, one.epoch)
                if one.instance_uid is not None:
                    gone.add(one.instance_uid)

        await self.service.for_each(doubtful, _CONCURRENT_REPORTS, ask)
        await self._look_after(gone)
        return len(closed)

    async def _close(self, engine_id: str, job_key: int, epoch: int) -> None:
        text = "the engine no longer has the job"
        if await self._frames.close(job_key, epoch, code="JobGone", message=text, engine_id=engine_id):
            _log.info("frame closed: the engine has no such job", extra={"engine_id": engine_id, "job_key": job_key})

    # ---- jobs without a frame ---------------------------------------------------------------------------------------

    async def _sweep_deliveries(self) -> int:
        lapsed = await self._deliveries.take(grace=self._leases.grace, limit=_BATCH)
        gone: set[UUID] = set()

        async def settle(one: ExpiredDelivery) -> None:
            answer = await self._fail(one.job_key, max(one.retries, 1), f"given back: {_SILENT}")
            metrics.SWEPT.labels(
                one.type, FrameStep.CLAIM_AGAIN.value if answer is SweepAnswer.OK else answer.value
            ).inc()
            if answer in (SweepAnswer.AWAY, SweepAnswer.SUSPENDED):
                pause = _ENGINE_AWAY if answer is SweepAnswer.AWAY else _SUSPENDED
                await self._deliveries.postpone(one, grace=self._leases.grace, pause=pause)
                return
            if answer is SweepAnswer.GONE and one.instance_uid is not None:
                gone.add(one.instance_uid)
            # Not active means that its worker had answered before it died: the engine has the job back already.
            await self._deliveries.remove(one)

        await self.service.for_each(lapsed, _CONCURRENT_REPORTS, settle)
        await self._look_after(gone)
        return len(lapsed)

    # ---- the engine -------------------------------------------------------------------------------------------------

    async def _fail(self, job_key: int, retries: int, message: str) -> SweepAnswer:
        answer = await self._tell(self._engine.fail(job_key, retries=retries, message=message))
        if answer is not SweepAnswer.LEASED:
            return answer
        again = await self._tell(redeliver(self._engine, job_key))
        return SweepAnswer.LEASED if again is SweepAnswer.OK else again

    async def _tell(self, command: Awaitable[None]) -> SweepAnswer:
        try:
            await command
        except JobGone:
            return SweepAnswer.GONE
        except InstanceSuspended:
            return SweepAnswer.SUSPENDED
        except JobNotActive:
            return SweepAnswer.NOT_ACTIVE
        except LeaseLost:
            return SweepAnswer.LEASED
        except EngineError as error:
            _log.warning("sweep waits for the engine", extra={"reason": str(error)})
            return SweepAnswer.AWAY
        return SweepAnswer.OK

    async def _look_after(self, instances: Iterable[UUID]) -> None:
        """Check now whether the instances of gone jobs ended outside, not after ten quiet minutes."""
        for instance_uid in instances:
            try:
                await self._reconciler.check(instance_uid)
            except EngineError as error:
                _log.info("instance not reconciled yet", extra={"reason": str(error)})
