"""Stores the verdicts of completed runs: in a batch, in the verb's transaction, or with the completed job."""

import logging
from functools import partial
from hashlib import sha256

from verbworker import metrics
from verbworker.engine.protocol import SameDatabase
from verbworker.errors import EngineError, StoreError
from verbworker.job.frame import Claim, FrameState
from verbworker.job.outcome import Completed
from verbworker.payload.boundary import AdmittedJob, leave, overtaken, variables_of
from verbworker.retrying import DATABASE
from verbworker.stores.cases import payloads
from verbworker.stores.database import Connection
from verbworker.stores.jobs.frames import Frames, VerdictRow
from verbworker.work.feeds.leases import RunningJob
from verbworker.work.jobs.step_guard import StepGuard

_log = logging.getLogger(__name__)


class Verdicts:
    """Stores verdicts inside a transaction, and finds out what a lost connection left."""

    def __init__(self, frames: Frames, guard: StepGuard | None, engine: SameDatabase | None = None) -> None:
        self._frames = frames
        self._guard = guard
        self._engine = engine

    async def pop(self, entered: AdmittedJob, running: RunningJob, completed: Completed) -> bool:
        """Store a verdict, with the completed job if the engine is in the same database; False if the payload moved."""
        row = verdict(entered, running.claim, completed, entered.base_hash)
        # Correlation keys are rare, and need a statement of their own.
        if self._engine is not None and not completed.correlation and await self._finish(self._engine, row, completed):
            running.is_answered = True
            return True
        return await self._frames.pop_completed(row)

    async def _finish(self, engine: SameDatabase, row: VerdictRow, completed: Completed) -> bool:
        try:
            move = await engine.prepare_completion(row.claim.job_key, variables_of(completed))
        except EngineError as error:
            # The call is done: its verdict is stored in any case, and the engine refuses it once more, on record.
            _log.info("not moved in one commit", extra={"job_key": row.claim.job_key, "reason": str(error)})
            return False
        is_saved = False
        try:
            is_saved = await move.finish(self._frames.columns_of(row))
        finally:
            move.end(is_saved=is_saved)
        return is_saved

    async def pop_in(self, connection: Connection, entered: AdmittedJob, claim: Claim, answer: object) -> Completed:
        """Store a verb's answer, merged if the payload has changed."""
        completed = leave(entered, answer)
        if await self._frames.pop_completed_in(connection, verdict(entered, claim, completed, entered.base_hash)):
            return completed
        return await self.merge_in(connection, entered, claim, answer)

    async def merge_in(self, connection: Connection, entered: AdmittedJob, claim: Claim, answer: object) -> Completed:
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


def verdict(entered: AdmittedJob, claim: Claim, completed: Completed, base_hash: bytes) -> VerdictRow:
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
