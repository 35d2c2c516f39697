"""What stops a frame and what lets it go: T8, T9, T10, T12, T13; and the database's own belt."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.frames import (
    ENGINE,
    FAR,
    INCIDENT,
    RETRY,
    THROWN,
    YIELD,
    Place,
    claimed,
    make_job,
    standing,
)
from verbworker.errors import Fenced, StoreError
from verbworker.job.frame import FrameState, idempotency_key
from verbworker.stores.jobs.frames import Frames

WHY = {"code": "CrashLoop", "message": "its worker never answered"}


async def held(place: Place, frames: Frames) -> None:
    await frames.pop_incident(await claimed(frames, place.delivery()), INCIDENT)


@pytest.mark.req("JOB-11")
async def test_a_frame_whose_owner_vanished_is_held_under_a_new_epoch(
    place: Place, frames: Frames, rival: Frames
) -> None:
    await claimed(frames, place.delivery())
    await place.expire()

    epoch = await rival.hold(await standing(frames), 2, **WHY)

    frame = await standing(frames)
    assert (epoch, frame.epoch, frame.owner) == (2, 2, rival.owner)
    assert (frame.state, frame.reported_at, frame.activated_ms) == (FrameState.INCIDENT, None, 2)
    assert (frame.fail_class, frame.fail_code) == ("PermanentContract", "CrashLoop")


async def test_a_vanished_owner_that_comes_back_finds_its_frame_fenced(
    place: Place, frames: Frames, rival: Frames
) -> None:
    zombie = await claimed(frames, place.delivery())
    await place.expire()
    await rival.hold(await standing(frames), 2, **WHY)

    assert await frames.heartbeat({1: zombie.epoch}) == {1}
    with pytest.raises(Fenced):
        await frames.pop_completed(place.verdict(zombie))


async def test_a_live_lease_is_not_held(place: Place, frames: Frames, rival: Frames) -> None:
    await claimed(frames, place.delivery())
    before = await place.row()

    assert await rival.hold(await standing(frames), 2, **WHY) is None
    assert await place.row() == before


@pytest.mark.parametrize("at", [0, 1])
async def test_a_delivery_older_than_the_claim_holds_nothing(place: Place, frames: Frames, at: int) -> None:
    await claimed(frames, place.delivery())
    await place.expire()

    assert await frames.hold(await standing(frames), at, **WHY) is None
    assert (await standing(frames)).state is FrameState.STARTED


async def test_a_frame_that_was_claimed_meanwhile_is_not_held(place: Place, frames: Frames, rival: Frames) -> None:
    await claimed(frames, place.delivery())
    await place.expire()
    seen = await standing(frames)
    await claimed(rival, place.delivery(at=2))
    await place.expire()

    assert await frames.hold(seen, 3, **WHY) is None
    assert (await standing(frames)).state is FrameState.STARTED


@pytest.mark.parametrize("ending", ["completed", "thrown", "failed", "yielded", "incident"])
async def test_a_frame_that_was_finished_meanwhile_is_not_held(place: Place, frames: Frames, ending: str) -> None:
    claim = await claimed(frames, place.delivery())
    await place.expire()
    seen = await standing(frames)
    match ending:
        case "completed":
            await frames.pop_completed(place.verdict(claim))
        case "thrown":
            await frames.pop_thrown(claim, THROWN)
        case "failed":
            await frames.pop_failed(claim, RETRY)
        case "yielded":
            await frames.pop_yielded(claim, YIELD)
        case _:
            await frames.pop_incident(claim, INCIDENT)
    before = await place.row()

    assert await frames.hold(seen, 2, **WHY) is None
    assert await place.row() == before


@pytest.mark.parametrize("ending", ["failed", "incident"])
async def test_a_report_counts_when_the_engine_took_it(place: Place, frames: Frames, ending: str) -> None:
    claim = await claimed(frames, place.delivery())
    await (frames.pop_failed(claim, RETRY) if ending == "failed" else frames.pop_incident(claim, INCIDENT))

    await frames.record_report(1, claim.epoch)

    frame = await standing(frames)
    assert frame.reported_at is not None
    assert frame.reported_at <= frame.now


@pytest.mark.parametrize("epoch", [0, 2])
async def test_a_report_of_another_epoch_does_not_count(place: Place, frames: Frames, epoch: int) -> None:
    await held(place, frames)

    await frames.record_report(1, epoch)

    assert (await standing(frames)).reported_at is None


@pytest.mark.parametrize("ending", ["started", "completed"])
async def test_a_report_of_a_frame_that_did_not_fail_does_not_count(place: Place, frames: Frames, ending: str) -> None:
    claim = await claimed(frames, place.delivery())
    if ending == "completed":
        await frames.pop_completed(place.verdict(claim))

    await frames.record_report(1, claim.epoch)

    assert (await standing(frames)).reported_at is None


async def test_a_person_lets_a_held_frame_run_again_with_the_same_key(place: Place, frames: Frames) -> None:
    await held(place, frames)
    await place.change(runs="5", infra_runs="100", keyed_at="clock_timestamp() - interval '1 day'")
    keyed, key = await place.column("keyed_at"), await place.column("idempotency_key")

    assert await frames.release(await standing(frames), retries=2) == (2, 0)
    assert (await standing(frames)).state is FrameState.FAILED
    claim = await claimed(frames, place.delivery(at=2))
    assert (claim.epoch, claim.runs, claim.idempotency_key) == (2, 1, key)
    # The other side remembers the key since its first use, whoever releases the frame.
    assert (await place.column("keyed_at"), await place.column("infra_runs")) == (keyed, 0)


async def test_a_released_frame_has_at_least_the_retries_it_is_given(place: Place, frames: Frames) -> None:
    await held(place, frames)
    await place.change(retries_left="0")

    assert await frames.release(await standing(frames), retries=2) == (2, 0)


async def test_a_frame_cannot_be_released_without_a_retry(place: Place, frames: Frames) -> None:
    await held(place, frames)
    await place.change(retries_left="0")

    with pytest.raises(StoreError, match="check constraint"):
        await frames.release(await standing(frames), retries=0)


async def test_only_a_person_repeats_an_effect_and_then_under_a_new_key(place: Place, frames: Frames) -> None:
    await held(place, frames)
    await place.change(keyed_at="clock_timestamp() - interval '1 day'")
    old = await place.column("keyed_at")
    new_key = idempotency_key(ENGINE, make_job(), generation=1)

    assert await frames.release(await standing(frames), retries=1, new_key=new_key) == (1, 1)
    claim = await claimed(frames, place.delivery(at=2))
    assert (claim.generation, claim.idempotency_key) == (1, new_key)
    assert await place.column("keyed_at") > old


async def test_a_release_of_what_somebody_else_released_does_nothing(place: Place, frames: Frames) -> None:
    await held(place, frames)
    seen = await standing(frames)
    await frames.release(seen, retries=1)
    before = await place.row()

    assert await frames.release(seen, retries=1) is None
    assert await place.row() == before


async def test_a_release_of_an_epoch_that_is_past_does_nothing(place: Place, frames: Frames) -> None:
    await held(place, frames)
    seen = await standing(frames)

    assert await frames.release(replace(seen, epoch=seen.epoch + 1), retries=1) is None
    assert (await standing(frames)).state is FrameState.INCIDENT


@pytest.mark.parametrize("ending", ["started", "completed"])
@pytest.mark.parametrize("new_key", [None, "vw1-new"])
async def test_a_frame_that_is_not_held_is_never_released(
    place: Place, frames: Frames, ending: str, new_key: str | None
) -> None:
    claim = await claimed(frames, place.delivery())
    if ending == "completed":
        await frames.pop_completed(place.verdict(claim))
    before = await place.row()

    assert await frames.release(await standing(frames), retries=1, new_key=new_key) is None
    assert await place.row() == before


async def test_a_strange_delivery_is_kept_beside_the_frame_it_collided_with(place: Place, frames: Frames) -> None:
    await claimed(frames, place.delivery())
    before = await place.row()

    await frames.quarantine(1, {"verb": "kyc.other", "activated_ms": FAR})

    row = await place.database.fetchrow("SELECT job_key, frame, delivery FROM verbworker.frame_conflict")
    assert row is not None
    assert json.loads(row["frame"])["verb"] == "kyc.check"
    assert json.loads(row["delivery"])["verb"] == "kyc.other"
    assert await place.row() == before


FINAL: dict[str, dict[str, str]] = {
    "state": {"state": "'started'"},
    "epoch": {"epoch": "epoch + 1"},
    "outcome": {"outcome": "'bpmn_error'"},
    "output": {"output": "'x'", "output_hash": "sha256('x')"},
    "seal": {"output_seal": "'sha256:00'"},
    "flags": {"flags": "'{}'"},
    "correlation": {"correlation": "'{}'"},
    "code": {"error_code": "'REJECTED'"},
}


@pytest.mark.req("JOB-05")
@pytest.mark.parametrize("change", FINAL.values(), ids=FINAL)
async def test_the_database_itself_refuses_to_change_a_verdict(
    place: Place, frames: Frames, change: dict[str, Any]
) -> None:
    await frames.pop_completed(place.verdict(await claimed(frames, place.delivery())))
    before = await place.row()

    with pytest.raises(StoreError, match="completed or fenced and cannot change"):
        await place.change(**change)
    assert await place.row() == before


@pytest.mark.parametrize("state", ["started", "failed", "incident"])
async def test_the_database_itself_refuses_a_smaller_epoch(place: Place, frames: Frames, state: str) -> None:
    await claimed(frames, place.delivery())
    await place.change(epoch="7", state=f"'{state}'", next_retry_at="clock_timestamp()")

    with pytest.raises(StoreError, match="completed or fenced and cannot change"):
        await place.change(epoch="6")


IMPOSSIBLE: dict[str, dict[str, str]] = {
    "a verdict without an outcome": {"state": "'completed'"},
    "a verdict without its bytes": {"state": "'completed'", "outcome": "'complete'"},
    "bytes without their hash": {"outcome": "'complete'", "output": "'x'"},
    "bytes with another hash": {"outcome": "'complete'", "output": "'x'", "output_hash": "sha256('y')"},
    "a retry without its time": {"state": "'failed'"},
    "a retry without a retry": {"state": "'failed'", "next_retry_at": "clock_timestamp()", "retries_left": "0"},
    "epoch zero": {"epoch": "0"},
    "an unknown mode": {"mode": "'maybe'"},
    "an unknown way out": {"on_unknown": "'guess'"},
}


@pytest.mark.parametrize("change", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
async def test_the_database_itself_refuses_an_impossible_frame(
    place: Place, frames: Frames, change: dict[str, Any]
) -> None:
    await claimed(frames, place.delivery())
    before = await place.row()

    with pytest.raises(StoreError):
        await place.change(**change)
    assert await place.row() == before
