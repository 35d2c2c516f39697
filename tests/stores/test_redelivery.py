"""Deliveries of a job that is done: sent again without harm, and an alarm only when there is reason for one."""

import pytest

from tests.support.frames import ENGINE, FAR, Place, claimed, working
from verbworker.job.frame import Delivery
from verbworker.job.outcome import Retry
from verbworker.payload.boundary import JobVariables
from verbworker.testing.memory import MemoryEngine
from verbworker.work.jobs.verdicts import JobResults, Redelivery


@pytest.mark.req("JOB-05")
@pytest.mark.parametrize(("at", "alarms"), [(1, 0), (FAR, 1)], ids=["a delivery that lay about", "a restored engine"])
async def test_only_a_job_activated_after_its_acknowledgement_came_back(
    place: Place, caplog: pytest.LogCaptureFixture, at: int, alarms: int
) -> None:
    async with working(place.database) as frames:
        await frames.pop_completed(place.verdict(await claimed(frames, place.delivery(at=1))))
        frames.acknowledge(1, "ok")
        await frames.flush()
        engine = MemoryEngine(ENGINE)
        delivery = place.delivery(at=at)

        claim = await Redelivery(frames, engine, JobResults(engine, frames)).settle(
            delivery, JobVariables.of(delivery.job)
        )

    assert claim is None
    assert sum("came back" in record.message for record in caplog.records) == alarms


async def test_a_delivery_that_loses_every_race_leaves_a_note(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async with working(place.database) as frames:
        claim = await claimed(frames, place.delivery(at=1))
        await frames.pop_failed(claim, Retry("TransientExternal", "Away", "no answer", 0.0))
        engine = MemoryEngine(ENGINE)
        delivery = place.delivery(at=2)

        async def lose(delivery: Delivery) -> None:
            """As when another worker is always a moment earlier."""

        monkeypatch.setattr(frames, "push", lose)
        claim_again = await Redelivery(frames, engine, JobResults(engine, frames)).settle(
            delivery, JobVariables.of(delivery.job)
        )
        rows = await place.database.fetch("SELECT kind FROM verbworker.frame_event ORDER BY at")

    assert claim_again is None
    assert [row["kind"] for row in rows][-1] == "outpaced"
