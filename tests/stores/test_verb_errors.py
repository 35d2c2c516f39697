"""What goes wrong between a transactional verb and the database: whose fault it is, and what it costs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.databases import plain
from tests.support.ledger import TABLE, Account
from tests.support.worker_boot import LooplessWorker, one_verb, opened, quick
from verbworker.contract.verb import Call, Db
from verbworker.errors import PermanentBusiness, PermanentContract, TransientExternal
from verbworker.testing.memory import JobState

PREPARE = f"{TABLE}; CREATE TABLE one (id integer PRIMARY KEY); INSERT INTO one VALUES (1)"


async def _wrong_type(db: Db) -> None:
    await db.execute("INSERT INTO ledger (amount) VALUES ($1)", "seven")


async def _wrong_count(db: Db) -> None:
    await db.execute("INSERT INTO ledger (amount) VALUES ($1)", 7, 8)


async def _two_at_once(db: Db) -> None:
    await asyncio.gather(db.fetchval("SELECT pg_sleep(0.01)"), db.fetchval("SELECT 1"))


async def _too_slow(db: Db) -> None:
    await db.fetchval("SELECT set_config('statement_timeout', '10ms', true)")
    await db.fetchval("SELECT pg_sleep(20)")


async def _not_unique(db: Db) -> None:
    await db.execute("INSERT INTO one VALUES (1)")


async def _no_such_table(db: Db) -> None:
    await db.execute("INSERT INTO nowhere VALUES (1)")


async def _unspeakable(db: Db) -> None:
    await db.execute("INSERT INTO ledger (idempotency_key) VALUES ($1)", "\ud800")


def doing(mistake: Callable[[Db], Awaitable[None]], runs: list[int], **options: Any) -> Any:
    async def work(account: Account, call: Call) -> Account:
        runs.append(call.epoch)
        await mistake(call.db)
        return account

    return one_verb(work, mode="transactional", policy=quick(), **options)


async def outcome(worker: LooplessWorker) -> list[Any]:
    """State, retries left and infrastructure runs after one delivery."""
    await worker.database.execute(PREPARE)
    await worker.start()
    job = await worker.work()
    return [await worker.column(job, name) for name in ("state", "retries_left", "infra_runs")]


@pytest.mark.req("FAIL-12")
@pytest.mark.parametrize(
    "mistake", [_wrong_type, _wrong_count, _two_at_once, _too_slow, _not_unique, _no_such_table, _unspeakable]
)
async def test_a_verbs_own_mistake_runs_once_and_costs_a_retry(dsn: str, mistake: Any) -> None:
    runs: list[int] = []
    async with opened(dsn, doing(mistake, runs)) as worker:
        assert await outcome(worker) == ["failed", 2, 0]
        assert runs == [1]


@pytest.mark.req("FAIL-01")
async def test_a_lock_somebody_else_holds_is_waited_for_again_and_costs_nothing(dsn: str) -> None:
    runs: list[int] = []
    holding, wanted, free = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def wait_for_lock(db: Db) -> None:
        await holding.wait()
        if len(runs) == 2:
            wanted.set()
            await free.wait()
        await db.fetchval("SELECT set_config('lock_timeout', '10ms', true)")
        await db.execute("SELECT pg_advisory_xact_lock(7)")

    async def hold() -> None:
        async with plain(dsn) as other:
            await other.execute("SELECT pg_advisory_lock(7)")
            holding.set()
            await wanted.wait()
            await other.execute("SELECT pg_advisory_unlock(7)")
        free.set()

    async with opened(dsn, doing(wait_for_lock, runs)) as worker, asyncio.TaskGroup() as tasks:
        tasks.create_task(hold())
        assert await outcome(worker) == ["completed", 3, 0]
        assert len(runs) == 2


ODD = "a \x00 b \ud800 c\nd \x1b[31m"


@pytest.mark.req("FAIL-04")
@pytest.mark.parametrize(
    ("error", "state"),
    [
        (TransientExternal(ODD, code=ODD), "failed"),
        (PermanentContract(ODD, code=ODD), "incident"),
        (PermanentContract("x" * 100_000), "incident"),
        (PermanentBusiness(ODD, code="NO"), "completed"),
    ],
)
@pytest.mark.parametrize("mode", ["external", "transactional"])
async def test_words_that_cannot_be_stored_do_not_hold_a_run_up(
    dsn: str, error: Exception, state: str, mode: str
) -> None:
    async def fail(account: Account) -> Account:
        raise error

    async with opened(dsn, one_verb(fail, mode=mode)) as worker, asyncio.timeout(20):
        await worker.start()
        job = await worker.work()
        (message,) = worker.known(job).messages

        assert await worker.column(job, "state") == state
        assert message.isprintable()
        assert len(message) < 2_500
        assert worker.known(job).state is not JobState.ACTIVATED
