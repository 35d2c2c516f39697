"""The decision table, row by row: what happens to a delivery whose frame could not be claimed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.frames import ENGINE, make_job
from verbworker.job.frame import (
    Frame,
    FrameState,
    FrameStep,
    decide,
    decide_swept,
    idempotency_key,
    incident_of,
    renewed_key,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ME, OTHER, UID = uuid4(), uuid4(), uuid4()
LIVE, OVER = NOW + SECOND, NOW - SECOND


def make_frame(state: FrameState = FrameState.STARTED, **changes: Any) -> Frame:
    job = make_job(at=100)
    frame = Frame(
        job_key=job.key,
        process_instance_key=job.process_instance_key,
        element_instance_key=job.element_instance_key,
        verb=job.type,
        tenant_id=job.tenant_id,
        instance_uid=UID,
        mode="transactional",
        on_unknown="rerun",
        max_runs=5,
        idempotency_window=timedelta(hours=1),
        state=state,
        epoch=1,
        owner=OTHER,
        lease_until=LIVE,
        activated_ms=100,
        runs=1,
        retries_left=3,
        keyed_at=NOW - timedelta(minutes=5),
        next_retry_at=None,
        input_hash=b"",
        outcome=None,
        output=None,
        output_seal=None,
        flags={},
        correlation={},
        error_code=None,
        fail_class=None,
        fail_code=None,
        fail_text=None,
        reported_at=None,
        acked_at=None,
        now=NOW,
    )
    return replace(frame, **changes)


def decided(frame: Frame, *, at: int = 200, owner: UUID = ME, uid: UUID | None = UID, **job: Any) -> FrameStep:
    return decide(frame, make_job(at=at, **job), uid, owner)


FOREIGN: dict[str, dict[str, Any]] = {
    "process instance": {"process_instance_key": 1},
    "element instance": {"element_instance_key": 1},
    "verb": {"type": "kyc.other"},
    "tenant": {"tenant_id": "other"},
}


@pytest.mark.req("JOB-02")
@pytest.mark.parametrize("state", FrameState)
@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
def test_a_delivery_of_another_job_under_the_same_key_is_quarantined(change: dict[str, Any], state: FrameState) -> None:
    assert decided(make_frame(state), **change) is FrameStep.QUARANTINE


@pytest.mark.parametrize("state", FrameState)
@pytest.mark.parametrize("uid", [None, uuid4()])
def test_a_delivery_of_another_instance_is_quarantined(uid: UUID | None, state: FrameState) -> None:
    assert decided(make_frame(state), uid=uid) is FrameStep.QUARANTINE


@pytest.mark.req("JOB-05", "X-06", "EVO-01")
@pytest.mark.parametrize("at", [50, 100, 200])
def test_a_completed_frame_is_replayed_to_any_delivery(at: int) -> None:
    assert decided(make_frame(FrameState.COMPLETED), at=at) is FrameStep.REPLAY


def test_an_acknowledged_job_that_comes_back_with_our_uid_is_replayed() -> None:
    assert decided(make_frame(FrameState.COMPLETED, acked_at=NOW)) is FrameStep.REPLAY


def test_an_acknowledged_job_that_nothing_of_ours_vouches_for_is_quarantined() -> None:
    frame = make_frame(FrameState.COMPLETED, acked_at=NOW, instance_uid=None)
    acked_ms = int(NOW.timestamp() * 1000)

    assert decided(frame, uid=None, at=acked_ms + 1) is FrameStep.QUARANTINE
    assert decided(frame, uid=None, at=acked_ms) is FrameStep.REPLAY, "it was handed out before: merely late"


def test_a_completed_frame_without_a_uid_is_replayed_until_it_is_acknowledged() -> None:
    assert decided(make_frame(FrameState.COMPLETED, instance_uid=None), uid=None) is FrameStep.REPLAY


def test_our_own_claim_whose_answer_was_lost_goes_on() -> None:
    assert decided(make_frame(owner=ME), at=100) is FrameStep.CONTINUE


def test_our_own_claim_does_not_go_on_when_its_lease_is_over() -> None:
    assert decided(make_frame(owner=ME, lease_until=OVER), at=100) is FrameStep.SUPERSEDED


def test_a_later_delivery_to_the_same_owner_is_not_our_own_claim() -> None:
    assert decided(make_frame(owner=ME), at=101) is FrameStep.BUSY


def test_the_same_activation_in_other_hands_is_not_our_own_claim() -> None:
    assert decided(make_frame(owner=OTHER), at=100) is FrameStep.SUPERSEDED


def test_a_live_lease_makes_a_later_delivery_wait() -> None:
    assert decided(make_frame()) is FrameStep.BUSY


def test_a_lease_that_ends_this_very_moment_is_alive() -> None:
    assert decided(make_frame(lease_until=NOW)) is FrameStep.BUSY


# The specification's table names "busy" first. An older delivery would then set the timeout of the newer activation,
# which the engine does not fence; so the older one says nothing.
@pytest.mark.parametrize("at", [99, 100])
@pytest.mark.parametrize("lease", [LIVE, OVER])
def test_a_delivery_older_than_the_claim_says_nothing(lease: datetime, at: int) -> None:
    assert decided(make_frame(lease_until=lease), at=at) is FrameStep.SUPERSEDED


def test_a_started_frame_whose_lease_is_over_may_be_claimed() -> None:
    assert decided(make_frame(lease_until=OVER)) is FrameStep.CLAIM_AGAIN


@pytest.mark.parametrize(
    ("runs", "step"), [(4, FrameStep.CLAIM_AGAIN), (5, FrameStep.HOLD_POISON), (6, FrameStep.HOLD_POISON)]
)
def test_a_job_that_keeps_killing_its_worker_is_held(runs: int, step: FrameStep) -> None:
    assert decided(make_frame(lease_until=OVER, runs=runs)) is step


ABANDONED: dict[str, dict[str, Any]] = {
    "transactional": {},
    "transactional, long ago": {"on_unknown": "hold", "keyed_at": NOW - timedelta(days=9)},
    "repeatable": {"mode": "external"},
    "probed": {"mode": "external", "on_unknown": "probe"},
    "not repeatable": {"mode": "external", "on_unknown": "hold"},
    "forgotten outside": {"mode": "external", "keyed_at": NOW - timedelta(hours=1)},
    "run too often": {"runs": 5},
    "run too often outside": {"mode": "external", "on_unknown": "hold", "runs": 5},
}


@pytest.mark.parametrize("frame", ABANDONED.values(), ids=ABANDONED)
def test_the_sweep_decides_about_an_abandoned_run_as_a_redelivery_does(frame: dict[str, Any]) -> None:
    abandoned = make_frame(lease_until=OVER, **frame)

    assert decide_swept(abandoned) is decided(abandoned)


@pytest.mark.parametrize(
    ("state", "step"), [(FrameState.FAILED, FrameStep.REPORT_RETRY), (FrameState.INCIDENT, FrameStep.REPORT_INCIDENT)]
)
def test_the_sweep_reports_what_its_owner_could_not(state: FrameState, step: FrameStep) -> None:
    assert decide_swept(make_frame(state, lease_until=OVER, next_retry_at=NOW)) is step


def test_an_abandoned_run_is_held_with_a_reason() -> None:
    poison = incident_of(FrameStep.HOLD_POISON, make_frame(runs=5))

    assert (poison.kind, poison.code) == ("PermanentContract", "CrashLoop")
    assert "started 5 times" in poison.message
    assert incident_of(FrameStep.HOLD_UNKNOWN, make_frame()).code == "OutcomeUnknown"


def test_a_job_that_comes_back_after_its_frame_was_closed_is_quarantined() -> None:
    closed = make_frame(FrameState.FAILED, next_retry_at=OVER, acked_at=OVER, fail_code="JobGone")

    assert (decided(closed), decided(closed, at=100)) == (FrameStep.QUARANTINE, FrameStep.SUPERSEDED)


@pytest.mark.parametrize("on_unknown", ["rerun", "probe"])
def test_an_external_verb_that_may_be_repeated_is_claimed(on_unknown: str) -> None:
    frame = make_frame(lease_until=OVER, mode="external", on_unknown=on_unknown)

    assert decided(frame) is FrameStep.CLAIM_AGAIN


def test_an_external_verb_that_must_not_be_repeated_is_held() -> None:
    assert decided(make_frame(lease_until=OVER, mode="external", on_unknown="hold")) is FrameStep.HOLD_UNKNOWN


@pytest.mark.parametrize("on_unknown", ["rerun", "probe"])
def test_an_external_verb_is_held_when_the_other_side_forgot_its_key(on_unknown: str) -> None:
    began = NOW - timedelta(hours=1)
    frame = make_frame(lease_until=OVER, mode="external", on_unknown=on_unknown, keyed_at=began)

    assert decided(frame) is FrameStep.HOLD_UNKNOWN


def test_a_transactional_verb_needs_no_window_and_no_hold() -> None:
    frame = make_frame(lease_until=OVER, on_unknown="hold", keyed_at=NOW - timedelta(days=9))

    assert decided(frame) is FrameStep.CLAIM_AGAIN


def test_a_failure_whose_backoff_runs_was_never_told() -> None:
    assert decided(make_frame(FrameState.FAILED, next_retry_at=NOW + SECOND)) is FrameStep.REPORT_RETRY


@pytest.mark.req("EVO-03", "X-06")
@pytest.mark.parametrize("due", [NOW, NOW - SECOND])
def test_a_failure_whose_backoff_is_over_is_claimed(due: datetime) -> None:
    assert decided(make_frame(FrameState.FAILED, next_retry_at=due)) is FrameStep.CLAIM_AGAIN


@pytest.mark.parametrize("due", [NOW + SECOND, NOW - SECOND])
@pytest.mark.parametrize("at", [99, 100])
def test_a_delivery_older_than_the_failure_says_nothing(at: int, due: datetime) -> None:
    assert decided(make_frame(FrameState.FAILED, next_retry_at=due), at=at) is FrameStep.SUPERSEDED


def test_an_incident_that_was_never_told_is_told() -> None:
    assert decided(make_frame(FrameState.INCIDENT)) is FrameStep.REPORT_INCIDENT


@pytest.mark.parametrize("reported", [None, NOW - timedelta(days=1)])
@pytest.mark.parametrize("at", [99, 100])
def test_a_delivery_older_than_the_incident_says_nothing(at: int, reported: datetime | None) -> None:
    assert decided(make_frame(FrameState.INCIDENT, reported_at=reported), at=at) is FrameStep.SUPERSEDED


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


@pytest.mark.parametrize(
    ("activated", "step"),
    [
        (NOW, FrameStep.WAIT),
        (NOW + 5 * SECOND, FrameStep.WAIT),
        (NOW + 5 * SECOND + timedelta(milliseconds=1), FrameStep.CLAIM_AGAIN),
    ],
)
def test_a_delivery_well_after_the_report_was_released_by_a_person(activated: datetime, step: FrameStep) -> None:
    assert decided(make_frame(FrameState.INCIDENT, reported_at=NOW), at=milliseconds(activated)) is step


@pytest.mark.parametrize("at", [0, 100, 200, milliseconds(NOW + timedelta(days=1))])
@pytest.mark.parametrize("acked", [None, NOW])
def test_a_completed_frame_never_leads_to_a_run(acked: datetime | None, at: int) -> None:
    step = decided(make_frame(FrameState.COMPLETED, acked_at=acked, lease_until=OVER, owner=ME), at=at)

    assert step not in (FrameStep.CLAIM_AGAIN, FrameStep.CONTINUE)


@pytest.mark.req("JOB-06", "X-07")
def test_the_idempotency_key_is_the_same_on_every_delivery() -> None:
    first, again = make_job(at=1), make_job(at=2, retries=1)

    assert idempotency_key(ENGINE, first) == idempotency_key(ENGINE, again)


@pytest.mark.req("JOB-06")
def test_the_idempotency_key_differs_by_engine_job_and_generation() -> None:
    jobs = [make_job(1), make_job(2), *(make_job(1, **change) for change in list(FOREIGN.values())[:3])]
    keys = [idempotency_key(ENGINE, job) for job in jobs]
    keys += [idempotency_key("engine-2", make_job(1)), idempotency_key(ENGINE, make_job(1), generation=1)]

    assert len(set(keys)) == 7


def test_the_idempotency_key_fits_where_others_store_it() -> None:
    key = idempotency_key("e" * 300, make_job(2**63 - 1))

    assert len(key) <= 255
    assert key.isascii()


def test_a_renewed_key_is_the_key_its_job_would_have_in_that_generation() -> None:
    assert renewed_key(ENGINE, make_frame(), 2) == idempotency_key(ENGINE, make_job(at=100), generation=2)
