"""A job's life on the real broker: delivered twice, taken over, merged; done once."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.support.engines import Gateway
from tests.support.ledger import EFFECTS, TABLE, Account, Provider, ledger_registry
from tests.support.models import fork
from tests.support.rig import Rig, opened
from tests.support.start import Begun, begin
from verbworker import failpoint
from verbworker.engine import Resource
from verbworker.failpoint import Point
from verbworker.frame import FrameState
from verbworker.job import PAYLOAD, PAYLOAD_HASH, Job
from verbworker.stores._sql import query
from verbworker.testing.kit import Crash

pytestmark = pytest.mark.zeebe


@pytest.fixture
def domain(unique: Callable[[str], str]) -> str:
    return unique("ledger")


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def rig(dsn: str, broker: Gateway, domain: str, provider: Provider) -> AsyncIterator[Rig]:
    async with opened(dsn, broker.address, ledger_registry(provider, domain)) as rig:
        await rig.database.execute(TABLE)
        yield rig


@pytest.fixture
async def other(dsn: str, broker: Gateway, domain: str, provider: Provider) -> AsyncIterator[Rig]:
    """Another worker on the same database and broker."""
    async with opened(dsn, broker.address, ledger_registry(provider, domain)) as rig:
        yield rig


async def started(rig: Rig, domain: str, *verbs: str) -> Begun:
    workflow = rig.registry.workflows[f"{domain}.settle"]
    await rig.deploy(workflow.process, [f"{domain}.{verb}" for verb in verbs])
    return await begin(rig.database, rig.engine, workflow, Account(amount=7).model_dump(mode="json"))


async def crash(rig: Rig, job: Job, point: Point) -> None:
    """Work a job off in a worker that dies at `point`."""

    def strike(reached: Point) -> None:
        if reached is point:
            raise Crash

    failpoint.arm(strike)
    try:
        with pytest.raises(Crash):
            await rig.executor.execute(job)
    finally:
        failpoint.arm(None)


def carried(job: Job) -> dict[str, Any]:
    return dict(json.loads(str(job.variables[PAYLOAD]))["data"])


@pytest.mark.req("JOB-05", "JOB-13", "TST-10", "EVO-05", "X-06")
async def test_a_completed_job_that_comes_again_replays_its_bytes_and_flags(
    rig: Rig, other: Rig, broker: Gateway, domain: str
) -> None:
    await started(rig, domain, "book", "annotate")
    (job,) = await rig.take(f"{domain}.book", timeout_ms=60_000)
    await crash(rig, job, Point.POPPED)
    stored = await rig.frame(job)
    broker.advance(61)

    again = await other.work(f"{domain}.book")

    (following,) = await other.take(f"{domain}.annotate")
    assert again.key == job.key
    assert again.activated_ms > job.activated_ms
    assert stored.output is not None
    assert str(following.variables[PAYLOAD]).encode() == stored.output
    assert following.variables[PAYLOAD_HASH] == stored.output_seal
    assert other.engine.completions[0][1]["orch_booked"] is True
    assert await rig.database.fetchrow(EFFECTS) == (1,)


@pytest.mark.req("M-05", "JOB-01")
async def test_a_worker_that_lost_its_lease_can_neither_write_nor_fail_the_job(
    rig: Rig, other: Rig, broker: Gateway, domain: str, provider: Provider
) -> None:
    await started(rig, domain, "annotate")
    (job,) = await rig.take(f"{domain}.annotate", timeout_ms=60_000)
    provider.hold()
    stale = asyncio.create_task(rig.executor.execute(job))
    await provider.reached.wait()
    await rig.database.execute(query("testing", "expire_leases"), "rig")
    broker.advance(61)
    (again,) = await other.take(f"{domain}.annotate")
    provider.reached.clear()
    rival = asyncio.create_task(other.executor.execute(again))
    await provider.reached.wait()

    provider.may_go_on.set()
    await asyncio.gather(stale, rival)

    frame = await rig.frame(job)
    assert (frame.state, frame.owner, frame.epoch) == (FrameState.COMPLETED, other.frames.owner, 2)
    assert rig.engine.completions == []
    assert rig.engine.failures == []
    assert [key for key, _ in other.engine.completions] == [job.key]


async def forked(rig: Rig, domain: str, left: str, right: str) -> Begun:
    workflow = rig.registry.workflows[f"{domain}.settle"]
    verbs = [f"{domain}.{verb}" for verb in (left, right, "send")]
    await rig.engine.deploy([Resource("fork.bpmn", fork(workflow.process, *verbs))])
    return await begin(rig.database, rig.engine, workflow, Account(amount=7).model_dump(mode="json"))


@pytest.mark.req("X-41", "PAY-10", "M-01")
async def test_two_branches_that_write_different_fields_both_survive(
    rig: Rig, other: Rig, domain: str, provider: Provider
) -> None:
    await forked(rig, domain, "annotate", "book")
    provider.hold()
    (slow,) = await rig.take(f"{domain}.annotate")
    running = asyncio.create_task(rig.executor.execute(slow))
    await provider.reached.wait()
    await other.work(f"{domain}.book")
    provider.may_go_on.set()
    await running

    (after,) = await rig.take(f"{domain}.send")

    assert carried(after) == {"amount": 7, "booked": True, "sent": False, "note": "seen"}


@pytest.mark.req("X-41")
async def test_a_branch_that_is_told_late_does_not_hide_what_the_other_wrote(rig: Rig, other: Rig, domain: str) -> None:
    await forked(rig, domain, "annotate", "book")
    (first,) = await rig.take(f"{domain}.annotate")
    await crash(rig, first, Point.POPPED)  # stored, but the engine hears of it last
    await other.work(f"{domain}.book")
    frame = await rig.frame(first)
    assert frame.output is not None
    await rig.engine.complete(first.key, {PAYLOAD: frame.output.decode(), PAYLOAD_HASH: str(frame.output_seal)})

    sent = await other.work(f"{domain}.send")

    assert carried(sent)["booked"] is False  # what the engine carried was the older version
    told = json.loads(other.engine.completions[-1][1][PAYLOAD])["data"]
    assert told == {"amount": 7, "booked": True, "sent": True, "note": "seen"}


@pytest.mark.req("X-41")
async def test_two_branches_that_write_the_same_field_end_in_a_contract_failure(
    rig: Rig, other: Rig, domain: str, provider: Provider
) -> None:
    await forked(rig, domain, "annotate", "overwrite")
    provider.hold()
    (left,) = await rig.take(f"{domain}.annotate")
    (right,) = await other.take(f"{domain}.overwrite")
    slow = asyncio.create_task(rig.executor.execute(left))
    await provider.reached.wait()
    provider.reached.clear()
    quick = asyncio.create_task(other.executor.execute(right))
    await provider.reached.wait()
    provider.may_go_on.set()
    await asyncio.gather(slow, quick)

    states = [(frame.state, frame.fail_code) for frame in (await rig.frame(left), await rig.frame(right))]

    assert sorted(states) == [(FrameState.COMPLETED, None), (FrameState.INCIDENT, "MergeConflict")]
