"""Runs of a verb on real frames: how each ends, what the frame keeps, and what the engine is told."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from tests.support.ledger import EFFECTS, TABLE, Account
from tests.support.worker_boot import VERB, LooplessWorker, beside, one_verb, opened, quick
from verbworker.contract.verb import Call
from verbworker.errors import TransientExternal, TransientInfrastructure
from verbworker.job.failpoint import Point
from verbworker.job.frame import FrameState
from verbworker.job.job import Job
from verbworker.stores.checkup import Checkup
from verbworker.testing.memory import JobState
from verbworker.work.feeds.leases import StopReason


class Outside:
    """What a verb did, and a place where it stands still when the test wants it to."""

    def __init__(self) -> None:
        self.calls = 0
        self.reached = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    def hold(self) -> None:
        self.may_go_on.clear()

    async def visit(self) -> None:
        self.calls += 1
        self.reached.set()
        await self.may_go_on.wait()


def sending(outside: Outside, **options: Any) -> Any:
    """A registry whose verb visits the outside."""

    async def send(account: Account) -> Account:
        await outside.visit()
        return account.model_copy(update={"sent": True})

    return one_verb(send, **options)


def booking(outside: Outside, **options: Any) -> Any:
    """A registry whose verb writes into the database, then visits the outside."""

    async def book(account: Account, call: Call) -> Account:
        await call.db.execute("INSERT INTO ledger (epoch) VALUES ($1)", call.epoch)
        await outside.visit()
        return account.model_copy(update={"note": "booked"})

    return one_verb(book, mode="transactional", **options)


def failing(error: BaseException, outside: Outside, **options: Any) -> Any:
    """A registry whose verb always raises."""

    async def fail(account: Account) -> Account:
        await outside.visit()
        raise error

    return one_verb(fail, **options)


async def effects(worker: LooplessWorker) -> int:
    row: Any = await worker.database.fetchrow(EFFECTS)
    return int(row[0])


# ---- what may not be repeated --------------------------------------------------------------------------------------


@pytest.mark.req("JOB-06", "FAIL-05")
async def test_a_call_that_may_not_be_repeated_is_held_after_its_worker_vanished(dsn: str) -> None:
    outside = Outside()
    async with opened(dsn, sending(outside, on_unknown="hold")) as worker:
        job = await worker.begun()
        await worker.crash(job, Point.PERFORMED)
        await worker.work()

        assert (await worker.column(job, "state"), await worker.column(job, "fail_code")) == (
            "incident",
            "OutcomeUnknown",
        )
        assert worker.known(job).state is JobState.INCIDENT
        assert outside.calls == 1


async def test_a_key_the_outside_has_forgotten_is_not_used_again(dsn: str) -> None:
    outside = Outside()
    async with opened(dsn, sending(outside, idempotency_window=timedelta(hours=1))) as worker:
        job = await worker.begun()
        await worker.crash(job, Point.PERFORMED)
        await worker.change(job, "keyed_at = keyed_at - interval '61 minutes'")
        await worker.work()

        assert await worker.column(job, "fail_code") == "OutcomeUnknown"
        assert worker.known(job).state is JobState.INCIDENT
        assert outside.calls == 1


@pytest.mark.parametrize("knows", [True, False])
async def test_the_other_side_is_asked_before_a_call_is_repeated(dsn: str, knows: bool) -> None:
    outside, asked = Outside(), []

    async def send(account: Account) -> Account:
        await outside.visit()
        return account.model_copy(update={"sent": True})

    async def ask(account: Account, call: Call) -> Account | None:
        asked.append(call.idempotency_key)
        return account.model_copy(update={"sent": True, "note": "it knew"}) if knows else None

    async with opened(dsn, one_verb(send, on_unknown="probe", probe=ask)) as worker:
        job = await worker.begun()
        await worker.crash(job, Point.PERFORMED)
        assert asked == []
        await worker.work()

        assert asked == [await worker.column(job, "idempotency_key")]
        assert outside.calls == (1 if knows else 2)
        assert worker.known(job).state is JobState.COMPLETED


async def test_a_call_that_took_too_long_is_held_where_it_may_not_be_repeated(dsn: str) -> None:
    outside = Outside()
    outside.hold()
    policy = quick(start_to_close_timeout_seconds=0.05)
    async with opened(dsn, sending(outside, on_unknown="hold", policy=policy)) as worker:
        await worker.start()
        job = await worker.work()

        assert (worker.known(job).state, outside.calls) == (JobState.INCIDENT, 1)
        assert "OutcomeUnknown" in worker.engine.failures[-1][2]


# ---- bounds --------------------------------------------------------------------------------------------------------


@pytest.mark.req("POL-06")
async def test_a_verb_that_did_not_succeed_in_time_is_not_begun_again(dsn: str) -> None:
    outside = Outside()
    async with opened(dsn, sending(outside, policy=quick(schedule_to_close_timeout_seconds=60))) as worker:
        job = await worker.begun()
        await worker.crash(job, Point.PUSHED)
        await worker.change(job, "first_run_at = first_run_at - interval '61 seconds'")
        await worker.work()

        assert (await worker.column(job, "fail_code"), outside.calls) == ("ScheduleToCloseExceeded", 0)
        assert worker.known(job).state is JobState.INCIDENT


@pytest.mark.req("FAIL-05")
async def test_a_verb_that_takes_its_worker_down_every_time_is_stopped(dsn: str) -> None:
    outside = Outside()
    async with opened(dsn, sending(outside, max_runs=3)) as worker:
        await worker.start()
        for _ in range(3):
            job = await worker.deliver()
            await worker.crash(job, Point.PERFORMED)
        await worker.work()

        assert (await worker.column(job, "fail_code"), await worker.column(job, "runs")) == ("CrashLoop", 3)
        assert (worker.known(job).state, worker.known(job).job.retries) == (JobState.INCIDENT, 0)
        assert outside.calls == 3


@pytest.mark.req("FAIL-01")
async def test_our_own_infrastructure_costs_no_retry_and_no_run(dsn: str) -> None:
    outside = Outside()
    error = TransientInfrastructure("the cache is cold", code="CacheCold")
    async with opened(dsn, failing(error, outside, max_runs=2, policy=quick(retry={"maximum_attempts": 2}))) as worker:
        await worker.start()
        for _ in range(10):
            job = await worker.work()
            await worker.later()

        assert (await worker.column(job, "retries_left"), await worker.column(job, "runs")) == (2, 0)
        assert await worker.column(job, "infra_runs") == 10
        assert {retries for _, retries, _ in worker.engine.failures} == {2}


@pytest.mark.req("FAIL-01", "FAIL-05")
async def test_even_infrastructure_is_not_blamed_for_ever(dsn: str) -> None:
    error = TransientInfrastructure("the cache is cold", code="CacheCold")
    async with opened(dsn, failing(error, Outside(), policy=quick())) as worker:
        await worker.start()
        job = await worker.work()
        await worker.change(job, "infra_runs = 100")
        await worker.later()
        await worker.work()

        frame = await worker.frame(job)
        assert (frame.state, frame.fail_class, frame.fail_code) == (
            FrameState.INCIDENT,
            "TransientInfrastructure",
            "CacheCold",
        )
        assert worker.known(job).state is JobState.INCIDENT


@pytest.mark.req("FAIL-02", "FAIL-05", "FAIL-10")
async def test_retries_are_spent_one_by_one_in_the_frame_and_in_the_engine(dsn: str) -> None:
    outside = Outside()
    async with opened(dsn, failing(TransientExternal("away", code="Away"), outside, policy=quick())) as worker:
        await worker.start()
        for _ in range(3):
            job = await worker.work()
            await worker.later()

        assert [retries for _, retries, _ in worker.engine.failures] == [2, 1, 0]
        assert outside.calls == 3
        assert await worker.column(job, "state") == "incident"


class Panic(BaseException):
    """As libraries in other languages raise it."""


@pytest.mark.req("FAIL-12")
@pytest.mark.parametrize(
    "error",
    [
        *(SystemExit(3), asyncio.CancelledError(), ZeroDivisionError(), KeyboardInterrupt(), GeneratorExit(), Panic()),
        BaseExceptionGroup("several", [KeyboardInterrupt(), Panic()]),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("mode", ["external", "transactional"])
async def test_no_exception_of_a_verb_reaches_beyond_its_job(dsn: str, error: BaseException, mode: str) -> None:
    async with opened(dsn, failing(error, Outside(), mode=mode)) as worker:
        await worker.start()
        job = await worker.work()

        assert (await worker.column(job, "state"), worker.known(job).job.retries) == ("failed", 2)


# ---- ended from outside --------------------------------------------------------------------------------------------


async def running(
    worker: LooplessWorker, outside: Outside, tasks: asyncio.TaskGroup
) -> tuple[Job, "asyncio.Task[None]"]:
    """A job whose verb stands still."""
    outside.hold()
    job = await worker.begun()
    task = tasks.create_task(worker.executor.execute(job))
    await outside.reached.wait()
    return job, task


@pytest.mark.req("FAIL-01")
async def test_a_transactional_verb_that_must_end_is_rolled_back_and_its_job_goes_back_at_once(dsn: str) -> None:
    outside = Outside()
    async with opened(dsn, booking(outside)) as worker, asyncio.TaskGroup() as tasks:
        await worker.database.execute(TABLE)
        job, task = await running(worker, outside, tasks)
        worker.leases.end_all(StopReason.SHUTDOWN)
        await task

        assert await effects(worker) == 0
        assert (await worker.column(job, "state"), await worker.column(job, "runs")) == ("failed", 0)
        assert await worker.column(job, "reported_at IS NOT NULL")
        assert (worker.known(job).state, worker.known(job).job.retries) == (JobState.ACTIVATABLE, 3)


async def test_an_external_verb_that_must_end_stays_as_it_is(dsn: str) -> None:
    outside = Outside()
    async with opened(dsn, sending(outside)) as worker, asyncio.TaskGroup() as tasks:
        job, task = await running(worker, outside, tasks)
        worker.leases.end_all(StopReason.SHUTDOWN)
        await task

        assert (await worker.column(job, "state"), await worker.column(job, "runs")) == ("started", 1)
        assert (worker.known(job).state, worker.engine.failures) == (JobState.ACTIVATED, [])
        assert await worker.story(job) == ["abandoned"]


@pytest.mark.parametrize("make", [sending, booking])
async def test_a_job_that_is_claimed_while_the_worker_ends_is_not_begun(dsn: str, make: Any) -> None:
    outside = Outside()
    async with opened(dsn, make(outside)) as worker:
        job = await worker.begun()
        worker.leases.end_all(StopReason.SHUTDOWN)
        await worker.executor.execute(job)

        assert outside.calls == 0
        assert (await worker.column(job, "state"), await worker.column(job, "runs")) == ("failed", 0)
        assert (worker.known(job).state, worker.known(job).job.retries) == (JobState.ACTIVATABLE, 3)


@pytest.mark.req("M-05")
@pytest.mark.parametrize("make", [sending, booking])
async def test_a_verb_whose_frame_another_worker_claimed_is_ended_and_says_nothing(dsn: str, make: Any) -> None:
    outside = Outside()
    registry = make(outside)
    async with (
        opened(dsn, registry) as worker,
        opened(dsn, registry, engine=worker.engine) as rival,
        asyncio.TaskGroup() as tasks,
    ):
        await worker.database.execute(TABLE)
        job, task = await running(worker, outside, tasks)
        await worker.lapse(job)
        outside.reached.clear()
        again = tasks.create_task(rival.executor.execute(await rival.deliver()))
        await outside.reached.wait()
        await worker.leases.beat()
        await task
        outside.may_go_on.set()
        await again

        assert (await worker.column(job, "owner"), await worker.column(job, "epoch")) == (rival.frames.owner, 2)
        assert (await worker.column(job, "state"), worker.engine.failures) == ("completed", [])
        assert "fenced" in await worker.story(job)
        assert await effects(worker) == (1 if make is booking else 0)


@pytest.mark.parametrize("make", [sending, booking])
async def test_a_verb_whose_job_is_gone_is_ended(dsn: str, make: Any) -> None:
    outside = Outside()
    async with opened(dsn, make(outside)) as worker, asyncio.TaskGroup() as tasks:
        await worker.database.execute(TABLE)
        job, task = await running(worker, outside, tasks)
        await worker.engine.cancel(job.process_instance_key)
        await worker.leases.beat()
        await task

        assert (await worker.column(job, "state"), await worker.column(job, "fail_code")) == ("failed", "JobGone")
        assert await worker.column(job, "ack_result") == "gone"
        assert (await effects(worker), worker.engine.failures) == (0, [])


async def test_an_engine_that_does_not_answer_ends_no_verb(dsn: str) -> None:
    outside = Outside()
    async with opened(dsn, sending(outside)) as worker, asyncio.TaskGroup() as tasks:
        job, task = await running(worker, outside, tasks)
        worker.engine.drop("extend")
        await worker.leases.beat()
        outside.may_go_on.set()
        await task

        assert await worker.column(job, "state") == "completed"


@pytest.mark.req("M-05", "FAIL-04")
async def test_a_failure_is_told_only_while_the_frame_is_surely_ours(dsn: str) -> None:
    outside = Outside()
    error = TransientExternal("away", code="Away")
    # A lease shorter than the margin: nobody is ever sure of it.
    async with opened(dsn, failing(error, outside, policy=quick()), lease=timedelta(seconds=1)) as worker:
        await worker.start()
        job = await worker.work()
        silent = (await worker.column(job, "state"), list(worker.engine.failures))
        await worker.change(job, "next_retry_at = clock_timestamp() + interval '1 hour'")
        worker.engine.time_out(job.key)
        await worker.work()

        assert silent == ("failed", [])
        ((_, retries, message),) = worker.engine.failures
        assert (retries, outside.calls) == (2, 1)
        assert message.startswith("TransientExternal Away: away (at tests/")
        assert " (verb desk.act, entry " in message
        assert message.endswith(f", frame {job.key})")


# ---- branches ------------------------------------------------------------------------------------------------------


@pytest.mark.req("X-41", "PAY-10")
@pytest.mark.parametrize("make", [sending, booking])
async def test_what_a_parallel_branch_wrote_meanwhile_is_kept(dsn: str, make: Any) -> None:
    outside = Outside()
    async with opened(dsn, make(outside)) as worker, asyncio.TaskGroup() as tasks:
        await worker.database.execute(TABLE)
        job, task = await running(worker, outside, tasks)
        await worker.executor.execute(beside(job))
        outside.may_go_on.set()
        await task

        told = worker.known(job).variables["domain_payload"]
        assert '"booked":true' in str(told)
        assert ('"sent":true' if make is sending else '"note":"booked"') in str(told)
        assert await worker.column(job, "output") == str(told).encode()


@pytest.mark.req("X-41")
@pytest.mark.parametrize("mode", ["external", "transactional"])
async def test_a_field_that_two_branches_changed_is_an_incident_of_the_later_one(dsn: str, mode: str) -> None:
    outside = Outside()

    async def sign(account: Account) -> Account:
        number = outside.calls + 1
        if number == 1:
            await outside.visit()
        return account.model_copy(update={"note": f"signed {number}"})

    async with opened(dsn, one_verb(sign, mode=mode)) as worker, asyncio.TaskGroup() as tasks:
        job, task = await running(worker, outside, tasks)
        quicker = beside(job, VERB)
        await worker.executor.execute(quicker)
        outside.may_go_on.set()
        await task

        assert await worker.column(quicker, "state") == "completed"
        assert (await worker.column(job, "state"), await worker.column(job, "fail_code")) == (
            "incident",
            "MergeConflict",
        )


@pytest.mark.req("POL-06")
async def test_a_verb_that_ignores_its_end_is_named(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    go_on = threading.Event()

    def hang(account: Account) -> Account:
        """Wait, as a call without a timeout of its own does."""
        go_on.wait(60)
        return account

    policy = quick(start_to_close_timeout_seconds=0.05)
    registry = one_verb(hang, mode="external", policy=policy)
    async with opened(dsn, registry, lease=timedelta(milliseconds=200)) as worker, asyncio.TaskGroup() as tasks:
        job = await worker.begun()
        running = tasks.create_task(worker.executor.execute(job))
        try:
            async with asyncio.timeout(30):
                while "over time" not in await worker.story(job):
                    await worker.leases.beat()
                    await asyncio.sleep(0.02)
            named = await Checkup(worker.database).waiting(
                "overtime", worker.engine.engine_id, longer_than=timedelta(0)
            )
            await worker.leases.beat()
        finally:
            go_on.set()
        await running
        over = await Checkup(worker.database).waiting("overtime", worker.engine.engine_id, longer_than=timedelta(0))

    said = [record for record in caplog.records if "past its time limit" in record.getMessage()]
    assert (named.number, named.late, named.word) == (1, 1, "desk.act")
    assert over.number == 0
    assert len(said) == 1
