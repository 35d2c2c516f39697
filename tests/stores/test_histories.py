"""Histories: every write that is out of the ordinary leaves its event, and the ordinary path leaves none."""

from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from tests.support.frames import ENGINE, FAR, INCIDENT, RETRY, THROWN, YIELD, Place, claimed, standing
from verbworker.app.explain import explain
from verbworker.job.frame import FrameState
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.histories import Histories, History


@pytest.fixture
def histories(place: Place) -> Histories:
    return Histories(place.database, engine_id=ENGINE)


async def read(histories: Histories, key: int = 1) -> History:
    """A history that must exist."""
    history = await histories.read(key)
    assert history is not None
    return history


def kinds(history: History) -> list[tuple[str, int | None]]:
    """What happened, and to which epoch."""
    return [(event.kind, event.epoch) for event in history.events]


async def test_a_job_nobody_pushed_has_no_history(histories: Histories) -> None:
    assert await histories.read(404) is None


@pytest.mark.req("JOB-10")
async def test_one_delivery_one_run_and_one_answer_leave_no_event(
    place: Place, frames: Frames, histories: Histories
) -> None:
    claim = await claimed(frames, place.delivery())
    await frames.pop_completed(place.verdict(claim))
    frames.acknowledge(1, "ok")
    await frames.flush()

    history = await read(histories)

    assert history.events == ()
    assert (history.frame.state, history.frame.ack_result, history.frame.flags) == (
        FrameState.COMPLETED,
        "ok",
        {"orch_step": 1},
    )
    assert len(explain(history)) == 4


async def test_a_takeover_tells_whose_lease_had_run_out(
    place: Place, frames: Frames, rival: Frames, histories: Histories
) -> None:
    await frames.boot(name="ann", host="a", pid=11)
    await rival.boot(name="bob", host="b", pid=22)
    await claimed(frames, place.delivery(at=1))
    await place.expire()
    ended = await place.column("lease_until")
    await claimed(rival, place.delivery(at=2))

    history = await read(histories)

    (event,) = history.events
    assert (event.kind, event.epoch, event.owner) == ("takeover", 2, rival.owner)
    assert (event.facts["run"], event.facts["from"]) == (2, str(frames.owner))
    # Compared as a time: Postgres leaves out the last zeros of its microseconds.
    assert datetime.fromisoformat(str(event.facts["lease_until"])) == ended
    assert history.boots == {frames.owner: "ann (host a, pid 11)", rival.owner: "bob (host b, pid 22)"}


async def test_two_takeovers_tell_both_owners_before(
    place: Place, frames: Frames, rival: Frames, histories: Histories
) -> None:
    for at, owner in enumerate((frames, rival, frames), start=1):
        await claimed(owner, place.delivery(at=at))
        await place.expire()

    history = await read(histories)

    assert [event.facts["from"] for event in history.events] == [str(frames.owner), str(rival.owner)]


@pytest.mark.req("FAIL-10")
async def test_every_failure_of_every_run_is_kept(place: Place, frames: Frames, histories: Histories) -> None:
    first = await claimed(frames, place.delivery(at=1))
    await frames.pop_failed(first, RETRY)
    await frames.record_report(1, first.epoch)
    second = await claimed(frames, place.delivery(at=2))
    await frames.pop_yielded(second, YIELD)
    third = await claimed(frames, place.delivery(at=3))
    await frames.pop_incident(third, INCIDENT)
    await frames.record_report(1, third.epoch)

    history = await read(histories)

    assert kinds(history) == [
        ("failed", 1),
        ("reported", 1),
        ("retry", 2),
        ("yielded", 2),
        ("retry", 3),
        ("incident", 3),
        ("reported", 3),
    ]
    failed, reported, *_, incident, told = history.events
    assert {name: failed.facts[name] for name in ("class", "code", "text", "retries_left")} == {
        "class": RETRY.kind,
        "code": RETRY.code,
        "text": RETRY.message,
        "retries_left": 2,
    }
    assert (incident.facts["code"], reported.facts, told.facts) == (
        INCIDENT.code,
        {"state": "failed"},
        {"state": "incident"},
    )


async def test_a_fenced_write_leaves_no_event(
    place: Place, frames: Frames, rival: Frames, histories: Histories
) -> None:
    claim = await claimed(frames, place.delivery(at=1))
    await place.expire()
    await claimed(rival, place.delivery(at=2))
    with pytest.raises(Exception, match="claimed by another worker"):
        await frames.pop_failed(claim, RETRY)
    await frames.record_report(1, claim.epoch)

    assert kinds(await read(histories)) == [("takeover", 2)]


async def test_a_frame_held_for_its_vanished_owner_tells_of_that_owner(
    place: Place, frames: Frames, rival: Frames, histories: Histories
) -> None:
    await claimed(frames, place.delivery(at=1))
    await place.expire()
    await rival.hold(await standing(rival), 2, code="CrashLoop", message="never answered")

    (event,) = (await read(histories)).events

    assert (event.kind, event.epoch, event.owner) == ("held", 2, rival.owner)
    assert {name: event.facts[name] for name in ("code", "text", "from", "runs")} == {
        "code": "CrashLoop",
        "text": "never answered",
        "from": str(frames.owner),
        "runs": 1,
    }


async def test_a_release_is_kept_with_who_and_why(place: Place, frames: Frames, histories: Histories) -> None:
    claim = await claimed(frames, place.delivery(at=1))
    await frames.pop_incident(claim, INCIDENT)
    await frames.release(await standing(frames), retries=2, new_key="other", by="eve", reason="it is mended")

    event = (await read(histories)).events[-1]

    assert (event.kind, event.owner) == ("released", None)
    assert event.facts == {"by": "eve", "reason": "it is mended", "retries_left": 2, "as_new": True}


async def test_a_release_in_the_engine_is_told_apart(place: Place, frames: Frames, histories: Histories) -> None:
    claim = await claimed(frames, place.delivery(at=1))
    await frames.pop_incident(claim, INCIDENT)
    await frames.record_report(1, claim.epoch)
    await claimed(frames, place.delivery(at=FAR))

    assert kinds(await read(histories))[-1] == ("release", 2)


async def test_a_strange_delivery_has_its_moment(place: Place, frames: Frames, histories: Histories) -> None:
    await claimed(frames, place.delivery())
    await frames.quarantine(1, {"instance_uid": str(uuid4())})

    history = await read(histories)

    assert len(history.conflicts) == 1


async def test_an_archived_frame_keeps_its_story(place: Place, frames: Frames, histories: Histories) -> None:
    claim = await claimed(frames, place.delivery())
    await frames.pop_thrown(claim, THROWN)
    frames.acknowledge(1, "gone")
    await frames.flush()
    await frames.note(1, "replay", epoch=1)
    await frames.archive(older_than=timedelta(0))
    await frames.archive(older_than=timedelta(0), settled=timedelta(0))

    history = await read(histories)

    assert await place.column("job_key") is None
    assert (history.frame.archived, history.frame.error_code, kinds(history)) == (True, THROWN.code, [("replay", 1)])


async def test_frames_are_listed_by_state_those_that_wait_longest_first(
    place: Place, frames: Frames, histories: Histories
) -> None:
    for key in (3, 1, 2):
        claim = await claimed(frames, place.delivery(key))
        await frames.pop_incident(claim, INCIDENT)
    await claimed(frames, place.delivery(4))

    held = await histories.list(FrameState.INCIDENT, limit=2)

    assert [row["job_key"] for row in held] == [3, 1]
    assert [row["job_key"] for row in await histories.list(FrameState.STARTED, limit=9)] == [4]


async def test_a_history_belongs_to_its_engine(place: Place, frames: Frames) -> None:
    await claimed(frames, place.delivery())

    assert await Histories(place.database, engine_id="another").read(1) is None
