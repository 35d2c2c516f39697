"""A job that was stored before its engine heard of it: another worker tells what was stored."""

import json
from collections.abc import AsyncIterator, Callable

import pytest

from tests.support.engines import Gateway
from tests.support.job_life import carried, crash, forked, started
from tests.support.ledger import EFFECTS, TABLE, Provider, ledger_registry
from tests.support.rig import Rig, opened
from verbworker.job.failpoint import Point
from verbworker.job.job import PAYLOAD, PAYLOAD_HASH
from verbworker.job.outcome import JobResult

ON = ("zeebe", "zeebe-rest")  # an engine in the verbs' own database hears of it by the same commit


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


@pytest.mark.req("JOB-05", "JOB-13", "TST-10", "EVO-05", "X-06")
async def test_a_completed_job_that_comes_again_replays_its_bytes_and_flags(
    rig: Rig, other: Rig, gateway: Gateway, domain: str
) -> None:
    await started(rig, domain, "book", "annotate")
    (job,) = await rig.take(f"{domain}.book", timeout_ms=60_000)
    await crash(rig, job, Point.POPPED)
    stored = await rig.frame(job)
    gateway.advance(61)

    again = await other.work(f"{domain}.book")

    (following,) = await other.take(f"{domain}.annotate")
    assert again.key == job.key
    assert again.activated_ms > job.activated_ms
    assert stored.output is not None
    assert str(following.variables[PAYLOAD]).encode() == stored.output
    assert following.variables[PAYLOAD_HASH] == stored.output_seal
    assert other.engine.completions[0][1]["orch_booked"] is True
    assert await rig.database.fetchrow(EFFECTS) == (1,)


@pytest.mark.req("X-41")
async def test_a_branch_that_is_told_late_does_not_hide_what_the_other_wrote(rig: Rig, other: Rig, domain: str) -> None:
    await forked(rig, domain, "annotate", "book")
    (first,) = await rig.take(f"{domain}.annotate")
    await crash(rig, first, Point.POPPED)  # stored, but the engine hears of it last
    await other.work(f"{domain}.book")
    frame = await rig.frame(first)
    assert frame.output is not None
    await rig.engine.complete(first.key, JobResult(frame.output, str(frame.output_seal)))

    sent = await other.work(f"{domain}.send")

    assert carried(sent)["booked"] is False  # what the engine carried was the older version
    told = json.loads(other.engine.completions[-1][1][PAYLOAD])["data"]
    assert told == {"amount": 7, "booked": True, "sent": True, "note": "seen"}
