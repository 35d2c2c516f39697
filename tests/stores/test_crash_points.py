"""A worker that dies anywhere in a job's life: the effect happens once, the answer is the same."""

from collections.abc import AsyncIterator

import pytest

from tests.support.ledger import EFFECTS, TABLE, Account, Provider, ledger_registry
from verbworker.job.failpoint import Point
from verbworker.testing.kit import Kit
from verbworker.testing.memory import JobState

pytest_plugins: list[str] = []
POINTS = pytest.mark.parametrize("point", [None, *Point])


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def kit(dsn: str, provider: Provider) -> AsyncIterator[Kit]:
    async with Kit.open(dsn, ledger_registry(provider)) as opened:
        await opened.database.execute(TABLE)
        yield opened


@POINTS
@pytest.mark.req("JOB-01", "JOB-04", "JOB-05", "JOB-13", "JOB-15", "TST-05", "TST-10", "X-08", "EVO-01", "EVO-02")
async def test_a_transactional_effect_happens_once_wherever_its_worker_dies(kit: Kit, point: Point | None) -> None:
    ran = await kit.run("ledger.book", Account(amount=7), crash_at=point)

    assert ran.state is JobState.COMPLETED
    assert await kit.database.fetchrow(EFFECTS) == (1,)
    assert ran.data == {"amount": 7, "booked": True, "sent": False, "note": ""}
    assert ran.flags == {"orch_booked": True}


@POINTS
@pytest.mark.req("JOB-06", "X-07", "X-08")
async def test_an_external_call_carries_one_key_wherever_its_worker_dies(
    kit: Kit, provider: Provider, point: Point | None
) -> None:
    ran = await kit.run("ledger.send", Account(amount=7), crash_at=point)

    assert ran.state is JobState.COMPLETED
    assert len(provider.effects) == 1
    assert set(provider.calls) == provider.effects
    assert len(provider.calls) == (2 if point is Point.PERFORMED else 1)
    assert ran.data["sent"] is True


@POINTS
@pytest.mark.req("FAIL-01", "FAIL-02", "FAIL-09", "FAIL-10", "EVO-03")
async def test_a_failing_verb_is_retried_under_one_key(kit: Kit, provider: Provider, point: Point | None) -> None:
    ran = await kit.run("ledger.flaky", Account(), crash_at=point)

    assert ran.state is JobState.COMPLETED
    assert len(provider.effects) == 1
    assert all("ProviderAway" in message for message in ran.messages)


@POINTS
@pytest.mark.req("FAIL-01", "EVO-11")
async def test_a_business_no_is_thrown_with_its_code_and_rolls_back(kit: Kit, point: Point | None) -> None:
    ran = await kit.run("ledger.refuse", Account(), crash_at=point)

    assert (ran.state, ran.error_code) == (JobState.THROWN, "ACCOUNT_CLOSED")
    assert await kit.database.fetchrow(EFFECTS) == (0,)
