"""The way to the engine and out of the hot table: T11, the relay, the archive and replay from it."""

import asyncio
from datetime import timedelta

import pytest

from tests.support.databases import blocked, plain
from tests.support.frames import FAR, THROWN, Place, claimed, make_delivery, make_job, standing, working
from verbworker.job.frame import FrameState, FrameStep, decide
from verbworker.stores.jobs.frames import Frames, Unacknowledged

NOW, HOUR = timedelta(0), timedelta(hours=1)


async def complete(place: Place, frames: Frames, *keys: int) -> None:
    for key in keys:
        instance = await place.open()
        claim = await claimed(frames, make_delivery(make_job(key), instance))
        assert await frames.pop_completed(Place(place.database, instance).verdict(claim))


async def acknowledge(frames: Frames, *keys: int, result: str = "ok") -> None:
    for key in keys:
        frames.acknowledge(key, result)
    await frames.flush()


async def due(frames: Frames, *, older_than: timedelta = NOW, hold: timedelta = HOUR, limit: int = 100) -> list[int]:
    return [one.job_key for one in await frames.claim_unsent(older_than=older_than, hold=hold, limit=limit)]


async def archived(place: Place) -> list[int]:
    rows = await place.database.fetch("SELECT job_key FROM verbworker.job_frame_archive ORDER BY job_key")
    return [row["job_key"] for row in rows]


@pytest.mark.req("FAIL-07")
@pytest.mark.parametrize("result", ["ok", "gone"])
async def test_an_acknowledgement_is_written_with_the_engines_answer(place: Place, frames: Frames, result: str) -> None:
    await complete(place, frames, 1)

    await acknowledge(frames, 1, result=result)

    assert (await standing(frames)).acked_at is not None
    assert await place.column("ack_result") == result


async def test_acknowledgements_are_written_without_being_asked(place: Place, frames: Frames) -> None:
    await complete(place, frames, 1)
    frames.acknowledge(1, "ok")

    async with asyncio.timeout(20):
        while True:
            if (await standing(frames)).acked_at is not None:
                break
            await asyncio.sleep(0.01)

    assert await place.column("ack_result") == "ok"


async def test_the_first_acknowledgement_stays(place: Place, frames: Frames) -> None:
    await complete(place, frames, 1)
    await acknowledge(frames, 1)
    before = await place.row()

    await acknowledge(frames, 1, result="gone")

    assert await place.row() == before


async def test_only_a_verdict_can_be_acknowledged(place: Place, frames: Frames) -> None:
    await claimed(frames, place.delivery())
    before = await place.row()

    await acknowledge(frames, 1, 2)

    assert await place.row() == before


@pytest.mark.req("EVO-02", "JOB-13")
async def test_a_verdict_is_offered_until_it_is_acknowledged(place: Place, frames: Frames) -> None:
    await complete(place, frames, 1, 2)
    await acknowledge(frames, 1)

    assert await due(frames, hold=NOW) == [2]
    assert await due(frames, hold=NOW) == [2]
    await acknowledge(frames, 2)
    assert await due(frames) == []


@pytest.mark.req("JOB-05", "EVO-02")
async def test_any_worker_is_offered_the_stored_bytes_and_flags(place: Place, frames: Frames, rival: Frames) -> None:
    verdict = place.verdict(await claimed(frames, place.delivery()))
    await frames.pop_completed(verdict)

    (offered,) = await rival.claim_unsent(older_than=NOW, hold=HOUR, limit=1)

    assert offered == Unacknowledged(
        job_key=1,
        verb="kyc.check",
        outcome="complete",
        output=verdict.output,
        output_seal=verdict.seal,
        flags=verdict.flags,
        correlation=verdict.correlation,
        error_code=None,
        fail_text=None,
    )


async def test_a_business_verdict_is_offered_with_its_code(place: Place, frames: Frames) -> None:
    await frames.pop_thrown(await claimed(frames, place.delivery()), THROWN)

    (offered,) = await frames.claim_unsent(older_than=NOW, hold=HOUR, limit=1)

    assert (offered.outcome, offered.error_code, offered.fail_text) == ("bpmn_error", "REJECTED", THROWN.message)


async def test_a_verdict_on_offer_is_offered_to_nobody_else(place: Place, frames: Frames, rival: Frames) -> None:
    await complete(place, frames, 1, 2, 3)

    assert sorted(await due(frames, limit=2) + await due(rival)) == [1, 2, 3]
    assert await due(rival) == []


async def test_a_fresh_verdict_is_left_to_its_own_worker(place: Place, frames: Frames) -> None:
    await complete(place, frames, 1)

    assert await due(frames, older_than=HOUR) == []


async def test_another_engines_verdicts_are_not_offered(place: Place, frames: Frames) -> None:
    await complete(place, frames, 1)
    await place.change(engine_id="'engine-2'")

    assert await due(frames) == []


async def test_relays_at_one_moment_never_share_a_verdict(place: Place, frames: Frames, rival: Frames) -> None:
    await complete(place, frames, *range(1, 31))

    shares = await asyncio.gather(*(due(who, limit=5) for who in (frames, rival) * 3))

    everything = sorted(key for share in shares for key in share)
    assert everything == sorted(set(everything))
    assert all(len(share) <= 5 for share in shares)


async def test_a_relay_does_not_wait_for_a_frame_that_is_locked(place: Place, frames: Frames, dsn: str) -> None:
    await complete(place, frames, 1, 2)
    async with plain(dsn) as holder, holder.transaction():
        await holder.execute("SELECT 1 FROM verbworker.job_frame WHERE job_key = 1 FOR UPDATE")
        async with asyncio.timeout(10):
            offered = await due(frames)

    assert offered == [2]


async def test_verdicts_that_are_refused_again_and_again_do_not_starve_the_others(place: Place, frames: Frames) -> None:
    await complete(place, frames, 1, 2, 3)
    first = await due(frames, hold=NOW, limit=2)

    second = await due(frames, hold=NOW, limit=2)

    assert set(first) | set(second) == {1, 2, 3}


async def test_only_acknowledged_frames_of_some_age_are_archived(place: Place, frames: Frames) -> None:
    await complete(place, frames, 1, 2, 3)
    await claimed(frames, place.delivery(4))
    await acknowledge(frames, 1, 2)
    await place.change(1, acked_at="clock_timestamp() - interval '2 hours'")

    assert await frames.archive(older_than=HOUR) == 1
    assert await archived(place) == [1]


async def test_an_archived_frame_leaves_the_hot_table_when_its_copy_has_settled(place: Place, frames: Frames) -> None:
    await complete(place, frames, 1)
    await acknowledge(frames, 1)
    before = await place.row()

    assert await frames.archive(older_than=NOW) == 1
    assert await place.row() == before
    assert await frames.archive(older_than=NOW) == 0
    assert await frames.read(1) is not None
    assert await frames.archive(older_than=NOW, settled=NOW) == 0
    assert await frames.read(1) is None
    copy = await place.database.fetchrow("SELECT * FROM verbworker.job_frame_archive")
    assert copy is not None
    assert {name: content for name, content in dict(copy).items() if name != "archived_at"} == before


async def test_the_archive_moves_no_more_than_its_limit_at_a_time(place: Place, frames: Frames) -> None:
    await complete(place, frames, 1, 2, 3)
    await acknowledge(frames, 1, 2, 3)

    assert [await frames.archive(older_than=NOW, settled=NOW, limit=2) for _ in range(4)] == [2, 1, 0, 0]
    assert await archived(place) == [1, 2, 3]
    assert await frames.read(1) is None


async def test_a_frame_is_kept_in_the_month_of_its_acknowledgement(place: Place, frames: Frames) -> None:
    months = {1: "2025-11-30 23:59:59Z", 2: "2025-12-01 00:00:00Z", 3: "2026-02-28 12:00:00Z"}
    await complete(place, frames, *months)
    await acknowledge(frames, *months)
    for key, month in months.items():
        await place.change(key, acked_at=f"'{month}'")

    assert await frames.archive(older_than=HOUR) == 3
    rows = await place.database.fetch(
        "SELECT tableoid::regclass::text AS month, job_key FROM verbworker.job_frame_archive"
    )
    assert {row["job_key"]: row["month"][-7:] for row in rows} == {1: "2025_11", 2: "2025_12", 3: "2026_02"}


async def test_archivers_at_one_moment_copy_each_frame_once(place: Place, frames: Frames, rival: Frames) -> None:
    await complete(place, frames, *range(1, 31))
    await acknowledge(frames, *range(1, 31))

    copied = await asyncio.gather(*(who.archive(older_than=NOW, settled=NOW) for who in (frames, rival) * 2))
    await frames.archive(older_than=NOW, settled=NOW)

    assert sum(copied) == 30
    assert await archived(place) == list(range(1, 31))


@pytest.mark.req("JOB-05", "EVO-10")
async def test_a_job_that_comes_back_after_it_was_archived_is_replayed_not_run(place: Place, frames: Frames) -> None:
    verdict = place.verdict(await claimed(frames, place.delivery()))
    await frames.pop_completed(verdict)
    await acknowledge(frames, 1)
    await frames.archive(older_than=NOW)
    await frames.archive(older_than=NOW, settled=NOW)

    assert await frames.push(place.delivery(at=FAR)) is None
    frame = await frames.observe(1)
    assert frame is not None
    assert (frame.archived, frame.state, frame.output) == (True, FrameState.COMPLETED, verdict.output)
    assert decide(frame, make_job(at=FAR), place.instance.instance_uid, frames.owner) is FrameStep.REPLAY


async def test_a_stranger_under_an_archived_key_gets_a_frame_of_its_own(place: Place, frames: Frames) -> None:
    await complete(place, frames, 1)
    await acknowledge(frames, 1)
    await frames.archive(older_than=NOW)
    await frames.archive(older_than=NOW, settled=NOW)
    stranger = make_delivery(make_job(at=FAR))

    claim = await frames.push(stranger)

    assert claim is not None
    assert (claim.claimed_from, claim.instance) == ("new", None)
    old = await place.database.fetchrow("SELECT state::text FROM verbworker.job_frame_archive WHERE job_key = 1")
    assert old is not None
    assert old["state"] == "completed"


async def test_a_worker_told_not_to_look_into_the_archive_does_not(place: Place, frames: Frames) -> None:
    await complete(place, frames, 1)
    await acknowledge(frames, 1)
    await frames.archive(older_than=NOW)
    await frames.archive(older_than=NOW, settled=NOW)

    async with working(place.database, look_into_archive=False) as blind:
        assert (await claimed(blind, place.delivery(at=FAR))).claimed_from == "new"


@pytest.mark.req("JOB-05")
@pytest.mark.parametrize("settled", [timedelta(minutes=1), NOW], ids=["settled", "at once"])
async def test_a_push_that_began_before_the_copy_does_not_run_the_job_again(
    place: Place, frames: Frames, dsn: str, settled: timedelta
) -> None:
    await complete(place, frames, 1, 2)
    await acknowledge(frames, 2)
    async with asyncio.TaskGroup() as group, plain(dsn) as holder, holder.transaction():
        await holder.execute("SELECT 1 FROM verbworker.job_frame WHERE job_key = 1 FOR UPDATE")
        batch = [make_delivery(make_job(key, at=FAR)) for key in (1, 2)]
        pushing = group.create_task(frames._push_many(batch))
        await blocked(dsn)  # the push has its snapshot, in which nothing is archived
        await frames.archive(older_than=NOW, settled=settled)
        await frames.archive(older_than=NOW, settled=settled)

    # Were the hot row to go at once, the push would find the job in neither place: that is why it stays.
    assert (pushing.result()[1] is not None) == (settled == NOW)
