"""A job's frame, and the decision table for deliveries whose frame could not be claimed."""

from base64 import b32encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from uuid import UUID

from verbworker.errors import PermanentContract
from verbworker.job.job import Job
from verbworker.job.outcome import Incident

RELEASE_GRACE = timedelta(seconds=5)
"""A delivery this much later than our incident report was released by a person in the engine."""


class FrameState(StrEnum):
    """The state of a frame. `failed` is not a verdict; `completed` is final; `incident` waits for a person."""

    STARTED = "started"
    FAILED = "failed"
    COMPLETED = "completed"
    INCIDENT = "incident"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A job to push: what the engine sent, and how its verb is to be treated."""

    job: Job
    instance_uid: UUID | None
    entry_id: UUID | None
    mode: str
    on_unknown: str
    max_runs: int
    idempotency_window: timedelta
    idempotency_key: str
    retries: int
    input_hash: bytes


def idempotency_key(engine_id: str, job: Job, generation: int = 0) -> str:
    """Return the key a verb sends to external systems: one per job and generation, the same on every run."""
    return derive_key(engine_id, job.process_instance_key, job.element_instance_key, job.key, job.type, generation)


def renewed_key(engine_id: str, frame: "Frame", generation: int) -> str:
    """Return the key of a later generation of a frame: external systems treat it as another job."""
    return derive_key(
        engine_id, frame.process_instance_key, frame.element_instance_key, frame.job_key, frame.verb, generation
    )


def derive_key(*parts: object) -> str:
    """Return a key that external systems accept, the same for the same parts."""
    digest = sha256("|".join(map(str, parts)).encode()).digest()
    return "vw1-" + b32encode(digest).decode().rstrip("=").lower()


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to record a frame's outcome: valid until another worker claims a higher epoch."""

    job_key: int
    epoch: int
    owner: UUID
    claimed_from: str  # new, retry, takeover, release
    runs: int
    retries_left: int
    generation: int
    idempotency_key: str
    first_run_at: datetime
    now: datetime
    lease_until: datetime
    deliveries: int = 1
    instance: "InstanceFacts | None" = None
    input_version: int | None = None  # of the instance; None if it never had this payload
    input_is_head: bool = False
    # Whether another job of the same step may have a frame: only then is a lookup worthwhile.
    may_have_twin: bool = False
    # Whether another job of the same element has a frame, with any input: the same step if it is entered once.
    is_element_visited: bool = False
    # Whether the instance is old enough to have archived frames, where the archive was not searched.
    may_have_archived: bool = False
    # Whether an earlier run of the step, under another job key, may have reached external systems.
    follows_twin: bool = False

    @property
    def input_known(self) -> bool:
        """Return whether the instance ever had this payload."""
        return self.input_version is not None

    @property
    def has_doubt(self) -> bool:
        """Return whether the step may have been done under another job key."""
        return self.may_have_twin or self.is_element_visited or self.may_have_archived


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """What the database knows about the instance a job claims to belong to."""

    tenant_id: str
    entry_id: UUID
    verb: str
    verb_version: str
    engine_id: str
    instance_key: int | None
    correlation: Mapping[str, str]
    status: str = "active"
    definition_key: int | None = None
    # The flags as they were last written; None if an older release wrote any of them.
    flags: Mapping[str, object] | None = None
    # The last version whose signature may lack the version: an older release wrote it.
    unversioned_until: int | None = None

    @property
    def has_ended(self) -> bool:
        """Return whether its entry has ended, so that its jobs are no longer wanted."""
        return self.status not in ("starting", "active")


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame in the database, as read at `now`."""

    job_key: int
    process_instance_key: int
    element_instance_key: int
    verb: str
    tenant_id: str
    instance_uid: UUID | None
    mode: str
    on_unknown: str
    max_runs: int
    idempotency_window: timedelta
    state: FrameState
    epoch: int
    owner: UUID
    lease_until: datetime
    activated_ms: int
    runs: int
    retries_left: int
    keyed_at: datetime
    next_retry_at: datetime | None
    input_hash: bytes
    outcome: str | None
    output: bytes | None
    output_seal: str | None
    flags: Mapping[str, object]
    correlation: Mapping[str, str]
    error_code: str | None
    fail_class: str | None
    fail_code: str | None
    fail_text: str | None
    reported_at: datetime | None
    acked_at: datetime | None
    now: datetime
    archived: bool = False


class FrameStep(StrEnum):
    """What to do with a delivery that was not claimed."""

    CONTINUE = "continue"  # it is our own claim whose answer was lost
    CLAIM_AGAIN = "claim again"  # it became claimable in the meantime
    REPLAY = "replay"  # send the stored verdict
    BUSY = "busy"  # another claim is alive: drop; if its owner dies, the sweep has the job delivered again
    SUPERSEDED = "superseded"  # a later delivery owns the frame: drop silently
    REPORT_RETRY = "report retry"  # the failure was never reported
    REPORT_INCIDENT = "report incident"  # the incident was never reported
    WAIT = "wait"  # the incident is already reported: drop, it is delivered again
    HOLD_POISON = "hold poison"  # too many runs ended without an answer
    HOLD_UNKNOWN = "hold unknown"  # an outcome is unknown and must not be repeated
    QUARANTINE = "quarantine"  # another job of a recreated engine under an old key


def decide(frame: Frame, job: Job, instance_uid: UUID | None, owner: UUID) -> FrameStep:
    """Decide about a delivery of `job` to `owner`, given the existing frame."""
    if not is_same_job(frame, job, instance_uid):
        return FrameStep.QUARANTINE
    match frame.state:
        case FrameState.COMPLETED:
            return _decide_on_verdict(frame, job)
        case FrameState.STARTED:
            return _decide_on_running(frame, job, owner)
        case FrameState.FAILED:
            return _decide_on_failure(frame, job)
        case FrameState.INCIDENT:  # pragma: no branch  # there is no other
            return _decide_incident(frame, job)


def is_same_job(frame: Frame, job: Job, instance_uid: UUID | None) -> bool:
    """Return whether a frame belongs to this very job, not to another that had its key."""
    return (
        frame.process_instance_key == job.process_instance_key
        and frame.element_instance_key == job.element_instance_key
        and frame.verb == job.type
        and frame.tenant_id == job.tenant_id
        and frame.instance_uid == instance_uid
    )


def _decide_on_verdict(frame: Frame, job: Job) -> FrameStep:
    # An acknowledged job that returns was restored from a backup, provided that it has an instance of ours.
    # A plain job has none; only a delivery from before the acknowledgement is certainly the same job.
    if frame.acked_at is not None and frame.instance_uid is None:
        is_late = job.activated_ms <= frame.acked_at.timestamp() * 1000
        return FrameStep.REPLAY if is_late else FrameStep.QUARANTINE
    return FrameStep.REPLAY


def _decide_on_running(frame: Frame, job: Job, owner: UUID) -> FrameStep:
    is_live = frame.lease_until >= frame.now
    if is_live and frame.owner == owner and frame.activated_ms == job.activated_ms:
        return FrameStep.CONTINUE
    # Before "busy": an older delivery must not set the timeout of the activation that followed it.
    if job.activated_ms <= frame.activated_ms:
        return FrameStep.SUPERSEDED
    return FrameStep.BUSY if is_live else decide_on_expiry(frame)


def decide_on_expiry(frame: Frame) -> FrameStep:
    """Decide about a started frame with an expired lease: run again, or hold for a person.

    Redelivery and sweep share this decision.
    """
    if frame.runs >= frame.max_runs:
        return FrameStep.HOLD_POISON
    if frame.mode == "external" and _is_unrepeatable(frame):
        return FrameStep.HOLD_UNKNOWN
    return FrameStep.CLAIM_AGAIN


def decide_swept(frame: Frame) -> FrameStep:
    """Decide about a frame the sweep claimed: its owner can no longer finish or report the run."""
    match frame.state:
        case FrameState.STARTED:
            return decide_on_expiry(frame)
        case FrameState.INCIDENT:
            return FrameStep.REPORT_INCIDENT
        case _:  # failed; completed frames are left to the relay
            return FrameStep.REPORT_RETRY


def incident_of(step: FrameStep, frame: Frame) -> Incident:
    """Return the incident for a step that holds an abandoned frame."""
    if step is FrameStep.HOLD_POISON:
        # Every job of a process is lost with it, and the process does not say by which.
        text = (
            f"the verb was started {frame.runs} times and its worker never answered: this job or one that ran beside it"
            " ends or blocks the process"
        )
        return Incident(PermanentContract.kind, "CrashLoop", text)
    text = "a worker vanished during an external call, and repeating it is not allowed"
    return Incident(PermanentContract.kind, "OutcomeUnknown", text)


def _is_unrepeatable(frame: Frame) -> bool:
    return frame.on_unknown == "hold" or frame.keyed_at <= frame.now - frame.idempotency_window


def _decide_on_failure(frame: Frame, job: Job) -> FrameStep:
    if job.activated_ms <= frame.activated_ms:
        return FrameStep.SUPERSEDED
    # Closed as gone and no longer claimable: the engine was restored, or it revoked its own answer.
    if frame.acked_at is not None:
        return FrameStep.QUARANTINE
    if frame.next_retry_at is not None and frame.next_retry_at > frame.now:
        return FrameStep.REPORT_RETRY
    return FrameStep.CLAIM_AGAIN


def _decide_incident(frame: Frame, job: Job) -> FrameStep:
    if job.activated_ms <= frame.activated_ms:
        return FrameStep.SUPERSEDED
    if frame.reported_at is None:
        return FrameStep.REPORT_INCIDENT
    if job.activated_ms > (frame.reported_at + RELEASE_GRACE).timestamp() * 1000:
        return FrameStep.CLAIM_AGAIN
    return FrameStep.WAIT
