"""POP: a verb's answer becomes the frame's verdict, on top of the current payload of record."""

from functools import partial
from hashlib import sha256

from verbworker import metrics
from verbworker.errors import StoreError
from verbworker.job.frame import Claim, FrameState
from verbworker.job.outcome import Completed
from verbworker.payload.boundary import AdmittedJob, leave, overtaken
from verbworker.retrying import DATABASE
from verbworker.stores.cases import payloads
from verbworker.stores.database import Connection
from verbworker.stores.jobs.frames import Frames, Verdict
from verbworker.work.jobs.step_guard import StepGuard


class Verdicts:
    """Stores verdicts inside a transaction, and finds out what a lost connection left."""

    def __init__(self, frames: Frames, guard: StepGuard | None) -> None:
        self._frames = frames
        self._guard = guard

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
        completed = leave(overtaken(entered, head.correlation), answer, head=head.content)
        if not await self._frames.pop_completed_in(connection, verdict(entered, claim, completed, head.hash)):
            raise StoreError("the payload of record moved while it was held")
        metrics.MERGES.labels(entered.verb.name).inc()
        return completed

    async def find_state(self, claim: Claim) -> FrameState:
        """Return the state that our last write left, as soon as the database answers again."""
        return await DATABASE.run(partial(self._frames.settle, claim))


def verdict(entered: AdmittedJob, claim: Claim, completed: Completed, base_hash: bytes) -> Verdict:
    """Return a completed run as its frame stores it."""
    return Verdict(
        claim=claim,
        instance_uid=entered.instance_uid,
        base_hash=base_hash,
        output=completed.payload,
        output_hash=sha256(completed.payload).digest(),
        seal=completed.seal,
        flags=completed.flags,
        correlation=completed.correlation,
    )
