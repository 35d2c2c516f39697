"""Releases: the frame first, then the engine; and what is left to do is said."""

import pytest

from tests.support.frames import FAR, INCIDENT, RETRY, Place, claimed, make_delivery, make_job, standing
from verbworker.engine.protocol import Start
from verbworker.job.frame import FrameState, idempotency_key
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.histories import Histories
from verbworker.testing.memory import MemoryEngine
from verbworker.work.upkeep import releases
from verbworker.work.upkeep.releases import Release, Releases


class Held:
    """A job that is held here and in the engine."""

    def __init__(self, frames: Frames, place: Place, engine: MemoryEngine, key: int) -> None:
        self.frames, self.place, self.engine, self.key = frames, place, engine, key
        self.releases = Releases(frames, Histories(place.database, engine_id=frames.engine_id), engine)

    def wanted(self, *, as_new: bool = False, incident_key: int | None = None) -> Release:
        """What eve wants."""
        return Release(self.key, "eve", "it is mended", 3, as_new, incident_key)


@pytest.fixture
async def held(place: Place, frames: Frames) -> Held:
    engine = MemoryEngine(frames.engine_id)
    engine.line("kyc", ["kyc.check"])
    await engine.start(Start("kyc", {}))
    (key,) = engine.jobs
    claim = await claimed(frames, make_delivery(make_job(key), place.instance))
    await frames.pop_incident(claim, INCIDENT)
    await engine.fail(key, retries=0, message="held")
    return Held(frames, place, engine, key)


@pytest.mark.req("FAIL-05")
async def test_a_release_frees_the_frame_and_tells_the_engine(held: Held) -> None:
    answer = await held.releases.release(held.wanted(incident_key=99))

    frame = await standing(held.frames, held.key)
    assert (answer.done, frame.state, frame.runs) == (True, FrameState.FAILED, 0)
    assert answer.sentence == "the frame is released and its incident is resolved; the job runs with the next delivery"
    assert held.engine.jobs[held.key].state == "activatable"


async def test_without_the_incidents_key_the_rest_is_left_to_the_person(held: Held) -> None:
    answer = await held.releases.release(held.wanted())

    assert (answer.done, "resolve its incident in the engine" in answer.sentence) == (True, True)


async def test_an_entry_shows_a_released_job_until_the_engine_hands_it_out(
    held: Held,
) -> None:
    runbook, entry_id = Runbook(held.place.database), held.place.instance.entry_id
    before = await runbook.waiting_releases(entry_id)
    await held.releases.release(held.wanted())
    (waiting,) = await runbook.waiting_releases(entry_id)
    await claimed(held.frames, make_delivery(make_job(held.key, at=FAR), held.place.instance))

    assert (before, waiting.verb, waiting.job_key) == ([], "kyc.check", held.key)
    assert "resolve it in the engine" in waiting.words
    assert await runbook.waiting_releases(entry_id) == []


@pytest.mark.req("JOB-06")
async def test_a_release_keeps_the_idempotency_key(held: Held) -> None:
    before = await held.place.column("idempotency_key", held.key)

    await held.releases.release(held.wanted())

    assert await held.place.column("idempotency_key", held.key) == before


@pytest.mark.req("JOB-06")
async def test_a_release_as_new_has_the_key_of_the_next_generation(held: Held) -> None:
    await held.releases.release(held.wanted(as_new=True))

    assert await held.place.column("idempotency_key", held.key) == idempotency_key(
        held.frames.engine_id, make_job(held.key), generation=1
    )


async def test_an_engine_that_was_not_told_is_told_by_asking_again(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "_INSIST_S", 0.0)
    held.engine.drop("release")

    missed = await held.releases.release(held.wanted(incident_key=99))
    again = await held.releases.release(held.wanted(incident_key=99))

    assert (missed.done, "run this again" in missed.sentence) == (False, True)
    assert (again.done, again.sentence.startswith("the frame was released before")) == (True, True)
    assert held.engine.jobs[held.key].state == "activatable"


async def test_asking_again_as_new_does_not_make_a_second_key(held: Held) -> None:
    await held.releases.release(held.wanted(as_new=True))
    await held.releases.release(held.wanted(as_new=True))

    assert await held.place.column("generation", held.key) == 1


async def test_without_an_engine_the_frame_is_released_and_the_rest_is_said(held: Held) -> None:
    histories = Histories(held.place.database, engine_id=held.frames.engine_id)

    answer = await Releases(held.frames, histories, None).release(held.wanted())

    assert (answer.done, "resolve its incident in the engine" in answer.sentence) == (True, True)


async def test_a_job_that_is_not_held_is_not_released(held: Held, place: Place, frames: Frames) -> None:
    claim = await claimed(frames, place.delivery(7))
    await frames.pop_failed(claim, RETRY)

    answer = await held.releases.release(Release(7, "eve", "why not", 3))

    assert (answer.done, answer.sentence) == (False, "job 7 is not held: its frame is failed")


async def test_a_job_without_a_frame_is_not_released(held: Held) -> None:
    answer = await held.releases.release(Release(404, "eve", "why not", 3))

    assert (answer.done, answer.sentence) == (False, f"job 404 has no frame on engine {held.frames.engine_id}")
