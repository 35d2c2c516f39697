"""How long the engine is left alone before it is told again."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest

from tests.support.virtual_time import virtual_time
from verbworker.errors import Backpressure
from verbworker.job.outcome import JobResult
from verbworker.stores.database import Database
from verbworker.stores.jobs.frames import Frames
from verbworker.testing.memory import MemoryEngine
from verbworker.work.jobs.verdicts import JobResults


class BusyEngine(MemoryEngine):
    """An engine that is too busy for a while, and notes when it was asked."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self._refusals = refusals
        self.asked_at: list[float] = []

    async def complete(self, job_key: int, result: JobResult, *, lease_token: str | None = None) -> None:
        self.asked_at.append(asyncio.get_running_loop().time())
        if len(self.asked_at) <= self._refusals:
            raise Backpressure("too busy")


@pytest.mark.req("FAIL-06")
@virtual_time
async def test_an_engine_that_is_too_busy_is_left_alone_for_longer_and_longer() -> None:
    engine = BusyEngine(refusals=12)
    # Acknowledgements wait in memory until they are flushed, so nothing is asked of this database.
    frames = Frames(Database("postgresql://nobody@127.0.0.1/nothing", size=1), engine_id="e", owner=uuid4())
    returned = await JobResults(engine, frames, timeout=timedelta(hours=1)).verdict(1, JobResult(b"{}", "sha256:0"))
    pauses = [after - before for before, after in zip(engine.asked_at, engine.asked_at[1:], strict=False)]

    assert returned
    assert 0.025 <= pauses[0] < pauses[2] < pauses[4]
    assert max(pauses) <= 5.001
