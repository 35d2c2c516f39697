"""The relay on real frames: what may go wrong beside the verdict without stopping it."""

from datetime import timedelta

import pytest

from tests.support.frames import ENGINE, Place, claimed, working
from verbworker.job.outcome import JobResult
from verbworker.testing.memory import MemoryEngine
from verbworker.work.jobs.verdicts import JobResults, Relay


class RecordingEngine(MemoryEngine):
    """An engine that keeps which jobs it was told to complete."""

    def __init__(self) -> None:
        super().__init__(ENGINE)
        self.completed: list[int] = []

    async def complete(self, job_key: int, result: JobResult, *, lease_token: str | None = None) -> None:
        self.completed.append(job_key)


@pytest.mark.req("EVO-02")
async def test_a_note_that_cannot_be_written_stops_no_verdict(place: Place) -> None:
    engine = RecordingEngine()
    async with working(place.database) as frames:
        await frames.pop_completed(place.verdict(await claimed(frames, place.delivery())))
        await place.database.execute("DROP TABLE verbworker.frame_event CASCADE")

        sent = await Relay(frames, JobResults(engine, frames), every=timedelta(0)).sweep()

    assert (sent, engine.completed) == (1, [1])
