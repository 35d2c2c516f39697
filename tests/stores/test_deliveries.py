"""Deliveries of a job that has a frame already: each is met by what the frame says, and by nothing else."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.support.ledger import Account
from tests.support.worker_boot import OTHER, LooplessWorker, beside, one_verb, opened, quick
from verbworker import metrics
from verbworker.errors import StoreUnavailable, TransientExternal
from verbworker.job.failpoint import Point
from verbworker.job.frame import Claim, Delivery, Frame
from verbworker.job.job import PAYLOAD
from verbworker.stores.jobs.frames import Frames, Unacknowledged
from verbworker.testing.memory import JobState
from verbworker.work.jobs.verdicts import Relay, verdict_of
from verbworker.work.upkeep.retention import Archiver


class Calls:
    """How often a verb ran."""

    def __init__(self, error: Exception | None = None) -> None:
        self.count = 0
        self._error = error

    def registry(self, **options: Any) -> Any:
        async def send(account: Account) -> Account:
            self.count += 1
            if self._error is not None:
                raise self._error
            return account.model_copy(update={"sent": True})

        return one_verb(send, **options)


def sample(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, labels) or 0.0


# ---- somebody else's -----------------------------------------------------------------------------------------------


@pytest.mark.req("JOB-01")
async def test_a_job_another_worker_is_at_is_left_to_it_until_its_lease_is_over(dsn: str) -> None:
    calls = Calls()
    registry = calls.registry()
    async with opened(dsn, registry) as worker, opened(dsn, registry, engine=worker.engine) as rival:
        job = await worker.begun()
        await worker.crash(job, Point.PUSHED)
        await worker.change(job, "lease_until = clock_timestamp() + interval '20 seconds'")
        before = await worker.frame(job)
        await rival.work()
        after = await worker.frame(job)

        assert calls.count == 0
        assert (after.epoch, after.owner, after.lease_until) == (before.epoch, before.owner, before.lease_until)
        assert await worker.story(job) == ["busy"]
        # The engine is not the timer: if the rival dies, the sweep hands its job out again.
        assert (rival.engine.extended, rival.engine.failures) == ([], [])


@pytest.mark.req("JOB-01")
async def test_a_delivery_that_lay_about_while_a_later_one_was_claimed_says_nothing(dsn: str) -> None:
    calls = Calls(TransientExternal("away"))
    async with opened(dsn, calls.registry(policy=quick())) as worker:
        old = await worker.begun()
        worker.engine.time_out(old.key)
        await worker.work()
        told = list(worker.engine.failures)
        await worker.executor.execute(old)

        assert (calls.count, worker.engine.failures) == (1, told)
        assert (await worker.story(old))[-1] == "superseded"


@pytest.mark.req("X-07")
async def test_a_key_that_the_engine_gave_to_another_job_runs_that_job_and_gets_no_old_answer(dsn: str) -> None:
    calls = Calls()
    async with opened(dsn, calls.registry()) as worker:
        await worker.start()
        job = await worker.work()
        worker.engine.redeliver(job.key)
        again = await worker.deliver()
        await worker.executor.execute(replace(again, element_instance_key=again.element_instance_key + 1))
        kept: Any = await worker.database.fetchrow("SELECT count(*) FROM verbworker.frame_conflict")

        assert (calls.count, kept[0]) == (2, 1)
        assert "replay" not in await worker.story(job)


@pytest.mark.req("X-07", "FAIL-04")
@pytest.mark.parametrize("trouble", [False, True])
async def test_a_key_that_is_another_jobs_without_a_payload_to_vouch_for_it_is_never_replayed(
    dsn: str, trouble: bool
) -> None:
    calls = Calls()
    async with opened(dsn, calls.registry()) as worker:
        await worker.start()
        job = await worker.work()
        worker.engine.redeliver(job.key)
        again = await worker.deliver()
        if trouble:
            worker.engine.drop("fail")
        foreign = {**again.variables, PAYLOAD: "{}"}
        stranger = replace(again, element_instance_key=again.element_instance_key + 1, variables=foreign)
        await worker.executor.execute(stranger)
        kept: Any = await worker.database.fetchrow("SELECT count(*) FROM verbworker.frame_conflict")

        assert (calls.count, kept[0], worker.known(job).completions) == (1, 1, 1)
        if not trouble:
            ((_, retries, message),) = worker.engine.failures
            assert retries == 0
            assert message.startswith("PermanentContract IdentityMismatch: this key is another job's")
            assert message.endswith(f"frame {job.key})")


class SweptFrames(Frames):
    """Frames of which another worker's sweep takes one in the moment before it is displaced."""

    is_swept = False

    async def displace(self, frame: Frame, delivery: Delivery) -> bool:
        if not self.is_swept:
            self.is_swept = True
            sweep = "UPDATE verbworker.job_frame SET epoch = epoch + 1 WHERE job_key = $1"
            await self._database.execute(sweep, frame.job_key)
        return await super().displace(frame, delivery)


@pytest.mark.req("X-07")
async def test_a_frame_that_moves_while_it_is_displaced_is_looked_at_again(dsn: str) -> None:
    calls = Calls()
    async with opened(dsn, calls.registry(), frames_type=SweptFrames) as worker:
        old = await worker.begun()
        await worker.crash(old, Point.PUSHED)
        again = await worker.deliver()
        await worker.executor.execute(replace(again, element_instance_key=again.element_instance_key + 1))

        assert (calls.count, worker.engine.failures) == (1, [])
        assert worker.known(old).state is JobState.COMPLETED


class OutpacedFrames(Frames):
    """Frames that another delivery of the same job displaces first."""

    async def displace(self, frame: Frame, delivery: Delivery) -> bool:
        await super().displace(frame, delivery)
        return await super().displace(frame, delivery)


@pytest.mark.req("X-07")
async def test_two_deliveries_that_displace_one_frame_make_no_incident(dsn: str) -> None:
    calls = Calls()
    async with opened(dsn, calls.registry(), frames_type=OutpacedFrames) as worker:
        old = await worker.begun()
        await worker.crash(old, Point.PUSHED)
        again = await worker.deliver()
        await worker.executor.execute(replace(again, element_instance_key=again.element_instance_key + 1))

        assert (calls.count, worker.engine.failures) == (1, [])


# ---- our own -------------------------------------------------------------------------------------------------------


@pytest.mark.req("JOB-05")
async def test_a_verdict_is_replayed_whatever_the_variables_say_by_now(dsn: str) -> None:
    drifts = sample("verbworker_input_drift_total", verb="desk.act")
    calls = Calls()
    async with opened(dsn, calls.registry()) as worker:
        job = await worker.begun()
        await worker.crash(job, Point.POPPED)
        stored = await worker.frame(job)
        again = await worker.deliver()
        changed = {**again.variables, "domain_payload": '{"changed":true}'}
        await worker.executor.execute(replace(again, variables=changed))

        assert (calls.count, worker.known(job).state) == (1, JobState.COMPLETED)
        assert str(worker.known(job).variables["domain_payload"]).encode() == stored.output
        assert sample("verbworker_input_drift_total", verb="desk.act") == drifts + 1
        assert await worker.story(job) == ["input drift", "replay"]


class LateFrames(Frames):
    """Frames whose claim comes too early once: a moment later the frame may be claimed."""

    is_early = True

    async def push(self, delivery: Delivery) -> Claim | None:
        if self.is_early and await self.read(delivery.job.key) is not None:
            self.is_early = False
            return None
        return await super().push(delivery)


async def test_a_frame_that_became_free_meanwhile_is_claimed_after_all(dsn: str) -> None:
    calls = Calls()
    async with opened(dsn, calls.registry(), frames_type=LateFrames) as worker:
        job = await worker.begun()
        await worker.crash(job, Point.PUSHED)
        await worker.work()

        assert (calls.count, worker.known(job).state) == (1, JobState.COMPLETED)


class ShyFrames(Frames):
    """Frames that can never be claimed, though nothing stands in the way."""

    async def push(self, delivery: Delivery) -> Claim | None:
        return None


async def test_a_job_that_can_never_be_claimed_is_neither_run_nor_failed(dsn: str) -> None:
    calls = Calls()
    async with opened(dsn, calls.registry(), frames_type=ShyFrames) as worker:
        await worker.start()
        job = await worker.work()

        assert (calls.count, worker.known(job).state, worker.engine.failures) == (0, JobState.ACTIVATED, [])


class SlowFrames(Frames):
    """Frames where somebody else is quicker to hold."""

    async def hold(self, frame: Frame, activated_ms: int, *, code: str, message: str) -> int | None:
        await super().hold(frame, activated_ms, code=code, message=message)
        return None


async def test_whoever_was_not_quick_enough_to_hold_a_frame_does_not_report_it(dsn: str) -> None:
    async with opened(dsn, Calls().registry(max_runs=1), frames_type=SlowFrames) as worker:
        job = await worker.begun()
        await worker.crash(job, Point.PUSHED)
        await worker.work()

        assert (await worker.column(job, "fail_code"), worker.engine.failures) == ("CrashLoop", [])


async def test_a_branch_that_begins_after_another_wrote_sees_what_it_wrote(dsn: str) -> None:
    seen: list[bool] = []

    async def look(account: Account) -> Account:
        seen.append(account.booked)
        return account.model_copy(update={"note": "looked"})

    async with opened(dsn, one_verb(look)) as worker:
        job = await worker.begun()
        await worker.executor.execute(beside(job, OTHER))
        await worker.executor.execute(job)

        assert seen == [True]
        assert '"booked":true' in str(worker.known(job).variables["domain_payload"])


@pytest.mark.req("JOB-09", "FAIL-03")
async def test_a_job_of_a_verb_nobody_knows_is_an_incident_with_a_frame(dsn: str) -> None:
    async with opened(dsn, Calls().registry()) as worker:
        job = await worker.begun()
        await worker.executor.execute(replace(job, type="desk.gone"))

        assert (await worker.column(job, "state"), await worker.column(job, "fail_code")) == ("incident", "VerbUnknown")
        assert worker.known(job).state is JobState.INCIDENT


# ---- the services beside -------------------------------------------------------------------------------------------


class FlakyFrames(Frames):
    """Frames whose first question to the database fails, and which tell when it was asked again."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.asked = 0
        self.asked_again = asyncio.Event()

    def _ask(self) -> None:
        self.asked += 1
        if self.asked == 1:
            raise StoreUnavailable("away")
        self.asked_again.set()

    async def claim_unsent(self, *, older_than: timedelta, hold: timedelta, limit: int) -> list[Unacknowledged]:
        self._ask()
        return await super().claim_unsent(older_than=older_than, hold=hold, limit=limit)

    async def archive(self, *, older_than: timedelta, settled: timedelta = timedelta(0), limit: int = 5000) -> int:
        self._ask()
        return await super().archive(older_than=older_than, settled=settled, limit=limit)


async def _goes_on(service: Any, frames: Frames) -> bool:
    assert isinstance(frames, FlakyFrames)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(service.service.run())
        await frames.asked_again.wait()
        is_running = not running.done()
        running.cancel()
    return is_running


@pytest.mark.req("EVO-02")
async def test_a_relay_goes_on_after_the_database_was_away(dsn: str) -> None:
    async with opened(dsn, Calls().registry(), frames_type=FlakyFrames) as worker:
        job = await worker.begun()
        await worker.crash(job, Point.POPPED)
        assert await _goes_on(Relay(worker.frames, worker.returns, every=timedelta(milliseconds=1)), worker.frames)


async def test_a_reaper_goes_on_after_the_database_was_away(dsn: str) -> None:
    async with opened(dsn, Calls().registry(), frames_type=FlakyFrames) as worker:
        assert await _goes_on(Archiver(worker.frames, every=timedelta(milliseconds=1)), worker.frames)


async def _archived(worker: LooplessWorker) -> int:
    row: Any = await worker.database.fetchrow("SELECT count(*) FROM verbworker.job_frame_archive")
    return int(row[0])


async def test_a_reaper_archives_what_is_acknowledged_and_counts_what_waits(dsn: str) -> None:
    async with opened(dsn, Calls().registry()) as worker:
        for _ in range(2):
            await worker.start()
            await worker.work()
        await worker.frames.flush()
        await worker.executor.execute(replace(await worker.begun(), type="desk.gone"))
        await worker.crash(await worker.begun(), Point.POPPED)
        archiver = Archiver(worker.frames, after=timedelta(0))
        moved = await archiver.archive()
        await archiver.tidy()

        assert (moved, await _archived(worker)) == (2, 2)
        assert sample("verbworker_held_frames") == 1
        assert sample("verbworker_unacknowledged_frames") == 1
        assert sample("verbworker_unacknowledged_age_seconds") > 0


async def test_a_word_that_cannot_be_noted_changes_nothing(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(dsn, Calls().registry()) as worker:
        job = await worker.begun()
        await worker.crash(job, Point.POPPED)
        worker.engine.drop("complete")
        await worker.database.execute("DROP TABLE verbworker.frame_event CASCADE")
        await worker.returns.verdict(job.key, verdict_of(await worker.frame(job)))

        assert "note not written" in caplog.text
