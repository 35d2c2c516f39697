"""Heartbeats and pops: T4, T5, T6, T7 and T14, each fenced by epoch, owner and state."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pytest

from tests.support.databases import blocked, plain
from tests.support.frames import FIRST, INCIDENT, LATER, RETRY, THROWN, YIELD, Place, claimed, standing
from verbworker.errors import Fenced, PayloadIntegrityError, StoreError
from verbworker.job.frame import Claim, FrameState
from verbworker.stores.cases import payloads
from verbworker.stores.jobs.frames import MAX_INFRASTRUCTURE_RUNS, Frames

Pop = Callable[[Place, Frames, Claim], Awaitable[object]]
POPS: dict[str, Pop] = {
    "completed": lambda place, frames, claim: frames.pop_completed(place.verdict(claim)),
    "thrown": lambda place, frames, claim: frames.pop_thrown(claim, THROWN),
    "failed": lambda place, frames, claim: frames.pop_failed(claim, RETRY),
    "yielded": lambda place, frames, claim: frames.pop_yielded(claim, YIELD),
    "incident": lambda place, frames, claim: frames.pop_incident(claim, INCIDENT),
}
every_pop = pytest.mark.parametrize("pop", POPS.values(), ids=POPS)


@every_pop
@pytest.mark.req("X-23")
@pytest.mark.parametrize("epoch", [-1, 1])
async def test_a_pop_with_another_epoch_is_fenced(place: Place, frames: Frames, pop: Pop, epoch: int) -> None:
    claim = await claimed(frames, place.delivery())
    before = await place.row()

    with pytest.raises(Fenced):
        await pop(place, frames, replace(claim, epoch=claim.epoch + epoch))
    assert await place.row() == before


@every_pop
async def test_a_pop_by_another_owner_is_fenced(place: Place, frames: Frames, rival: Frames, pop: Pop) -> None:
    claim = await claimed(frames, place.delivery())
    before = await place.row()

    with pytest.raises(Fenced):
        await pop(place, rival, replace(claim, owner=rival.owner))
    assert await place.row() == before


@every_pop
@pytest.mark.parametrize("earlier", POPS.values(), ids=POPS)
async def test_a_second_pop_of_one_claim_is_fenced(place: Place, frames: Frames, earlier: Pop, pop: Pop) -> None:
    claim = await claimed(frames, place.delivery())
    await earlier(place, frames, claim)
    before = await place.row()

    with pytest.raises(Fenced):
        await pop(place, frames, claim)
    assert await place.row() == before


@every_pop
async def test_a_zombies_pop_is_fenced(place: Place, frames: Frames, rival: Frames, pop: Pop) -> None:
    zombie = await claimed(frames, place.delivery())
    await place.expire()
    await claimed(rival, place.delivery(at=2))
    before = await place.row()

    with pytest.raises(Fenced):
        await pop(place, frames, zombie)
    assert await place.row() == before


@every_pop
async def test_a_late_pop_that_nobody_superseded_is_welcome(place: Place, frames: Frames, pop: Pop) -> None:
    claim = await claimed(frames, place.delivery())
    await place.expire()

    await pop(place, frames, claim)

    assert (await standing(frames)).state is not FrameState.STARTED


@pytest.mark.req("JOB-03", "JOB-13", "EVO-05")
async def test_a_verdict_is_kept_with_its_bytes_hash_seal_flags_and_keys(place: Place, frames: Frames) -> None:
    verdict = place.verdict(await claimed(frames, place.delivery()))

    assert await frames.pop_completed(verdict)
    frame = await standing(frames)
    assert (frame.state, frame.outcome, frame.output) == (FrameState.COMPLETED, "complete", verdict.output)
    assert (frame.output_seal, frame.flags, frame.correlation) == (verdict.seal, verdict.flags, verdict.correlation)
    assert await place.column("output_hash") == sha256(verdict.output).digest()
    assert (frame.acked_at, frame.reported_at) == (None, None)


@pytest.mark.req("PAY-10")
async def test_a_verdict_moves_the_payload_of_record(place: Place, frames: Frames) -> None:
    verdict = place.verdict(await claimed(frames, place.delivery()))
    await frames.pop_completed(verdict)

    head = await payloads.head(place.database, place.instance.instance_uid)

    assert (head.content, head.hash, head.version) == (verdict.output, verdict.output_hash, 1)


@pytest.mark.req("PAY-05", "PAY-10")
async def test_a_payload_of_record_that_was_tampered_with_is_not_read(place: Place) -> None:
    uid = place.instance.instance_uid
    async with place.database.transaction() as connection:
        # Past the trigger, as only the owner of the database can.
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("UPDATE verbworker.payload_head SET content = 'x' WHERE instance_uid = $1", uid)

    with pytest.raises(PayloadIntegrityError, match="does not match its hash"):
        await payloads.head(place.database, uid)
    async with place.database.transaction() as connection:
        with pytest.raises(PayloadIntegrityError):
            await payloads.hold_head(connection, uid)


async def test_a_verb_that_changed_nothing_still_has_a_verdict(place: Place, frames: Frames) -> None:
    verdict = place.verdict(await claimed(frames, place.delivery()), output=FIRST)

    assert await frames.pop_completed(verdict)
    assert (await payloads.head(place.database, place.instance.instance_uid)).version == 1


@pytest.mark.req("X-41")
async def test_the_second_of_two_parallel_verdicts_must_merge_first(place: Place, frames: Frames) -> None:
    left, right = [await claimed(frames, place.delivery(key)) for key in (1, 2)]

    assert await frames.pop_completed(place.verdict(left, output=b'{"left":1}'))
    assert not await frames.pop_completed(place.verdict(right, output=b'{"right":1}'))
    assert (await standing(frames, 2)).state is FrameState.STARTED
    assert (await payloads.head(place.database, place.instance.instance_uid)).content == b'{"left":1}'


@pytest.mark.req("X-41")
async def test_a_merged_verdict_is_stored_on_the_version_it_was_merged_onto(place: Place, frames: Frames) -> None:
    left, right = [await claimed(frames, place.delivery(key)) for key in (1, 2)]
    await frames.pop_completed(place.verdict(left, output=b'{"left":1}'))

    async with place.database.transaction() as connection:
        head = await payloads.hold_head(connection, place.instance.instance_uid)
        merged = place.verdict(right, base=head.content, output=b'{"left":1,"right":1}')
        popped = await frames.pop_completed_in(connection, merged)

    assert popped
    head = await payloads.head(place.database, place.instance.instance_uid)
    assert (head.content, head.version) == (b'{"left":1,"right":1}', 2)


@pytest.mark.req("X-41")
async def test_parallel_verdicts_at_one_moment_never_overwrite_each_other(
    place: Place, frames: Frames, rival: Frames
) -> None:
    for round_ in range(10):
        instance = await place.open()
        here = replace(place, instance=instance)
        keys = (2 * round_ + 1, 2 * round_ + 2)
        claims = [await claimed(who, here.delivery(key)) for who, key in zip((frames, rival), keys, strict=True)]

        popped = await asyncio.gather(
            frames.pop_completed(here.verdict(claims[0], output=b"1")),
            rival.pop_completed(here.verdict(claims[1], output=b"2")),
        )

        head = await payloads.head(place.database, instance.instance_uid)
        assert sorted(popped) == [False, True]
        assert (head.content, head.version) == (b"12"[popped.index(True) :][:1], 1)


async def test_a_head_that_is_held_makes_a_verdict_wait(place: Place, frames: Frames, dsn: str) -> None:
    claim = await claimed(frames, place.delivery())
    async with asyncio.TaskGroup() as group, place.database.transaction() as connection:
        await payloads.hold_head(connection, place.instance.instance_uid)
        popping = group.create_task(frames.pop_completed(place.verdict(claim)))
        await blocked(dsn)
        assert not popping.done()

    assert popping.result() is True


@pytest.mark.req("PAY-05")
async def test_the_database_itself_refuses_a_hash_that_is_not_the_outputs(place: Place, frames: Frames) -> None:
    verdict = place.verdict(await claimed(frames, place.delivery()))

    with pytest.raises(StoreError, match="check constraint"):
        await frames.pop_completed(replace(verdict, output_hash=sha256(b"other").digest()))
    assert (await standing(frames)).state is FrameState.STARTED
    assert (await payloads.head(place.database, place.instance.instance_uid)).content == FIRST


async def test_the_database_itself_refuses_an_output_beyond_one_mebibyte(place: Place, frames: Frames) -> None:
    claim = await claimed(frames, place.delivery())

    with pytest.raises(StoreError, match="check constraint"):
        await frames.pop_completed(place.verdict(claim, output=b"x" * (1024 * 1024 + 1)))
    assert await frames.pop_completed(place.verdict(claim, output=b"x" * 1024 * 1024))


@pytest.mark.req("X-08")
async def test_an_effect_and_its_verdict_are_one_commit(place: Place, frames: Frames) -> None:
    await place.database.execute("CREATE TABLE effect (job_key bigint)")
    claim = await claimed(frames, place.delivery())

    async with place.database.transaction() as connection:
        await connection.execute("INSERT INTO effect VALUES (1)")
        await frames.pop_completed_in(connection, place.verdict(claim))
        seen = await asyncio.create_task(standing(frames))

    assert seen.state is FrameState.STARTED
    assert (await standing(frames)).state is FrameState.COMPLETED


@pytest.mark.req("X-08")
async def test_the_verdict_of_an_instance_that_is_not_the_pinned_one_is_fenced(place: Place, frames: Frames) -> None:
    claim = await claimed(frames, place.delivery())
    await place.database.execute("UPDATE verbworker.workflow_instance SET instance_key = instance_key + 1")

    with pytest.raises(Fenced):
        await frames.pop_completed(place.verdict(claim))
    async with place.database.transaction() as connection:
        with pytest.raises(Fenced):
            await frames.pop_completed_in(connection, place.verdict(claim))


@pytest.mark.req("X-08", "X-23")
async def test_a_fenced_verdict_takes_its_effect_with_it(place: Place, frames: Frames, rival: Frames) -> None:
    await place.database.execute("CREATE TABLE effect (job_key bigint)")
    zombie = await claimed(frames, place.delivery())
    await place.expire()
    await claimed(rival, place.delivery(at=2))

    async def act() -> None:
        async with place.database.transaction() as connection:
            await connection.execute("INSERT INTO effect VALUES (1)")
            await frames.pop_completed_in(connection, place.verdict(zombie))

    with pytest.raises(Fenced):
        await act()
    rows = await place.database.fetch("SELECT job_key FROM effect")
    assert rows == []


async def test_a_business_verdict_is_kept_with_its_code(place: Place, frames: Frames) -> None:
    await frames.pop_thrown(await claimed(frames, place.delivery()), THROWN)
    frame = await standing(frames)

    assert (frame.state, frame.outcome, frame.error_code) == (FrameState.COMPLETED, "bpmn_error", "REJECTED")
    assert (frame.fail_class, frame.fail_text) == ("PermanentBusiness", THROWN.message)
    assert (await payloads.head(place.database, place.instance.instance_uid)).content == FIRST


@pytest.mark.req("FAIL-02", "FAIL-10")
async def test_a_failed_run_costs_a_retry_and_says_why(place: Place, frames: Frames) -> None:
    left = await frames.pop_failed(await claimed(frames, place.delivery()), LATER)
    frame = await standing(frames)

    assert (left, frame.retries_left, frame.state) == (2, 2, FrameState.FAILED)
    assert (frame.fail_class, frame.fail_code, frame.fail_text) == ("TransientExternal", "Timeout", "no answer")
    assert frame.next_retry_at is not None
    assert timedelta(minutes=59) < frame.next_retry_at - frame.now <= timedelta(hours=1)


@pytest.mark.req("FAIL-05")
async def test_a_run_without_retries_left_cannot_be_stored_as_a_retry(place: Place, frames: Frames) -> None:
    claim = await claimed(frames, place.delivery(retries=1))

    with pytest.raises(StoreError, match="check constraint"):
        await frames.pop_failed(claim, RETRY)
    assert (await standing(frames)).state is FrameState.STARTED


async def test_a_run_given_back_costs_neither_a_retry_nor_a_run(place: Place, frames: Frames) -> None:
    left = await frames.pop_yielded(await claimed(frames, place.delivery()), YIELD)
    frame = await standing(frames)

    assert (left, frame.retries_left, frame.runs) == (3, 3, 0)
    assert (frame.state, frame.fail_class) == (FrameState.FAILED, "TransientInfrastructure")
    assert await place.column("infra_runs") == 1


async def test_a_job_is_not_given_back_for_ever(place: Place, frames: Frames) -> None:
    claim = await claimed(frames, place.delivery())
    await place.change(infra_runs=str(MAX_INFRASTRUCTURE_RUNS))

    assert await frames.pop_yielded(claim, YIELD) is None
    assert (await standing(frames)).state is FrameState.STARTED
    await frames.pop_incident(claim, INCIDENT)
    assert (await standing(frames)).state is FrameState.INCIDENT


@pytest.mark.req("FAIL-03", "FAIL-10")
async def test_an_incident_says_why_and_is_not_reported_yet(place: Place, frames: Frames) -> None:
    await frames.pop_incident(await claimed(frames, place.delivery()), INCIDENT)
    frame = await standing(frames)

    assert (frame.state, frame.reported_at) == (FrameState.INCIDENT, None)
    assert (frame.fail_class, frame.fail_code) == ("PermanentContract", "PayloadIntegrityError")


async def test_a_heartbeat_extends_every_lease_of_its_owner(place: Place, frames: Frames) -> None:
    running = {key: (await claimed(frames, place.delivery(key))).epoch for key in (1, 2, 3)}
    for key in running:
        await place.expire(key)

    assert await frames.heartbeat(running) == set()
    assert [frame.lease_until > frame.now for frame in [await standing(frames, key) for key in running]] == [True] * 3


async def test_a_heartbeat_of_nothing_loses_nothing(frames: Frames) -> None:
    assert await frames.heartbeat({}) == set()


@pytest.mark.parametrize("change", [{"epoch": "2"}, {"owner": f"'{uuid4()}'"}], ids=["epoch", "owner"])
async def test_a_heartbeat_of_a_frame_that_is_not_ours_reports_it_lost(
    place: Place, frames: Frames, change: dict[str, Any]
) -> None:
    await claimed(frames, place.delivery())
    await place.change(**change)
    before = await place.row()

    assert await frames.heartbeat({1: 1}) == {1}
    assert await place.row() == before


async def test_a_heartbeat_tells_lost_frames_from_those_that_are_ours(
    place: Place, frames: Frames, rival: Frames
) -> None:
    for key in (1, 2, 3):
        await claimed(frames, place.delivery(key))
    await place.expire(2)
    await claimed(rival, place.delivery(2, at=2))

    assert await frames.heartbeat({1: 1, 2: 1, 3: 1, 4: 1}) == {2, 4}
    assert await rival.heartbeat({2: 2}) == set()


@every_pop
async def test_a_frame_we_finished_ourselves_is_not_lost_and_gets_no_lease(
    place: Place, frames: Frames, pop: Pop
) -> None:
    claim = await claimed(frames, place.delivery())
    await pop(place, frames, claim)
    before = await place.row()

    assert await frames.heartbeat({1: claim.epoch}) == set()
    assert await place.row() == before


async def test_a_heartbeat_does_not_wait_for_a_frame_that_is_being_finished(
    place: Place, frames: Frames, dsn: str
) -> None:
    for key in (1, 2):
        await claimed(frames, place.delivery(key))
        await place.expire(key)
    async with plain(dsn) as finisher, finisher.transaction():
        await finisher.execute("SELECT 1 FROM verbworker.job_frame WHERE job_key = 1 FOR UPDATE")
        async with asyncio.timeout(10):
            lost = await frames.heartbeat({1: 1, 2: 1})

    assert lost == set()
    assert (await standing(frames, 1)).lease_until < (await standing(frames, 2)).lease_until


@pytest.mark.parametrize(
    ("pop", "state"),
    [(None, "started"), (POPS["completed"], "completed"), (POPS["failed"], "failed"), (POPS["incident"], "incident")],
)
async def test_after_a_lost_answer_the_frame_tells_what_happened(
    place: Place, frames: Frames, pop: Pop | None, state: str
) -> None:
    claim = await claimed(frames, place.delivery())
    if pop is not None:
        await pop(place, frames, claim)

    assert await frames.settle(claim) == state


async def test_after_a_lost_answer_a_frame_in_other_hands_is_fenced(
    place: Place, frames: Frames, rival: Frames
) -> None:
    claim = await claimed(frames, place.delivery())
    await place.expire()
    await claimed(rival, place.delivery(at=2))

    with pytest.raises(Fenced):
        await frames.settle(claim)


async def test_after_a_lost_answer_our_own_transaction_is_waited_for(place: Place, frames: Frames, dsn: str) -> None:
    claim = await claimed(frames, place.delivery())
    async with asyncio.TaskGroup() as group, place.database.transaction() as connection:
        await frames.pop_completed_in(connection, place.verdict(claim))
        settling = group.create_task(frames.settle(claim))
        await blocked(dsn)
        assert not settling.done()

    assert settling.result() is FrameState.COMPLETED
