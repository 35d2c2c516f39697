"""Retries: what is repeated, how often and for how long, on virtual time."""

import asyncio

import pytest

from tests.support.virtual_time import virtual_time
from verbworker.errors import EngineUnavailable, NotFound, StoreConflict, StoreError, StoreUnavailable
from verbworker.retrying import (
    COLLISION,
    DATABASE,
    DATABASE_OR_ENGINE,
    DEPLOYMENT,
    ENGINE,
    TRANSACTION,
    VERB_TRANSACTION,
    Pauses,
    Retries,
    is_outage,
)

ERRORS = (
    StoreUnavailable("away"),
    StoreConflict("met another"),
    EngineUnavailable("away"),
    NotFound("none"),
    StoreError("refused"),
    ValueError("a bug"),
)


class Flaky:
    """Work that fails so often, then returns how often it was called."""

    def __init__(self, error: BaseException, *, times: int = 1 << 30) -> None:
        self._error = error
        self._times = times
        self.called_at: list[float] = []

    async def __call__(self) -> int:
        self.called_at.append(asyncio.get_running_loop().time())
        if len(self.called_at) <= self._times:
            raise self._error
        return len(self.called_at)


@pytest.mark.parametrize(
    ("policy", "worth"),
    [
        (DATABASE, {"StoreUnavailable", "StoreConflict"}),
        (VERB_TRANSACTION, {"StoreUnavailable", "StoreConflict"}),
        (ENGINE, {"EngineUnavailable"}),
        (DATABASE_OR_ENGINE, {"StoreUnavailable", "StoreConflict", "EngineUnavailable"}),
        (COLLISION, {"StoreConflict"}),
        (TRANSACTION, {"StoreConflict"}),
        (DEPLOYMENT, {"NotFound"}),
    ],
)
@virtual_time
async def test_a_policy_repeats_its_errors_and_no_others(policy: Retries, worth: set[str]) -> None:
    repeated = set()
    for error in ERRORS:
        try:
            assert await policy.run(Flaky(error, times=2)) == 3
        except type(error):
            continue
        repeated.add(type(error).__name__)

    assert repeated == worth


@virtual_time
async def test_pauses_double_up_to_their_cap() -> None:
    work = Flaky(StoreUnavailable("away"), times=4)
    began = asyncio.get_running_loop().time()
    await Retries(is_outage, Pauses(first=1.0, cap=4.0)).run(work)
    pauses = [later - earlier for earlier, later in zip(work.called_at, work.called_at[1:], strict=False)]

    assert work.called_at[0] == began
    assert all(longest / 2 <= pause <= longest for pause, longest in zip(pauses, (1, 2, 4, 4), strict=True))


@virtual_time
async def test_a_deadline_is_taken_from_the_loop() -> None:
    work = Flaky(EngineUnavailable("away"))
    with pytest.raises(EngineUnavailable):
        await ENGINE.run(work, within=30)

    assert 25 <= work.called_at[-1] - work.called_at[0] <= 35


@virtual_time
async def test_tries_are_counted_and_the_last_error_is_raised() -> None:
    work = Flaky(StoreConflict("met another"))
    with pytest.raises(StoreConflict, match="met another"):
        await TRANSACTION.run(work)

    assert len(work.called_at) == 8
    assert work.called_at[-1] - work.called_at[0] <= 1.3


@virtual_time
async def test_each_failure_is_reported_before_its_pause() -> None:
    error, seen = StoreUnavailable("away"), list[BaseException]()
    await DATABASE.run(Flaky(error, times=3), failed=seen.append)

    assert seen == [error] * 3


@virtual_time
async def test_a_cancelled_try_is_not_repeated() -> None:
    work = Flaky(StoreUnavailable("away"), times=1)

    async def hang() -> None:
        await work()
        await asyncio.Event().wait()

    task = asyncio.create_task(DATABASE.run(hang))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len(work.called_at) == 2
