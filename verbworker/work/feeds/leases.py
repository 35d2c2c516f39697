"""Keep what this process holds: the leases of its claims, and the engine's activations of its jobs."""

import asyncio
import logging
from contextlib import AbstractContextManager
from enum import StrEnum

from verbworker import metrics
from verbworker.background.poll_loop import PollLoop
from verbworker.engine.protocol import JobTimeouts
from verbworker.errors import (
    EngineError,
    EngineUnavailable,
    InstanceSuspended,
    JobGone,
    JobNotActive,
    LeaseLost,
    VerbworkerError,
)
from verbworker.job.frame import Claim
from verbworker.job.job import Job
from verbworker.stores.cases.suspensions import Suspensions
from verbworker.stores.jobs.frames import Frames

_log = logging.getLogger(__name__)

FIRST_TIMEOUT_MS = 5_000
"""The timeout of a new activation. A stopped worker holds a job that long, plus the second until Zeebe looks again."""

# Two of five seconds: quick jobs are done by then, and three seconds remain for a slow loop and a slow engine.
_EXTEND_AFTER = 0.4
_LOOK_EVERY = 0.25  # a small part of the three seconds that remain to extend
# One UpdateJobTimeout takes Zeebe 2-5 ms: with sixteen concurrent calls, 500 jobs take less than 200 ms.
_CONCURRENT_EXTENSIONS = 16
# With the jitter of a tick, two beats are never more than a third of a lease apart.
_BEATS_PER_LEASE = 4


class StopReason(StrEnum):
    """Why a verb was stopped before it ended."""

    LOST = "lost"  # another claim owns the frame, or another delivery the engine's lease
    GONE = "gone"  # the engine dropped the job
    SHUTDOWN = "shutdown"  # the process shuts down


class Abandoned(VerbworkerError):
    """The run was stopped from outside while its effect may be in progress; its frame stays as it is."""


class JobVanished(VerbworkerError):
    """The engine dropped the job while its verb ran."""


class RunningJob:
    """One running claim: the loop time until which it is certainly ours, and the scope of its verb."""

    def __init__(self, claim: Claim, job: Job, sure_until: float) -> None:
        self.claim = claim
        self.job = job
        self.ended: StopReason | None = None
        self.is_answered = False  # the engine has the verdict: it was part of the verb's own commit
        self.due: float | None = None  # the loop's time at which the verb's own time is over
        self.is_overtime_reported = False
        self._sure_until = sure_until
        self._scope: asyncio.Timeout | None = None

    def renew(self, sure_until: float) -> None:
        """Record that the lease was extended."""
        self._sure_until = sure_until

    def is_sure(self, margin: float = 2.0) -> bool:
        """Return whether the lease is certain for another `margin` seconds. Never fail a job without that."""
        is_ours = self.ended in (None, StopReason.SHUTDOWN)
        return is_ours and asyncio.get_running_loop().time() < self._sure_until - margin

    def enter(self, scope: asyncio.Timeout, due: float) -> None:
        """Note that the verb runs inside `scope`, which `end` expires immediately, and until when it may run."""
        self._scope, self.due = scope, due

    def leave(self) -> None:
        """Note that the verb has ended."""
        self._scope = self.due = None

    def end(self, reason: StopReason) -> None:
        """Stop the verb. The first reason counts."""
        self.ended = self.ended or reason
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())


class KeptLease:
    """A claim whose lease is kept, as a context."""

    __slots__ = ("_all", "_running")

    def __init__(self, every: dict[int, RunningJob], running: RunningJob) -> None:
        self._all = every
        self._running = running

    def __enter__(self) -> RunningJob:
        self._all[self._running.job.key] = self._running
        return self._running

    def __exit__(self, *_: object) -> None:
        key = self._running.job.key
        if self._all.get(key) is self._running:
            del self._all[key]


class Leases:
    """Extends the lease of every running claim, with a single statement per beat."""

    def __init__(
        self,
        frames: Frames,
        engine: JobTimeouts,
        *,
        engine_timeout_ms: int,
        prefix: str = "",
        suspensions: Suspensions | None = None,
    ) -> None:
        self._frames = frames
        self._engine = engine
        self._suspensions = suspensions
        self._timeout_ms = engine_timeout_ms
        self._running: dict[int, RunningJob] = {}
        self._unextended: list[RunningJob] = []
        self._ending: StopReason | None = None
        beat = frames.lease.total_seconds() / _BEATS_PER_LEASE
        renewing = PollLoop(f"{prefix}leases", self._renew, every=beat)
        # A separate service, so that an outage of the engine does not lose us the frames.
        self._extending = PollLoop(f"{prefix}engine-timeouts", self._extend, every=None)
        self.services = (renewing, self._extending)

    def keep_lease(self, claim: Claim, job: Job, claimed_at: float) -> "KeptLease":
        """Return a context that keeps a claim alive; `claimed_at` is the loop's time before the claim was written."""
        running = RunningJob(claim, job, claimed_at + self._frames.lease.total_seconds())
        if (older := self._running.get(job.key)) is not None:
            # Our own lease had expired, and the engine delivered the job to us again: the newer epoch owns the frame.
            older.end(StopReason.LOST)
        if self._ending is not None:
            running.end(self._ending)
        return KeptLease(self._running, running)

    def end_all(self, reason: StopReason) -> None:
        """Stop every running verb, and every one that would still start."""
        self._ending = reason
        for running in self._running.values():
            running.end(reason)

    async def beat(self) -> None:
        """Extend every lease once, then the engine's timeouts of the jobs that are still ours."""
        await self._renew()
        await self._extend()

    async def _renew(self) -> int:
        """Extend every lease, stop jobs that are no longer ours, and schedule the engine's timeouts of the rest."""
        jobs = dict(self._running)
        if not jobs:
            self._unextended = []
            return 0
        began = asyncio.get_running_loop().time()
        lost = await self._frames.heartbeat({key: running.claim.epoch for key, running in jobs.items()})
        for key, running in jobs.items():
            if key in lost:
                running.end(StopReason.LOST)
            else:
                running.renew(began + self._frames.lease.total_seconds())
        self._unextended = [running for key, running in jobs.items() if key not in lost]
        self._extending.poke()
        for running in self._unextended:
            await self._report_overtime(running, began)
        return 0

    async def _report_overtime(self, running: RunningJob, now: float) -> None:
        """Report a verb that does not end although it was stopped: a thread, or code that ignores its cancellation.

        Its job stays ours, because the call may still take effect. A person must end it.
        """
        due, grace = running.due, self._frames.lease.total_seconds()
        if due is None or running.is_overtime_reported or now < due + grace:
            return
        running.is_overtime_reported = True
        over = f"{now - due:.0f} s"
        about = {"verb": running.job.type, "job_key": running.job.key, "over": over}
        _log.error("a verb runs past its time limit; restart its worker to stop it", extra=about)
        await self._frames.note(running.job.key, "over time", epoch=running.claim.epoch, detail=f"for {over} by now")

    async def _extend(self) -> int:
        """Extend the engine's timeouts since the last beat; retry those that failed until the next beat."""
        jobs, self._unextended = self._unextended, []
        await self._extending.for_each(jobs, _CONCURRENT_EXTENSIONS, self._extend_one)
        return 0

    async def _extend_one(self, running: RunningJob) -> None:
        try:
            # A verb or task may have a longer timeout of its own.
            longest = max(self._timeout_ms, running.job.timeout_ms)
            await self._engine.extend(running.job.key, longest, lease_token=running.job.lease_token)
        except JobGone:
            running.end(StopReason.GONE)
        except LeaseLost:
            # Whatever this run ends with, the engine will not accept it from this delivery.
            running.end(StopReason.LOST)
        except InstanceSuspended as error:
            # The verb goes on: its verdict is stored, and sent when the instance is resumed.
            _log.info("engine timeout not extended", extra={"reason": str(error)})
            if self._suspensions is not None:
                await self._suspensions.park(running.job.key, running.job.process_instance_key)
        except EngineUnavailable:
            if self._running.get(running.job.key) is running:
                self._unextended.append(running)
            raise
        except EngineError as error:
            # A late completion is accepted all the same, so this is no reason to stop.
            _log.info("engine timeout not extended", extra={"reason": str(error)})


def first_timeout_ms(timeout_ms: int) -> int:
    """Return the first timeout to request for a job that may take `timeout_ms`."""
    return min(timeout_ms, FIRST_TIMEOUT_MS)


class _Activation:
    """One delivery in progress, as a context: when its timeout must be extended, and whether it is done."""

    __slots__ = ("_waiting", "due_at", "is_done", "job")

    def __init__(self, job: Job, due_at: float, waiting: "set[_Activation]") -> None:
        self.job = job
        self.due_at = due_at
        self.is_done = False
        self._waiting = waiting

    def __enter__(self) -> None:
        self._waiting.add(self)

    def __exit__(self, *_: object) -> None:
        self.is_done = True
        self._waiting.discard(self)


class Activations:
    """Keeps the engine's activation of every delivered job alive until the job is done.

    The engine hands a job out for a few seconds only, so that a worker that stops reading blocks nothing for long:
    Zeebe 8.6 pushes even to a stopped process, and pushes timed-out jobs there again. A job that finishes quickly costs
    no further command. One that takes longer gets the timeout of its kind by one command, even while it still waits to
    be claimed. Beyond that, `Leases` extends verbs, and the compensation handler extends its own jobs.
    """

    def __init__(self, engine: JobTimeouts) -> None:
        self._engine = engine
        self._waiting: set[_Activation] = set()
        self.service = PollLoop("activations", self._extend_due, every=_LOOK_EVERY)

    def held(self, job: Job) -> AbstractContextManager[None]:
        """Return a context that keeps a job's activation alive while it is worked on."""
        after = first_timeout_ms(job.timeout_ms) / 1000 * _EXTEND_AFTER
        return _Activation(job, asyncio.get_running_loop().time() + after, self._waiting)

    async def _extend_due(self) -> int:
        now = asyncio.get_running_loop().time()
        due = [activation for activation in self._waiting if activation.due_at <= now]
        self._waiting.difference_update(due)
        await self.service.for_each(due, _CONCURRENT_EXTENSIONS, self._extend)
        return 0

    async def _extend(self, activation: _Activation) -> None:
        job = activation.job
        if activation.is_done:
            return
        try:
            await self._engine.extend(job.key, job.timeout_ms, lease_token=job.lease_token)
        except (JobGone, JobNotActive, LeaseLost) as error:
            # Too late, or ended in the engine. The frame or the handler finds out what that means for the job.
            _log.info("engine timeout not extended", extra={"job_key": job.key, "reason": str(error)})
        except EngineError:
            if not activation.is_done:
                self._waiting.add(activation)
            raise
        else:
            metrics.EXTENSIONS.labels(job.type).inc()
