"""Deliveries of a job that is done: sent again without harm, and an alarm only when there is reason for one."""

import pytest

from tests.support.frames import ENGINE, FAR, Place, claimed, working
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
