"""A job's life on real engines: taken over, merged; done once."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tests.support.engines import Gateway
from tests.support.job_life import carried, forked, started
from tests.support.ledger import TABLE, Provider, ledger_registry
from tests.support.rig import Rig, opened
from verbworker.job.frame import FrameState
from verbworker.stores.sql import query

ON = ("embedded", "zeebe", "zeebe-rest")


@pytest.fixture
def domain(unique: Callable[[str], str]) -> str:
    return unique("ledger")


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def rig(dsn: str, gateway: Gateway, domain: str, provider: Provider) -> AsyncIterator[Rig]:
    async with opened(dsn, gateway.address, ledger_registry(provider, domain)) as rig:
        await rig.database.execute(TABLE)
        yield rig


@pytest.fixture
async def other(dsn: str, gateway: Gateway, domain: str, provider: Provider) -> AsyncIterator[Rig]:
    """Another worker on the same database and broker."""
    async with opened(dsn, gateway.address, ledger_registry(provider, domain)) as rig:
        yield rig


@pytest.mark.req("M-05", "JOB-01")
async def test_a_worker_that_lost_its_lease_can_neither_write_nor_fail_the_job(
    rig: Rig, other: Rig, gateway: Gateway, domain: str, provider: Provider
) -> None:
    await started(rig, domain, "annotate")
    (job,) = await rig.take(f"{domain}.annotate", timeout_ms=60_000)
    provider.hold()
    stale = asyncio.create_task(rig.executor.execute(job))
    await provider.reached.wait()
    await rig.database.execute(query("testing", "expire_leases"), "rig")
    await asyncio.to_thread(gateway.advance, 61)
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
