"""A connection that breaks around a write: what happened is looked up, and nothing happens twice."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

import pytest
from pydantic import SecretStr

from tests.support.ledger import EFFECTS, TABLE, Account
from tests.support.proxy import When, proxied
from tests.support.worker_boot import LooplessWorker, one_verb, opened, quick
from verbworker import metrics
from verbworker.app.settings import Settings
from verbworker.app.wiring import verb_pool
from verbworker.contract.verb import Call
from verbworker.errors import (
    PermanentBusiness,
    PermanentContract,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    TransientExternal,
    TransientInfrastructure,
)
from verbworker.job.frame import Claim, FrameState
from verbworker.job.outcome import Incident, Retry, Thrown, Yielded
from verbworker.stores.database import plan_by_key
from verbworker.stores.jobs.frames import Frames, VerdictRow
from verbworker.testing.memory import JobState

T = TypeVar("T")
BOOK = "INSERT INTO ledger (epoch) VALUES ($1)"


async def effects(worker: LooplessWorker) -> int:
    row: Any = await worker.database.fetchrow(EFFECTS)
    return int(row[0])


def ambiguous(found: str) -> float:
    labels = {"verb": "desk.act", "found": found}
    return metrics.REGISTRY.get_sample_value("verbworker_ambiguous_commits_total", labels) or 0.0


async def book(account: Account, call: Call) -> Account:
    """Book once per run; the sum in the case tells how often."""
    await call.db.execute(BOOK, call.epoch)
    account.amount += 1
    return account


@pytest.mark.req("JOB-13")
async def test_a_verb_may_think_in_its_transaction_as_long_as_its_policy_lets_it(dsn: str) -> None:
    registry = one_verb(book, mode="transactional")
    settings = Settings(dsn=SecretStr(dsn), lease=timedelta(milliseconds=100))
    async with verb_pool(settings, registry) as database, database.transaction() as connection:
        await connection.fetchval("SELECT 1")
        await asyncio.sleep(0.4)
        assert await connection.fetchval("SELECT 1") == 1
        await plan_by_key(connection)
        shown = await connection.fetchval("SHOW idle_in_transaction_session_timeout")

    assert shown == "5s", "what follows the verb is ours, and a worker that freezes there holds locks of ours"


# ---- the verb's own transaction ------------------------------------------------------------------------------------


@pytest.mark.req("JOB-13", "EVO-01")
@pytest.mark.parametrize(("when", "found"), [("before", "started"), ("after", "completed")])
async def test_a_commit_whose_answer_is_lost_is_looked_up_and_the_effect_happens_once(
    dsn: str, when: When, found: str
) -> None:
    counted = ambiguous(found)
    async with proxied(dsn) as proxy, opened(dsn, one_verb(book, mode="transactional"), verbs_dsn=proxy.dsn) as worker:
        await worker.database.execute(TABLE)
        job = await worker.begun()
        proxy.cut("COMMIT", when)
        await worker.executor.execute(job)

        assert proxy.cuts == 1
        assert ambiguous(found) == counted + 1
        assert await effects(worker) == 1
        assert (await worker.column(job, "runs"), await worker.column(job, "epoch")) == (1, 1)
        assert worker.known(job).state is JobState.COMPLETED
        assert '"amount":1' in str(worker.known(job).variables["domain_payload"])


@pytest.mark.req("FAIL-01")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_connection_that_breaks_under_the_verb_costs_no_retry(dsn: str, when: When) -> None:
    async with proxied(dsn) as proxy, opened(dsn, one_verb(book, mode="transactional"), verbs_dsn=proxy.dsn) as worker:
        await worker.database.execute(TABLE)
        job = await worker.begun()
        proxy.cut("INSERT INTO ledger", when)
        await worker.executor.execute(job)

        assert proxy.cuts == 1
        assert (await effects(worker), await worker.column(job, "retries_left")) == (1, 3)
        assert worker.known(job).state is JobState.COMPLETED
        assert '"amount":1' in str(worker.known(job).variables["domain_payload"])


@pytest.mark.req("FAIL-01")
async def test_a_verb_that_ignores_its_limit_until_its_session_is_ended_costs_a_retry(dsn: str) -> None:
    entered: list[int] = []

    async def ignore(account: Account, call: Call) -> Account:
        await call.db.execute(BOOK, call.epoch)
        entered.append(await call.db.fetchval("SELECT pg_backend_pid()"))
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await worker.database.execute("SELECT pg_terminate_backend($1)", entered[-1])
        return account

    policy = quick(start_to_close_timeout_seconds=0.2)
    async with opened(dsn, one_verb(ignore, mode="transactional", policy=policy)) as worker:
        await worker.database.execute(TABLE)
        job = await worker.begun()
        await worker.executor.execute(job)

        assert len(entered) == 1
        assert (await effects(worker), await worker.column(job, "state")) == (0, "failed")
        assert await worker.column(job, "retries_left") == policy.retry.maximum_attempts - 1


@pytest.mark.req("FAIL-01", "EVO-01")
async def test_a_session_that_is_terminated_inside_the_verb_is_run_again_in_the_same_run(dsn: str) -> None:
    sessions: list[int] = []

    async def killed_once(account: Account, call: Call) -> Account:
        await call.db.execute(BOOK, call.epoch)
        sessions.append(await call.db.fetchval("SELECT pg_backend_pid()"))
        if len(sessions) == 1:
            await call.db.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return account

    async with opened(dsn, one_verb(killed_once, mode="transactional")) as worker:
        await worker.database.execute(TABLE)
        job = await worker.begun()
        await worker.executor.execute(job)

        assert len(sessions) == 2
        assert (await effects(worker), await worker.column(job, "runs")) == (1, 1)
        assert worker.known(job).state is JobState.COMPLETED


async def test_a_worker_that_lost_its_session_and_its_frame_says_nothing(dsn: str) -> None:
    registry_of: list[LooplessWorker] = []

    async def lose_everything(account: Account, call: Call) -> Account:
        (worker,) = registry_of
        (job,) = [known.job for known in worker.engine.jobs.values()]
        await worker.change(job, "epoch = epoch + 1, owner = gen_random_uuid()")
        await call.db.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return account

    async with opened(dsn, one_verb(lose_everything, mode="transactional")) as worker:
        registry_of.append(worker)
        job = await worker.begun()
        await worker.executor.execute(job)

        assert (await worker.column(job, "state"), await worker.column(job, "epoch")) == ("started", 2)
        assert (worker.engine.failures, worker.known(job).state) == ([], JobState.ACTIVATED)
        assert await worker.story(job) == ["fenced"]


def colliding(times: int) -> Any:
    runs: list[int] = []

    async def collide(account: Account, call: Call) -> Account:
        booked = await book(account, call)
        runs.append(call.epoch)
        if len(runs) <= times:
            await call.db.execute("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'serialization_failure'; END $$")
        return booked

    return one_verb(collide, mode="transactional", policy=quick())


@pytest.mark.req("FAIL-01")
async def test_a_transaction_that_collided_runs_again_on_the_case_as_it_came(dsn: str) -> None:
    async with opened(dsn, colliding(3)) as worker:
        await worker.database.execute(TABLE)
        job = await worker.begun()
        await worker.executor.execute(job)

        assert (await effects(worker), await worker.column(job, "runs")) == (1, 1)
        assert '"amount":1' in str(worker.known(job).variables["domain_payload"])


@pytest.mark.req("FAIL-01")
async def test_a_transaction_that_collides_again_and_again_is_given_back(dsn: str) -> None:
    async with opened(dsn, colliding(5)) as worker:
        await worker.database.execute(TABLE)
        await worker.start()
        job = await worker.work()
        given_back = (
            await worker.column(job, "state"),
            await worker.column(job, "infra_runs"),
            worker.known(job).job.retries,
        )
        await worker.later()
        await worker.work()

        assert given_back == ("failed", 1, 3)
        assert (await effects(worker), worker.known(job).state) == (1, JobState.COMPLETED)


# ---- what is stored by itself --------------------------------------------------------------------------------------


class LossyFrames(Frames):
    """Frames whose first write of an outcome fails as the test wants: lost on the way there, or on the way back."""

    error: ClassVar[StoreError | None] = None
    happens: ClassVar[bool] = True

    async def _lossy(self, write: Coroutine[Any, Any, T]) -> T:
        error = type(self).error
        if error is None:
            return await write
        type(self).error = None
        if self.happens:
            await write
        else:
            write.close()
        raise error

    async def pop_completed(self, verdict: VerdictRow) -> bool:
        return await self._lossy(super().pop_completed(verdict))

    async def pop_thrown(self, claim: Claim, thrown: Thrown) -> None:
        await self._lossy(super().pop_thrown(claim, thrown))

    async def pop_failed(self, claim: Claim, retry: Retry) -> int:
        return await self._lossy(super().pop_failed(claim, retry))

    async def pop_incident(self, claim: Claim, incident: Incident) -> None:
        await self._lossy(super().pop_incident(claim, incident))

    async def pop_yielded(self, claim: Claim, yielded: Yielded) -> int | None:
        return await self._lossy(super().pop_yielded(claim, yielded))


def lossy(error: StoreError, *, happens: bool) -> type[LossyFrames]:
    return type("OneLoss", (LossyFrames,), {"error": error, "happens": happens})


def ending(error: Exception | None, calls: list[str], **options: Any) -> Any:
    async def end(account: Account, call: Call) -> Account:
        calls.append(call.idempotency_key)
        if error is not None:
            raise error
        return account.model_copy(update={"sent": True})

    return one_verb(end, **options)


ENDS: list[tuple[Exception | None, str, JobState, int]] = [
    (None, "completed", JobState.COMPLETED, 3),
    (PermanentBusiness("no", code="NO"), "completed", JobState.THROWN, 3),
    (TransientExternal("away"), "failed", JobState.BACKING_OFF, 2),
    (PermanentContract("wrong"), "incident", JobState.INCIDENT, 0),
    (TransientInfrastructure("cold"), "failed", JobState.BACKING_OFF, 3),
]


@pytest.mark.req("JOB-13", "EVO-03")
@pytest.mark.parametrize("happens", [True, False], ids=["answer lost", "never arrived"])
@pytest.mark.parametrize(("error", "state", "known", "retries"), ENDS)
async def test_an_outcome_whose_write_was_in_doubt_is_stored_once_and_told(
    dsn: str, happens: bool, error: Exception | None, state: str, known: JobState, retries: int
) -> None:
    calls: list[str] = []
    frames = lossy(StoreUnavailable("the connection broke"), happens=happens)
    async with opened(dsn, ending(error, calls), frames_type=frames) as worker:
        await worker.start()
        job = await worker.work()

        assert frames.error is None
        assert len(calls) == 1
        assert (await worker.column(job, "state"), worker.known(job).state) == (state, known)
        assert worker.known(job).job.retries == retries


@pytest.mark.parametrize("error", [None, TransientExternal("away")])
async def test_an_outcome_that_collided_with_another_write_is_written_again_and_the_verb_is_not(
    dsn: str, error: Exception | None
) -> None:
    calls: list[str] = []
    async with opened(
        dsn, ending(error, calls), frames_type=lossy(StoreConflict("deadlock detected"), happens=False)
    ) as worker:
        await worker.start()
        job = await worker.work()

        assert len(calls) == 1
        assert await worker.column(job, "state") == ("completed" if error is None else "failed")
        assert await worker.column(job, "infra_runs") == 0


@pytest.mark.parametrize(("on_unknown", "state"), [("hold", "incident"), ("rerun", "failed")])
async def test_a_call_whose_answer_cannot_be_stored_counts_as_unknown(dsn: str, on_unknown: str, state: str) -> None:
    calls: list[str] = []
    registry = ending(None, calls, on_unknown=on_unknown)
    async with opened(dsn, registry, frames_type=lossy(StoreError("refused"), happens=False)) as worker:
        await worker.start()
        job = await worker.work()

        assert (len(calls), await worker.column(job, "state")) == (1, state)
        assert await worker.column(job, "fail_code") == ("OutcomeUnknown" if state == "incident" else "NotStored")


# ---- before the frame ----------------------------------------------------------------------------------------------


class AbsentFrames(Frames):
    """Frames whose claims never arrive."""

    error: StoreError = StoreUnavailable("away")

    async def push(self, delivery: Any) -> Claim | None:
        raise self.error


@pytest.mark.req("JOB-12")
@pytest.mark.parametrize("error", [StoreUnavailable("away"), StoreConflict("deadlock")])
async def test_without_a_frame_the_verb_does_not_run_and_the_job_is_given_back(dsn: str, error: StoreError) -> None:
    calls: list[str] = []
    absent = type("Absent", (AbsentFrames,), {"error": error})
    async with opened(dsn, ending(None, calls), frames_type=absent) as worker:
        await worker.start()
        job = await worker.deliver()
        await worker.executor.execute(replace(job, timeout_ms=0))

        assert (calls, await worker.column(job, "state")) == ([], None)
        # A timeout may be lost; a job that is failed with its retries is handed out at once.
        assert worker.engine.extended == []
        assert worker.engine.failures == [(job.key, job.retries, "given back: the database is away")]


class BuggyFrames(Frames):
    """Frames with a bug in them."""

    async def push(self, delivery: Any) -> Claim | None:
        raise ZeroDivisionError


async def test_a_bug_of_ours_ends_one_delivery_and_is_logged(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(dsn, ending(None, []), frames_type=BuggyFrames) as worker:
        await worker.start()
        job = await worker.work()

        assert worker.known(job).state is JobState.ACTIVATED
        assert "job failed with an unexpected error" in caplog.text


# ---- a database that is away ---------------------------------------------------------------------------------------


class Pause:
    """Where a verb stands still, and how often it was there."""

    def __init__(self) -> None:
        self.calls = 0
        self.reached = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def stand(self) -> None:
        self.calls += 1
        self.reached.set()
        await self.may_go_on.wait()


class WaitingFrames(Frames):
    """Frames that tell when the database was missed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.missed = asyncio.Event()

    async def settle(self, claim: Claim) -> FrameState:
        try:
            return await super().settle(claim)
        except StoreUnavailable:
            self.missed.set()
            raise


async def missed(worker: LooplessWorker) -> None:
    """Return when the database was asked in vain what had happened."""
    assert isinstance(worker.frames, WaitingFrames)
    await worker.frames.missed.wait()


@pytest.mark.req("FAIL-01", "JOB-13")
async def test_what_was_done_while_the_database_was_away_is_stored_when_it_is_back(dsn: str) -> None:
    pause = Pause()

    async def send(account: Account) -> Account:
        await pause.stand()
        return account.model_copy(update={"sent": True})

    async with (
        proxied(dsn) as proxy,
        opened(proxy.dsn, one_verb(send), frames_type=WaitingFrames) as worker,
        asyncio.TaskGroup() as tasks,
    ):
        job = await worker.begun()
        task = tasks.create_task(worker.executor.execute(job))
        await pause.reached.wait()
        proxy.go_away()
        with pytest.raises(StoreUnavailable):
            await worker.leases.beat()
        pause.may_go_on.set()
        await missed(worker)
        await proxy.come()
        await task

        assert (pause.calls, await worker.column(job, "epoch")) == (1, 1)
        assert worker.known(job).state is JobState.COMPLETED


@pytest.mark.req("FAIL-01", "EVO-01")
async def test_a_transaction_the_database_took_away_runs_again_when_it_is_back(dsn: str) -> None:
    pause = Pause()

    async def stand_and_book(account: Account, call: Call) -> Account:
        booked = await book(account, call)
        await pause.stand()
        return booked

    registry = one_verb(stand_and_book, mode="transactional")
    async with (
        proxied(dsn) as proxy,
        opened(proxy.dsn, registry, frames_type=WaitingFrames) as worker,
        asyncio.TaskGroup() as tasks,
    ):
        await worker.database.execute(TABLE)
        job = await worker.begun()
        task = tasks.create_task(worker.executor.execute(job))
        await pause.reached.wait()
        proxy.go_away()
        pause.may_go_on.set()
        await missed(worker)
        await proxy.come()
        await task

        assert (await effects(worker), pause.calls) == (1, 2)
        assert (await worker.column(job, "runs"), await worker.column(job, "retries_left")) == (1, 3)
        assert worker.known(job).state is JobState.COMPLETED
