"""The heart: extends the leases of everything this process runs, and ends what is ours no more."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from verbworker.errors import EngineError, JobGone, StoreError
from verbworker.frame import Claim
from verbworker.job import Job
from verbworker.stores.frames import Frames
from verbworker.work.reporting import Waiting

_log = logging.getLogger(__name__)
_AT_ONCE = 16


class End(StrEnum):
    """Why a running verb is ended from outside."""

    LOST = "lost"  # another claim owns the frame
    GONE = "gone"  # the engine has no such job any more
    SHUTDOWN = "shutdown"  # the process must go


class Life:
    """One running claim: how long it is surely ours, and the way to end its verb."""

    def __init__(self, claim: Claim, job: Job, sure_until: float) -> None:
        self.claim = claim
        self.job = job
        self.ended: End | None = None
        self.is_told = False  # the engine has the verdict: it was part of the verb's own commit
        self._sure_until = sure_until
        self._scope: asyncio.Timeout | None = None

    def renew(self, sure_until: float) -> None:
        """The lease was extended."""
        self._sure_until = sure_until

    def is_sure(self, margin: float = 2.0) -> bool:
        """Whether the frame is ours beyond doubt for `margin` seconds: only then may a job be failed."""
        is_ours = self.ended in (None, End.SHUTDOWN)
        return is_ours and asyncio.get_running_loop().time() < self._sure_until - margin

    @contextmanager
    def inside(self, scope: asyncio.Timeout) -> Iterator[None]:
        """The verb runs inside `scope`; ending this life ends the scope at once."""
        self._scope = scope
        try:
            yield
        finally:
            self._scope = None

    def end(self, reason: End) -> None:
        """End the verb. The first reason counts."""
        self.ended = self.ended or reason
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())


class Heart:
    """Beats for every running claim, in one statement per beat."""

    def __init__(self, frames: Frames, engine: Waiting, *, engine_timeout_ms: int) -> None:
        self._frames = frames
        self._engine = engine
        self._timeout_ms = engine_timeout_ms
        self._lives: dict[int, Life] = {}
        self._ending: End | None = None

    @contextmanager
    def beating(self, claim: Claim, job: Job, claimed_at: float) -> Iterator[Life]:
        """Keep a claim alive; `claimed_at` is the loop's time before the claim was written."""
        life = Life(claim, job, claimed_at + self._frames.lease.total_seconds())
        if (older := self._lives.get(job.key)) is not None:
            # Our own lease had run out, and the engine gave the job back to us: the newer epoch owns the frame.
            older.end(End.LOST)
        self._lives[job.key] = life
        if self._ending is not None:
            life.end(self._ending)
        try:
            yield life
        finally:
            if self._lives.get(job.key) is life:
                del self._lives[job.key]

    def end_all(self, reason: End) -> None:
        """End every running verb, and every one that would still begin."""
        self._ending = reason
        for life in self._lives.values():
            life.end(reason)

    async def run(self) -> None:
        """Beat three times per lease until cancelled, however long the engine takes to answer."""
        async with asyncio.TaskGroup() as calls:
            extending: asyncio.Task[None] | None = None
            while True:
                await asyncio.sleep(self._frames.lease.total_seconds() / 3)
                lives = await self._renew()
                # An engine that is away must not cost us the frames: the next beat does not wait for it.
                if lives and (extending is None or extending.done()):
                    extending = calls.create_task(self._extend(lives))

    async def beat(self) -> None:
        """Extend every lease once, then the engine's timeouts of those that are still ours."""
        await self._extend(await self._renew())

    async def _renew(self) -> list[Life]:
        """Extend every lease, end what is ours no more, and return the rest; nothing when the database is away."""
        lives = dict(self._lives)
        if not lives:
            return []
        began = asyncio.get_running_loop().time()
        try:
            lost = await self._frames.heartbeat({key: life.claim.epoch for key, life in lives.items()})
        except StoreError as error:
            _log.warning("heartbeat not written", extra={"running": len(lives), "reason": str(error)})
            return []
        for key, life in lives.items():
            if key in lost:
                life.end(End.LOST)
            else:
                life.renew(began + self._frames.lease.total_seconds())
        return [life for key, life in lives.items() if key not in lost]

    async def _extend(self, lives: list[Life]) -> None:
        turn = asyncio.Semaphore(_AT_ONCE)

        async def extend(life: Life) -> None:
            async with turn:
                try:
                    await self._engine.extend(life.job.key, self._timeout_ms)
                except JobGone:
                    life.end(End.GONE)
                except EngineError as error:
                    # A late completion is accepted all the same, so this is no reason to stop.
                    _log.info("engine timeout not extended", extra={"reason": str(error)})

        async with asyncio.TaskGroup() as calls:
            for life in lives:
                calls.create_task(extend(life))
