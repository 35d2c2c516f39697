"""Builders for histories: frames as they are told, events, and two workers with names."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from verbworker.job.frame import FrameState
from verbworker.stores.jobs.histories import FrameEvent, FrameReport, History

ANN, BOB = UUID(int=1), UUID(int=2)
BOOTS = {ANN: "ann (host a, pid 11)", BOB: "bob (host b, pid 22)"}
START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """A moment of the story."""
    return START + timedelta(seconds=seconds)


def make_told(**changes: Any) -> FrameReport:
    """A frame of ann's that is finished: one delivery, one run, one answer."""
    told = FrameReport(
        job_key=7,
        process_id="kyc",
        process_version=3,
        element_id="check",
        process_instance_key=70,
        element_instance_key=71,
        verb="kyc.check",
        tenant_id="default",
        instance_uid=UUID(int=8),
        entry_id=UUID(int=9),
        mode="external",
        on_unknown="rerun",
        max_runs=5,
        idempotency_key="vw1-key",
        generation=0,
        state=FrameState.COMPLETED,
        epoch=1,
        owner=ANN,
        lease_until=at(30),
        deliveries=1,
        runs=1,
        infra_runs=0,
        retries_left=3,
        next_retry_at=None,
        outcome="complete",
        output_bytes=120,
        output_seal="sha256:00",
        flags={"orch_checked": True},
        error_code=None,
        fail_class=None,
        fail_code=None,
        fail_text=None,
        reported_at=None,
        acked_at=at(2),
        ack_result="ok",
        pushed_at=at(0),
        popped_at=at(1),
        now=at(60),
        archived=False,
    )
    return replace(told, **changes)


def unfinished(state: FrameState, **changes: Any) -> FrameReport:
    """The same frame before it is finished."""
    before: dict[str, Any] = {"outcome": None, "output_bytes": None, "output_seal": None, "flags": {}, "acked_at": None}
    return make_told(state=state, **{**before, "ack_result": None, "popped_at": None, **changes})


def make_event(
    kind: str, seconds: float = 1.0, *, owner: UUID | None = ANN, epoch: int = 1, **facts: object
) -> FrameEvent:
    """Something that happened to the frame, with its facts."""
    return FrameEvent(at(seconds), kind, epoch, owner, "", facts)


def make_history(
    frame: FrameReport | None = None, *events: FrameEvent, conflicts: tuple[datetime, ...] = ()
) -> History:
    """A history of ann and bob."""
    return History(frame or make_told(), events, conflicts, BOOTS)
