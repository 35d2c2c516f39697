"""Claims: T1 new, T2 retry, T3 takeover and T12 by the engine, each with what it must refuse."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pytest

from tests.support.frames import (
    ENGINE,
    FAR,
    FIRST,
    INCIDENT,
    LATER,
    RETRY,
    YIELD,
    Place,
    claimed,
    make_delivery,
    make_job,
    standing,
    working,
)
from verbworker.job.frame import FrameState, FrameStep, decide, idempotency_key
from verbworker.stores.jobs.frames import Frames


async def failed(place: Place, frames: Frames) -> None:
    await frames.pop_failed(await claimed(frames, place.delivery()), RETRY)


async def held(place: Place, frames: Frames) -> None:
    await frames.pop_incident(await claimed(frames, place.delivery()), INCIDENT)
    await place.change(reported_at="clock_timestamp() - interval '1 hour'")


async def lost(place: Place, frames: Frames) -> None:
    await claimed(frames, place.delivery())
    await place.expire()


async def done(place: Place, frames: Frames) -> None:
    assert await frames.pop_completed(place.verdict(await claimed(frames, place.delivery())))


Prepare = Callable[[Place, Frames], Awaitable[None]]
CLAIMABLE = {"retry": failed, "takeover": lost, "release": held}


@pytest.mark.req("JOB-04", "JOB-10", "JOB-12")
async def test_a_new_job_is_claimed_and_its_frame_is_durable(place: Place, frames: Frames) -> None:
    claim = await claimed(frames, place.delivery())
    frame = await standing(frames)

    assert (claim.epoch, claim.owner, claim.claimed_from, claim.runs) == (1, frames.owner, "new", 1)
    assert (claim.retries_left, claim.deliveries, claim.generation) == (3, 1, 0)
    assert claim.idempotency_key == idempotency_key(ENGINE, make_job())
    assert claim.lease_until - claim.now > timedelta(seconds=25)
    assert (frame.state, frame.epoch, frame.owner) == (FrameState.STARTED, 1, frames.owner)
    assert frame.input_hash == sha256(FIRST).digest()


@pytest.mark.req("COR-09")
async def test_a_claim_tells_which_instance_the_job_belongs_to(place: Place, frames: Frames) -> None:
    claim = await claimed(frames, place.delivery())

    assert claim.instance is not None
    assert (claim.instance.entry_id, claim.instance.tenant_id) == (place.instance.entry_id, "default")
    assert (claim.instance.verb, claim.instance.engine_id) == ("kyc.open-case", ENGINE)
    assert (claim.input_known, claim.input_is_head) == (True, True)


async def test_a_claim_tells_that_its_input_is_none_of_the_instances_versions(place: Place, frames: Frames) -> None:
    claim = await claimed(frames, place.delivery(input_hash=sha256(b"tampered").digest()))

    assert (claim.input_known, claim.input_is_head) == (False, False)


async def test_a_claim_tells_that_its_input_is_an_older_version(place: Place, frames: Frames) -> None:
    await done(place, frames)
    claim = await claimed(frames, place.delivery(2))

    assert (claim.input_known, claim.input_is_head) == (True, False)


async def test_a_job_of_an_instance_nobody_opened_leaves_a_frame_all_the_same(place: Place, frames: Frames) -> None:
    claim = await claimed(frames, make_delivery(make_job(), instance_uid=uuid4()))

    assert (claim.instance, claim.input_known, claim.input_is_head) == (None, False, False)
    assert (await standing(frames)).state is FrameState.STARTED


@pytest.mark.req("JOB-14")
async def test_the_same_key_on_another_engine_is_another_frame(place: Place, frames: Frames) -> None:
    await done(place, frames)
    other = Frames(place.database, engine_id="engine-2", owner=uuid4())

    (claim,) = await other._push_many([place.delivery()])

    assert claim is not None
    assert claim.claimed_from == "new"


@pytest.mark.req("JOB-01")
@pytest.mark.parametrize("at", [1, 2, FAR])
async def test_a_live_lease_is_not_taken(place: Place, frames: Frames, rival: Frames, at: int) -> None:
    await claimed(frames, place.delivery())
    before = await place.row()

    assert await rival.push(place.delivery(at=at)) is None
    assert await place.row() == before


@pytest.mark.req("JOB-05", "EVO-01")
@pytest.mark.parametrize("at", [1, 2, FAR])
async def test_a_completed_frame_is_never_claimed(place: Place, frames: Frames, rival: Frames, at: int) -> None:
    await done(place, frames)
    await place.expire()
    before = await place.row()

    assert await rival.push(place.delivery(at=at)) is None
    assert await place.row() == before


@pytest.mark.req("X-06", "EVO-03")
@pytest.mark.parametrize("kind", CLAIMABLE)
async def test_a_claim_after_another_has_a_higher_epoch_and_the_same_key(
    place: Place, frames: Frames, rival: Frames, kind: str
) -> None:
    await CLAIMABLE[kind](place, frames)
    first = await place.row()

    claim = await claimed(rival, place.delivery(at=FAR, idempotency_key="another"))
    frame = await standing(rival)

    assert (claim.epoch, claim.owner, claim.claimed_from) == (2, rival.owner, kind)
    assert claim.idempotency_key == first["idempotency_key"]
    assert (frame.state, frame.owner, frame.activated_ms) == (FrameState.STARTED, rival.owner, FAR)
    assert (frame.next_retry_at, frame.reported_at) == (None, None)
    assert frame.lease_until > frame.now


@pytest.mark.parametrize("kind", CLAIMABLE)
async def test_a_new_run_takes_the_new_input(place: Place, frames: Frames, kind: str) -> None:
    await CLAIMABLE[kind](place, frames)

    await claimed(frames, place.delivery(at=FAR, input_hash=sha256(b"drifted").digest()))

    assert (await standing(frames)).input_hash == sha256(b"drifted").digest()


@pytest.mark.parametrize("kind", CLAIMABLE)
async def test_an_activation_that_is_not_newer_is_superseded(place: Place, frames: Frames, kind: str) -> None:
    await CLAIMABLE[kind](place, frames)
    await place.change(activated_ms=str(FAR))
    before = await place.row()

    assert await frames.push(place.delivery(at=FAR)) is None
    assert await frames.push(place.delivery(at=FAR - 1)) is None
    assert await place.row() == before


FOREIGN: dict[str, dict[str, Any]] = {
    "process instance": {"process_instance_key": 1},
    "element instance": {"element_instance_key": 1},
    "verb": {"type": "kyc.other"},
    "tenant": {"tenant_id": "other"},
}


@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("kind", CLAIMABLE)
async def test_another_job_under_the_same_key_claims_nothing(
    place: Place, frames: Frames, kind: str, change: dict[str, Any]
) -> None:
    await CLAIMABLE[kind](place, frames)
    before = await place.row()
    stranger = make_delivery(make_job(at=FAR, **change), place.instance)

    assert await frames.push(stranger) is None
    assert await place.row() == before
    assert decide(await standing(frames), stranger.job, stranger.instance_uid, frames.owner) is FrameStep.QUARANTINE


@pytest.mark.parametrize("uid", [None, uuid4()])
@pytest.mark.parametrize("kind", CLAIMABLE)
async def test_another_instance_under_the_same_key_claims_nothing(
    place: Place, frames: Frames, kind: str, uid: object
) -> None:
    await CLAIMABLE[kind](place, frames)
    before = await place.row()

    assert await frames.push(replace(place.delivery(at=FAR), instance_uid=uid)) is None  # type: ignore[arg-type]
    assert await place.row() == before


async def test_a_job_without_an_instance_is_recognised_as_itself(place: Place, frames: Frames) -> None:
    await frames.pop_failed(await claimed(frames, make_delivery(make_job())), RETRY)

    assert (await claimed(frames, make_delivery(make_job(at=2)))).claimed_from == "retry"


async def test_a_retry_waits_for_its_backoff(place: Place, frames: Frames) -> None:
    await frames.pop_failed(await claimed(frames, place.delivery()), LATER)

    assert await frames.push(place.delivery(at=2)) is None

    await place.change(next_retry_at="clock_timestamp()")
    claim = await claimed(frames, place.delivery(at=3))
    assert (claim.claimed_from, claim.runs, claim.retries_left) == ("retry", 2, 2)


async def test_a_retry_that_was_given_back_is_the_same_run_again(place: Place, frames: Frames) -> None:
    await frames.pop_yielded(await claimed(frames, place.delivery()), YIELD)

    claim = await claimed(frames, place.delivery(at=2))

    assert (claim.epoch, claim.runs, claim.retries_left) == (2, 1, 3)


@pytest.mark.parametrize("kind", CLAIMABLE)
async def test_deliveries_are_counted_whether_claimed_or_not(place: Place, frames: Frames, kind: str) -> None:
    await CLAIMABLE[kind](place, frames)

    await frames.observe(1)

    assert (await claimed(frames, place.delivery(at=FAR))).deliveries == 3


async def test_a_takeover_stops_at_the_most_runs(place: Place, frames: Frames) -> None:
    await lost(place, frames)
    for at in range(2, 6):
        assert (await claimed(frames, place.delivery(at=at))).runs == at
        await place.expire()

    assert await frames.push(place.delivery(at=6)) is None
    assert decide(await standing(frames), make_job(at=6), place.instance.instance_uid, uuid4()) is FrameStep.HOLD_POISON


@pytest.mark.parametrize(("declared", "now", "step"), [(1, 9, FrameStep.HOLD_POISON), (9, 1, None)])
async def test_the_most_runs_are_those_declared_with_the_claim(
    place: Place, frames: Frames, declared: int, now: int, step: FrameStep | None
) -> None:
    await claimed(frames, place.delivery(max_runs=declared))
    await place.expire()

    claim = await frames.push(place.delivery(at=2, max_runs=now))

    # Were claim and decision to disagree, a delivery would go round between them for ever.
    frame = await standing(frames)
    said = decide(frame, make_job(at=2), place.instance.instance_uid, uuid4()) if claim is None else None
    assert said is step


@pytest.mark.parametrize("on_unknown", ["rerun", "probe"])
async def test_an_external_verb_is_taken_over_within_its_window(
    place: Place, frames: Frames, rival: Frames, on_unknown: str
) -> None:
    await claimed(frames, place.delivery(mode="external", on_unknown=on_unknown))
    await place.expire()

    assert (await claimed(rival, place.delivery(at=2, mode="external", on_unknown=on_unknown))).runs == 2


@pytest.mark.parametrize("mode", ["external", "transactional"])
async def test_an_outcome_that_must_not_be_repeated_is_not_taken_over(
    place: Place, frames: Frames, rival: Frames, mode: str
) -> None:
    await claimed(frames, place.delivery(mode=mode, on_unknown="hold"))
    await place.expire()

    claim = await rival.push(place.delivery(at=2, mode="transactional", on_unknown="rerun"))

    # A transaction that did not commit left no outcome at all, so there is nothing to hold.
    assert (claim is None) == (mode == "external")


@pytest.mark.parametrize(("mode", "taken"), [("external", False), ("transactional", True)])
async def test_an_external_verb_is_not_taken_over_after_its_window(
    place: Place, frames: Frames, rival: Frames, mode: str, taken: bool
) -> None:
    await claimed(frames, place.delivery(mode=mode, idempotency_window=timedelta(hours=1)))
    await place.expire()
    await place.change(keyed_at="clock_timestamp() - interval '61 minutes'")

    claim = await rival.push(place.delivery(at=2, mode=mode, idempotency_window=timedelta(days=9)))

    assert (claim is not None) == taken


async def test_a_held_frame_is_released_by_a_delivery_long_after_its_report(place: Place, frames: Frames) -> None:
    await held(place, frames)
    await place.change(runs="5", infra_runs="100", retries_left="0", keyed_at="clock_timestamp() - interval '1 day'")
    keyed = await place.column("keyed_at")

    claim = await claimed(frames, place.delivery(at=FAR))

    assert (claim.claimed_from, claim.runs, claim.retries_left) == ("release", 1, 3)
    assert await place.column("infra_runs") == 0
    assert await place.column("keyed_at") == keyed


async def test_a_held_frame_is_not_released_while_nothing_was_reported(place: Place, frames: Frames) -> None:
    await frames.pop_incident(await claimed(frames, place.delivery()), INCIDENT)

    assert await frames.push(place.delivery(at=FAR)) is None


@pytest.mark.parametrize(("after", "claims"), [(0, False), (4_999, False), (5_000, False), (5_001, True)])
async def test_a_delivery_within_the_grace_after_a_report_is_no_release(
    place: Place, frames: Frames, after: int, claims: bool
) -> None:
    await held(place, frames)
    await place.change(reported_at="date_trunc('second', clock_timestamp())")
    reported = int((await place.column("reported_at")).timestamp() * 1000)

    assert (await frames.push(place.delivery(at=reported + after)) is not None) == claims


async def test_our_own_claim_can_be_read_again(place: Place, frames: Frames, rival: Frames) -> None:
    claim = await claimed(frames, place.delivery())
    again = await frames.resume(1)

    assert again is not None
    # A claim that is read again may have crossed another of its step, so the guard looks.
    assert replace(again, now=claim.now, may_have_twin=False) == claim
    assert await rival.resume(1) is None


async def test_a_frame_that_is_not_running_has_no_claim_to_read(place: Place, frames: Frames) -> None:
    await failed(place, frames)

    assert await frames.resume(1) is None


async def test_a_job_that_was_never_pushed_has_no_frame(frames: Frames) -> None:
    assert await frames.read(1) is None
    assert await frames.observe(1) is None


async def test_a_short_lease_ends_by_the_databases_clock(place: Place) -> None:
    async with working(place.database, lease=timedelta(0)) as brief, working(place.database) as rival:
        await claimed(brief, place.delivery())

        assert (await claimed(rival, place.delivery(at=2))).claimed_from == "takeover"
