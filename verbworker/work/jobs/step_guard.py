"""Keep a step from running twice when the engine hands it out under another job key.

A broker that lost its last records (camunda #59177) creates a job again with a new key. If an instance can enter an
element only once, a step is its instance and its element: branches that the engine completes again in another order
give it another input. Otherwise the input belongs to the step: a completed step has changed the payload, so the same
input at the same element is the same step unless the element can hold two tokens simultaneously.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from uuid import UUID

from verblint.bpmn.assembly import assemble
from verblint.bpmn.model import FlowNode, NodeKind, Process, Scope
from verblint.bpmn.reader import ModelError, read
from verblint.flow.concurrency import TooEntangled, concurrent_nodes, shared_nodes
from verblint.flow.visits import once_nodes
from verbworker import metrics
from verbworker.errors import PermanentContract, TransientInfrastructure, VerbworkerError
from verbworker.job.frame import Claim, FrameState
from verbworker.job.job import Job
from verbworker.job.outcome import JobResult
from verbworker.stores.database import Connection, Database
from verbworker.stores.deployments import Definition, Deployments
from verbworker.stores.jobs.steps import Steps, Twin
from verbworker.work.feeds.leases import JobVanished

_log = logging.getLogger(__name__)

# A model is recorded when it is deployed; a missing one is not looked up again for every job.
_LOOK_AGAIN_S = 5.0
# Elements of which it is not known how often a token enters them.
_UNCLEAR = (NodeKind.TRANSACTION, NodeKind.AD_HOC_SUB_PROCESS, NodeKind.CALL_ACTIVITY, NodeKind.UNKNOWN)


@dataclass(frozen=True, slots=True)
class _Place:
    """What a model states about an element; for a model that is not recorded nothing is certain."""

    is_known: bool = False
    is_shared: bool = True  # it may hold two tokens simultaneously
    is_once: bool = False  # an instance enters it once
    is_concurrent: bool = False  # another element may be active meanwhile


_UNKNOWN = _Place()
_ONLY_VISIT = bytes(32)  # where a payload's hash would identify the visit


class StepMovedOn(VerbworkerError):
    """A delivery was late: the engine lost its job and handed the step out under another key; nothing was run."""

    code = "StepMovedOn"


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
        self._models: dict[int, dict[str, _Place]] = {}
        self._missing_until: dict[int, float] = {}

    @classmethod
    def of(cls, database: Database, engine_id: str) -> "StepGuard":
        """Return the guard of one engine's steps."""
        return cls(Steps(database, engine_id=engine_id), Deployments(database, engine_id=engine_id))

    async def admit(self, job: Job, claim: Claim, instance_uid: UUID, input_hash: bytes) -> Claim | JobResult:
        """Return the claim to run with, or the verdict of a job that did the step before.

        Raises `TransientInfrastructure` while another job of the step runs, and `PermanentContract` when it cannot be
        known whether the step may run.
        """
        place = await self._place_of(job)
        if not claim.may_have_twin and not _may_be_revisit(place, claim):
            return claim
        twins = await self._steps.twins(job, instance_uid, input_hash, is_once=place.is_once)
        if place.is_shared:
            await self._check_twins(job, claim, twins, is_known=place.is_known)
            return claim
        pinned = claim.instance.instance_key if claim.instance is not None else None
        if pinned not in (None, job.process_instance_key):
            # Such a job is refused as soon as it is read; the pinned instance's state stays as it is.
            _check_late(job, claim, twins, pinned)
            return claim
        completed = [twin for twin in twins if twin.state is FrameState.COMPLETED]
        for twin in completed:
            if not _is_other_visit(place, twin):
                return await self.repeat(job, claim, twin)
        if completed:
            await self._check_revisit(job, claim, completed[0])
        stopped = [twin for twin in twins if twin.state is not FrameState.COMPLETED]
        _check_late(job, claim, stopped, job.process_instance_key)
        for twin in sorted(stopped, key=lambda twin: twin.keyed_at, reverse=True):
            # The oldest comes last: its idempotency key is the one that external systems saw first.
            claim = await self._succeed(job, claim, twin)
        return claim if stopped else await self._follow_thrown(job, claim, place, instance_uid, input_hash)

    async def _follow_thrown(
        self, job: Job, claim: Claim, place: _Place, instance_uid: UUID, input_hash: bytes
    ) -> Claim:
        """Return the claim with the idempotency key of a call that ended by a BPMN error, if it is the same step.

        The error left the payload as it was: the engine's answer to it decides whether this is another visit.
        """
        for twin in await self._steps.thrown(job, instance_uid, input_hash, is_once=place.is_once):
            if not twin.is_answered:
                raise TransientInfrastructure(
                    f"the engine has not confirmed the error of job {twin.job_key} yet", code="StepBusy"
                )
            if place.is_once:
                key = await self._steps.follow(claim, twin)
                claim = replace(claim, idempotency_key=key, follows_twin=True)
            elif not twin.is_confirmed and not await self._steps.is_cleared(claim):
                raise PermanentContract(
                    f"job {twin.job_key} did this step with the same input and ended with an error that the engine may"
                    f" have missed: release this job if {job.element_id} is to be done again, else complete it by hand",
                    code="StepAmbiguous",
                )
        return claim

    async def check_in(self, connection: Connection, job: Job, instance_uid: UUID, input_hash: bytes) -> None:
        """Raise `StepDone` if the step was completed while it ran. The caller holds the payload's head."""
        place = await self._place_of(job, connection)
        if place.is_shared:
            return
        for twin in await self._steps.twins_in(connection, job, instance_uid, input_hash, is_once=place.is_once):
            if twin.state is FrameState.COMPLETED and not _is_other_visit(place, twin):
                raise StepDone(self, twin)

    async def repeat(self, job: Job, claim: Claim, twin: Twin) -> JobResult:
        """Answer a job with the verdict that its step got under another key."""
        metrics.REPEATED_STEPS.labels(job.type).inc()
        _log.warning(
            "the engine handed a completed step out again; its verdict is repeated",
            extra={"job_key": job.key, "was": twin.job_key, "verb": job.type},
        )
        return await self._steps.repeat(claim, twin)

    async def _succeed(self, job: Job, claim: Claim, twin: Twin) -> Claim:
        """Continue where another job of the step stopped."""
        if twin.state is FrameState.STARTED and twin.is_live:
            raise TransientInfrastructure(f"the step is running under job {twin.job_key}", code="StepBusy")
        # A failed run reported so; one that vanished, or whose job was dropped while it ran, may have taken effect.
        is_unknown = twin.state is FrameState.STARTED or twin.fail_code == "JobGone"
        if is_unknown and twin.mode == "external" and (twin.on_unknown == "hold" or not twin.is_remembered):
            raise PermanentContract(
                f"the step was started under job {twin.job_key} and may have reached the outside; it is not repeated",
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

    async def _check_twins(self, job: Job, claim: Claim, twins: list[Twin], *, is_known: bool) -> None:
        """Hold a job whose element can hold two tokens, unless it is certainly another token's or a person released it.

        For a model that is not recorded nothing is certain.
        """
        for twin in twins:
            if twin.state is not FrameState.COMPLETED:
                continue
            if twin.acked_at is None:
                # Its answer decides: a job that is gone was either completed or lost, and then this one replaces it.
                raise TransientInfrastructure(
                    f"the engine has not confirmed the verdict of job {twin.job_key} yet", code="StepBusy"
                )
            # Handed out before the engine completed the other: both jobs existed at the same time.
            is_beside = is_known and twin.is_confirmed and job.activated_ms <= twin.acked_at.timestamp() * 1000
            if not is_beside and not await self._steps.is_cleared(claim):
                raise PermanentContract(
                    f"job {twin.job_key} did this step with the same input, and two tokens may be at"
                    f" {job.element_id}: release this job if it is another token's, else complete it by hand",
                    code="StepAmbiguous",
                )

    async def _check_revisit(self, job: Job, claim: Claim, twin: Twin) -> None:
        """Hold a job whose input is what its step produced before, unless a person released it.

        A person moved the token back in the engine, or the engine lost records and then took another path.
        """
        if not await self._steps.is_cleared(claim):
            raise PermanentContract(
                f"job {twin.job_key} did this step, and what it made came with this job: release this job if"
                f" {job.element_id} is to be done again, else complete it by hand",
                code="StepAmbiguous",
            )

    async def _place_of(self, job: Job, on: Connection | None = None) -> _Place:
        """Return what the deployed model states about a job's element."""
        key, now = job.process_definition_key, asyncio.get_running_loop().time()
        if key not in self._models and now >= self._missing_until.get(key, now):
            content = await self._deployments.model(Definition.of(job), on=on)
            if content is None:
                self._missing_until[key] = now + _LOOK_AGAIN_S
            else:
                self._models[key] = _places_in(content, job.process_id)
        return self._models.get(key, {}).get(job.element_id, _UNKNOWN)


def _may_be_revisit(place: _Place, claim: Claim) -> bool:
    """Return whether a job with the payload of record may belong to an element that was entered before.

    Only another branch's write can bring that payload to a completed step; otherwise the archive is not read.
    """
    return place.is_once and (claim.is_element_visited or (claim.may_have_archived and place.is_concurrent))


def _check_late(job: Job, claim: Claim, twins: list[Twin], pinned: int | None) -> None:
    """Reject a delivery older than one of another job of its step: the engine has that job now.

    If the engine still has this job too, it hands it out again later, and then it is the latest.
    """
    for twin in twins:
        if twin.process_instance_key == pinned and twin.activated_ms > job.activated_ms:
            words = f"the engine has handed the step out under job {twin.job_key} since"
            # An earlier run of this job may have had external effects; the job that continues has to know.
            raise StepMovedOn(words) if claim.claimed_from == "new" else JobVanished(words)


def _is_other_visit(place: _Place, twin: Twin) -> bool:
    """Return whether the engine must have received a twin's verdict: nothing else could bring its output."""
    return twin.is_heard and not place.is_concurrent


def _places_in(content: bytes, process_id: str) -> dict[str, _Place]:
    """Return what a model states about its elements; all may be shared if the analysis is too complex."""
    try:
        process = _process_in(content, process_id)
    except (ModelError, StopIteration) as error:
        _log.error("a deployed model cannot be read", extra={"process_id": process_id, "reason": repr(error)})
        return {}
    names = [node.id for _, node in process.walk()]
    try:
        shared, once, concurrent = shared_nodes(process), once_nodes(process), concurrent_nodes(process)
    except TooEntangled:
        return dict.fromkeys(names, _Place(is_known=True))
    return {name: _Place(True, name in shared - once, name in once, name in concurrent) for name in names}


class VisitIdentity:
    """Identifies the visits of tokens to the elements of deployed models.

    A broker that lost its last records leads a token to an element again, under other keys. An element that is entered
    once is visited once, whatever other branches wrote meanwhile. Elsewhere every step changes the payload, so a token
    that really returns brings another one, unless it can return without a step, or two tokens can arrive.
    """

    def __init__(self, deployments: Deployments) -> None:
        self._deployments = deployments
        self._known: dict[int, tuple[frozenset[str], frozenset[str]]] = {}

    async def identify(self, job: Job, payload: bytes, on: Connection | None = None) -> bytes | None:
        """Return what the same visit of a job's element has in common under every key; None if that is unknown."""
        key = job.process_definition_key
        if key not in self._known:
            content = await self._deployments.model(Definition.of(job), on=on)
            if content is None:
                return None
            self._known[key] = single_visits_in(content, job.process_id), certain_in(content, job.process_id)
        once, certain = self._known[key]
        if job.element_id in once:
            return _ONLY_VISIT
        return payload if job.element_id in certain else None


def single_visits_in(content: bytes, process_id: str) -> frozenset[str]:
    """Return the elements that an instance enters at most once, those with listeners included."""
    try:
        return once_nodes(_process_in(content, process_id), listeners=True)
    except (ModelError, StopIteration, TooEntangled):
        return frozenset()


def _process_in(content: bytes, process_id: str) -> Process:
    return next(process for process in assemble(read(content)).processes if process.id == process_id)


def certain_in(content: bytes, process_id: str) -> frozenset[str]:
    """Return the elements that no token reaches twice with the same payload, and that no two tokens reach."""
    try:
        process = _process_in(content, process_id)
        shared = shared_nodes(process)
    except (ModelError, StopIteration, TooEntangled):
        return frozenset()
    return frozenset(_certain(process)) - shared


def _certain(process: Process) -> Iterator[str]:
    pending = [process.scope]
    while pending:
        scope = pending.pop()
        for node in scope.nodes:
            if node.multi_instance is not None or node.kind in _UNCLEAR or node.is_event_sub_process:
                continue
            if node.is_for_compensation or _comes_back(scope, node):
                continue
            yield node.id
            if node.scope is not None:
                pending.append(node.scope)


def _comes_back(scope: Scope, start: FlowNode) -> bool:
    """Return whether a token may return to a node before a step was done."""
    seen: set[str] = set()
    pending = list(_ways(scope, start))
    while pending:
        node = pending.pop()
        if node.id == start.id:
            return True
        if node.id not in seen:
            seen.add(node.id)
            pending += _ways(scope, node)
    return False


def _ways(scope: Scope, node: FlowNode) -> Iterator[FlowNode]:
    """Yield the nodes that a token reaches from a node without a step: past a verb only by a boundary event."""
    yield from scope.boundaries(node)
    yield from scope.link_targets(node)
    if node.kind is not NodeKind.SERVICE_TASK:
        yield from (scope.by_id[flow.target] for flow in scope.outgoing(node) if flow.target in scope.by_id)
