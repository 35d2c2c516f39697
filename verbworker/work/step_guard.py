"""Keep a step from running twice when the engine hands it out under another job key.

A broker that lost its last records (camunda #59177) creates a job again with a new key. A step is its instance, its
element and its input: a completed step has moved the payload on, so the same input at the same element is the same step
unless the element can hold two tokens at once.
"""

import logging
from dataclasses import replace
from uuid import UUID

from verblint.assembly import assemble
from verblint.concurrency import TooEntangled, shared_nodes
from verblint.reader import ModelError, read
from verbworker import metrics
from verbworker.errors import PermanentContract, TransientInfrastructure, VerbworkerError
from verbworker.frame import Claim, FrameState
from verbworker.job import Job
from verbworker.outcome import Completed
from verbworker.stores._database import Connection, Database
from verbworker.stores.deployments import Deployments
from verbworker.stores.steps import Steps, Twin

_log = logging.getLogger(__name__)


class StepDone(VerbworkerError):
    """Another job of the same step stored its verdict while this one ran; nothing of this run may be kept."""

    def __init__(self, guard: "StepGuard", twin: Twin) -> None:
        super().__init__(f"the step was completed under job {twin.job_key}")
        self.guard = guard
        self.twin = twin


class StepGuard:
    """Decides what a claim may do when other jobs of its step have frames."""

    def __init__(self, steps: Steps, deployments: Deployments) -> None:
        self._steps = steps
        self._deployments = deployments
        self._shared: dict[int, frozenset[str]] = {}

    @classmethod
    def of(cls, database: Database, engine_id: str) -> "StepGuard":
        """The guard of one engine's steps."""
        return cls(Steps(database, engine_id=engine_id), Deployments(database, engine_id=engine_id))

    async def admit(self, job: Job, claim: Claim, instance_uid: UUID, input_hash: bytes) -> Claim | Completed:
        """Return the claim to run with, or the verdict of a job that did the step before.

        Raises `TransientInfrastructure` while another job of the step runs, and `PermanentContract` when it cannot be
        known whether the step may run.
        """
        twins = await self._steps.twins(job, instance_uid, input_hash)
        if not twins:
            return claim
        if await self._can_be_shared(job):
            await self._check_shared(job, claim, twins, is_known=job.process_definition_key in self._shared)
            return claim
        for twin in twins:
            if twin.state is FrameState.COMPLETED:
                return await self.repeat(job, claim, twin)
        for twin in sorted(twins, key=lambda twin: twin.keyed_at, reverse=True):
            # The oldest comes last: its idempotency key is the one the outside saw first.
            claim = await self._succeed(job, claim, twin)
        return claim

    async def check_in(self, connection: Connection, job: Job, instance_uid: UUID, input_hash: bytes) -> None:
        """Raise `StepDone` when the step was completed while it ran. The caller holds the payload's head."""
        for twin in await self._steps.twins_in(connection, job, instance_uid, input_hash):
            if twin.state is FrameState.COMPLETED and not await self._can_be_shared(job):
                raise StepDone(self, twin)

    async def repeat(self, job: Job, claim: Claim, twin: Twin) -> Completed:
        """Answer a job with the verdict that its step got under another key."""
        metrics.REPEATED_STEPS.labels(job.type).inc()
        _log.warning(
            "the engine handed a completed step out again; its verdict is repeated",
            extra={"job_key": job.key, "was": twin.job_key, "verb": job.type},
        )
        return await self._steps.repeat(claim, twin)

    async def _succeed(self, job: Job, claim: Claim, twin: Twin) -> Claim:
        """Go on where another job of the step stopped."""
        if twin.state is FrameState.STARTED and twin.is_live:
            raise TransientInfrastructure(f"the step is running under job {twin.job_key}", code="StepBusy")
        # A run that failed said so; one that vanished, or whose job was dropped while it ran, may have got through.
        is_unknown = twin.state is FrameState.STARTED or twin.fail_code == "JobGone"
        if is_unknown and twin.mode == "external" and (twin.on_unknown == "hold" or not twin.is_remembered):
            raise PermanentContract(
                f"the step was begun under job {twin.job_key} and may have reached the outside; it is not repeated",
                code="OutcomeUnknown",
            )
        key = await self._steps.succeed(claim, twin)
        if key is None:
            raise TransientInfrastructure(f"the step moved on under job {twin.job_key}", code="StepBusy")
        _log.warning(
            "the engine handed a step out again under another key",
            extra={"job_key": job.key, "was": twin.job_key, "verb": job.type},
        )
        return replace(claim, idempotency_key=key, follows_twin=twin.runs > 0)

    async def _check_shared(self, job: Job, claim: Claim, twins: list[Twin], *, is_known: bool) -> None:
        """Hold a job whose element can hold two tokens, unless it is surely another token's or a person let it go.

        Of a model that is not on record nothing is sure.
        """
        for twin in twins:
            if twin.state is not FrameState.COMPLETED or twin.acked_at is None:
                continue
            # Handed out before the other was acknowledged: both jobs existed at the same time.
            is_beside = is_known and job.activated_ms <= twin.acked_at.timestamp() * 1000
            if not is_beside and not await self._steps.is_cleared(claim):
                raise PermanentContract(
                    f"job {twin.job_key} did this step with the same input, and two tokens may stand at"
                    f" {job.element_id}: release this job if it is another token's, else complete it by hand",
                    code="StepAmbiguous",
                )

    async def _can_be_shared(self, job: Job) -> bool:
        """Return whether two tokens may stand at a job's element at once; True for a model that is not on record."""
        key = job.process_definition_key
        if key not in self._shared:
            content = await self._deployments.content(key)
            if content is None:
                return True
            self._shared[key] = _shared_in(content, job.process_id)
        return job.element_id in self._shared[key]


def _shared_in(content: bytes, process_id: str) -> frozenset[str]:
    """The elements of a model that can hold two tokens; all of them when that is too hard to tell."""
    try:
        model = assemble(read(content))
        process = next(process for process in model.processes if process.id == process_id)
    except (ModelError, StopIteration) as error:
        raise PermanentContract(f"the deployed model cannot be read: {error}", code="ModelUnreadable") from error
    try:
        return shared_nodes(process)
    except TooEntangled:
        return frozenset(node.id for _, node in process.walk())
