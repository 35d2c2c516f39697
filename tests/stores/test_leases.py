"""Leases on real frames: which jobs keep theirs, and what must not delay the renewal."""

import asyncio
from contextlib import ExitStack
from datetime import timedelta

from tests.support.frames import ENGINE, Place, claimed, working
from verbworker.background.poll_loop import run_all
from verbworker.job.frame import Claim
from verbworker.testing.memory import MemoryEngine
from verbworker.work.feeds.leases import Leases, RunningJob, StopReason

_TIMEOUT = 30.0
_SHORT = timedelta(milliseconds=300)


class SlowEngine(MemoryEngine):
    """An engine that lets every job go on."""

    async def extend(self, job_key: int, timeout_ms: int, *, lease_token: str | None = None) -> None:
        return


class SilentEngine(MemoryEngine):
    """An engine that takes a call and never answers, as a gateway does whose machine is frozen."""

    async def extend(self, job_key: int, timeout_ms: int, *, lease_token: str | None = None) -> None:
        await asyncio.Event().wait()


def _begin(stack: ExitStack, leases: Leases, place: Place, claim: Claim) -> RunningJob:
    return stack.enter_context(leases.keep_lease(claim, place.delivery().job, asyncio.get_running_loop().time()))


async def test_a_job_its_own_worker_took_over_beats_on_after_the_first_run_ended(place: Place) -> None:
    async with working(place.database) as frames:
        leases = Leases(frames, SlowEngine(ENGINE), engine_timeout_ms=60_000)
        with ExitStack() as first_run, ExitStack() as second_run:
            first = _begin(first_run, leases, place, await claimed(frames, place.delivery(at=1)))
            await place.expire()
            second = _begin(second_run, leases, place, await claimed(frames, place.delivery(at=2)))
            first_run.close()
            await place.expire()
            await leases.beat()

            assert first.ended is StopReason.LOST
            assert second.ended is None
            assert await place.column("lease_until > clock_timestamp()")


async def test_an_engine_that_never_answers_keeps_no_lease_from_being_extended(place: Place) -> None:
    async with working(place.database, lease=_SHORT) as frames, asyncio.TaskGroup() as tasks:
        leases = Leases(frames, SilentEngine(ENGINE), engine_timeout_ms=60_000)
        with ExitStack() as run:
            _begin(run, leases, place, await claimed(frames, place.delivery()))
            beating = tasks.create_task(run_all(leases.services))
            seen: set[object] = set()
            async with asyncio.timeout(_TIMEOUT):
                while len(seen) < 4:
                    seen.add(await place.column("lease_until"))
                    await asyncio.sleep(0.01)
            beating.cancel()

    assert len(seen) >= 4
