"""RET on real frames: what the engine did not take is sent again, and only what it took counts as told."""

import pytest

from tests.support.frames import ENGINE, Place, working
from verbworker.engine import Ask, Start
from verbworker.outcome import Completed, Thrown, Verdict
from verbworker.testing.memory import JobState, MemoryEngine
from verbworker.work.returns import Returns

COMPLETED = Completed(b'{"step":1}', "sha256:0")
THROWN = Thrown("REJECTED", "the reviewer said no")


async def _offered(engine: MemoryEngine) -> int:
    engine.line("kyc", ["kyc.check"])
    await engine.start(Start("kyc", {}))
    (job,) = await engine.activate(Ask("kyc.check", "tests", 60_000, ()), 1, 0)
    return job.key


@pytest.mark.req("FAIL-06", "TST-11", "EVO-02")
@pytest.mark.parametrize("fault", [MemoryEngine.refuse, MemoryEngine.drop], ids=["too busy", "away"])
@pytest.mark.parametrize(
    ("verdict", "command", "state"),
    [(COMPLETED, "complete", JobState.COMPLETED), (THROWN, "throw", JobState.THROWN)],
    ids=["complete", "throw"],
)
async def test_a_verdict_the_engine_did_not_take_is_sent_again(
    place: Place, fault: object, verdict: Verdict, command: str, state: JobState
) -> None:
    engine = MemoryEngine(ENGINE)
    key = await _offered(engine)
    assert callable(fault)
    fault(engine, command, 2)
    async with working(place.database) as frames:
        told = await Returns(engine, frames).verdict(key, verdict)

    assert told
    assert engine.jobs[key].state is state


@pytest.mark.req("FAIL-06")
async def test_a_failure_the_engine_did_not_take_is_sent_again(place: Place) -> None:
    engine = MemoryEngine(ENGINE)
    key = await _offered(engine)
    engine.refuse("fail", 2)
    async with working(place.database) as frames:
        await Returns(engine, frames).report(key, 1, retries=2, delay=0.0, message="no answer")

    assert (engine.jobs[key].job.retries, engine.jobs[key].messages) == (2, ["no answer"])
