"""What the engine is told, and what is made of its answers."""

from datetime import timedelta
from typing import Any

import pytest

from tests.support.ledger import Account
from tests.support.worker_boot import LooplessWorker, ToldEngine, one_verb, opened
from verbworker import metrics
from verbworker.errors import CommandInvalid
from verbworker.job.failpoint import Point
from verbworker.job.job import Job
from verbworker.job.outcome import JobResult, Thrown, describe_failure
from verbworker.testing.memory import JobState
from verbworker.work.jobs.verdicts import JobResults, Relay, verdict_of

LONG = timedelta(minutes=1)


async def send(account: Account) -> Account:
    return account.model_copy(update={"sent": True})


def answers(command: str, answer: str) -> float:
    labels = {"command": command, "answer": answer}
    return metrics.REGISTRY.get_sample_value("verbworker_engine_answers_total", labels) or 0.0


async def popped(worker: LooplessWorker) -> Job:
    """A job whose verdict is stored and not told."""
    job = await worker.begun()
    await worker.crash(job, Point.POPPED)
    return job


async def returned(worker: LooplessWorker, job: Job, timeout: timedelta = timedelta(0)) -> bool:
    verdict = verdict_of(await worker.frame(job))
    done = await JobResults(worker.engine, worker.frames, timeout=timeout).verdict(job.key, verdict)
    await worker.frames.flush()
    return done


# ---- verdicts ------------------------------------------------------------------------------------------------------


@pytest.mark.req("FAIL-06", "TST-11")
@pytest.mark.parametrize("trouble", ["refuse", "drop", "lose_answer"])
async def test_a_verdict_is_sent_until_the_engine_answers(dsn: str, trouble: str) -> None:
    async with opened(dsn, one_verb(send)) as worker:
        job = await popped(worker)
        getattr(worker.engine, trouble)("complete", 3)
        assert await returned(worker, job, LONG)

        assert (worker.known(job).state, worker.known(job).completions) == (JobState.COMPLETED, 1)
        assert await worker.column(job, "ack_result") == ("gone" if trouble == "lose_answer" else "ok")


@pytest.mark.req("FAIL-07", "TST-11")
async def test_a_job_the_engine_has_no_more_is_acknowledged_as_gone(dsn: str) -> None:
    before = answers("complete", "gone")
    async with opened(dsn, one_verb(send)) as worker:
        job = await popped(worker)
        await worker.engine.cancel(job.process_instance_key)
        assert await returned(worker, job)

        assert await worker.column(job, "ack_result") == "gone"
        assert answers("complete", "gone") == before + 1


@pytest.mark.req("FAIL-08")
async def test_a_job_in_an_incident_keeps_its_verdict_unacknowledged_and_says_so(dsn: str) -> None:
    async with opened(dsn, one_verb(send)) as worker:
        job = await popped(worker)
        await worker.engine.fail(job.key, retries=0, message="a late word of somebody else")
        assert not await returned(worker, job)

        assert await worker.column(job, "acked_at") is None
        assert "verdict not active" in await worker.story(job)


@pytest.mark.req("EVO-02")
async def test_a_verdict_the_engine_did_not_take_in_time_is_left_to_the_relay(dsn: str) -> None:
    async with opened(dsn, one_verb(send)) as worker:
        job = await popped(worker)
        worker.engine.drop("complete")
        assert not await returned(worker, job)
        unacknowledged = await worker.column(job, "acked_at")
        await Relay(worker.frames, worker.returns, every=timedelta(0)).sweep()
        await worker.frames.flush()

        assert unacknowledged is None
        assert await worker.column(job, "ack_result") == "ok"
        assert (worker.known(job).state, await worker.story(job)) == (
            JobState.COMPLETED,
            ["verdict unavailable", "relay"],
        )


class StrictEngine(ToldEngine):
    """An engine that will never accept a completion."""

    async def complete(self, job_key: int, result: JobResult, *, lease_token: str | None = None) -> None:
        raise CommandInvalid("EXCEEDED_BATCH_RECORD_SIZE")


async def test_a_verdict_the_engine_refuses_is_shouted_about(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(dsn, one_verb(send), engine=StrictEngine()) as worker:
        job = await popped(worker)
        assert not await returned(worker, job, LONG)

        assert await worker.column(job, "acked_at") is None
        assert [record.levelname for record in caplog.records if "refuses a verdict" in record.message] == ["ERROR"]


@pytest.mark.req("EVO-11")
async def test_a_relayed_business_no_is_thrown_with_its_code(dsn: str) -> None:
    async with opened(dsn, one_verb(send)) as worker:
        job = await worker.begun()
        await worker.crash(job, Point.PUSHED)
        await worker.change(
            job,
            "state = 'completed', outcome = 'bpmn_error', error_code = 'NO', fail_text = 'closed', popped_at = now()",
        )
        assert await Relay(worker.frames, worker.returns, every=timedelta(0)).sweep() == 1

        assert (worker.known(job).state, worker.known(job).error_code) == (JobState.THROWN, "NO")
        assert verdict_of(await worker.frame(job)) == Thrown("NO", "closed")


# ---- failures ------------------------------------------------------------------------------------------------------


async def held(worker: LooplessWorker) -> Job:
    """A job whose frame is an incident that the engine has not heard of."""
    job = await worker.begun()
    await worker.crash(job, Point.PUSHED)
    await worker.change(job, "state = 'incident', fail_class = 'X', fail_code = 'Y', fail_text = 'z'")
    return job


async def reported(worker: LooplessWorker, job: Job, timeout: timedelta = timedelta(0)) -> Any:
    returns = JobResults(worker.engine, worker.frames, timeout=timeout)
    await returns.report(job, 1, retries=0, delay=0, message="wrong")
    return await worker.column(job, "reported_at")


@pytest.mark.req("FAIL-06")
@pytest.mark.parametrize("trouble", ["refuse", "drop"])
async def test_a_failure_is_sent_until_the_engine_answers(dsn: str, trouble: str) -> None:
    async with opened(dsn, one_verb(send)) as worker:
        job = await held(worker)
        getattr(worker.engine, trouble)("fail", 2)

        assert await reported(worker, job, LONG) is not None
        assert worker.known(job).state is JobState.INCIDENT


async def test_a_failure_the_engine_did_not_hear_is_not_noted_as_told(dsn: str) -> None:
    async with opened(dsn, one_verb(send)) as worker:
        job = await held(worker)
        worker.engine.drop("fail")

        assert await reported(worker, job) is None
        assert worker.known(job).state is JobState.ACTIVATABLE


@pytest.mark.req("FAIL-07")
async def test_a_failure_of_a_job_that_is_gone_is_noted_and_no_more(dsn: str) -> None:
    async with opened(dsn, one_verb(send)) as worker:
        job = await held(worker)
        await worker.engine.cancel(job.process_instance_key)

        assert await reported(worker, job) is None
        assert "failure gone" in await worker.story(job)


@pytest.mark.req("FAIL-04")
async def test_an_incident_that_was_never_told_is_told_in_full_at_the_next_delivery(dsn: str) -> None:
    async with opened(dsn, one_verb(send)) as worker:
        job = await held(worker)
        await worker.work()
        ((_, retries, message),) = worker.engine.failures
        entry_id = await worker.column(job, "entry_id")

        assert (retries, await worker.column(job, "reported_at IS NOT NULL")) == (0, True)
        assert message == describe_failure("X", "Y", "z", verb="desk.act", entry_id=entry_id, job_key=job.key)


# ---- not begun -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [None, "refuse", "drop"])
async def test_a_job_that_was_not_begun_goes_back_with_the_retries_it_had(dsn: str, trouble: str | None) -> None:
    async with opened(dsn, one_verb(send)) as worker:
        job = await worker.begun()
        if trouble is not None:
            getattr(worker.engine, trouble)("fail", 2)
        await worker.executor.give_back(job)

        assert (worker.known(job).state, worker.known(job).job.retries) == (JobState.ACTIVATABLE, 3)
        assert await worker.column(job, "state") is None


async def test_a_job_that_cannot_be_given_back_is_left_to_the_engine(dsn: str) -> None:
    async with opened(dsn, one_verb(send)) as worker:
        job = await worker.begun()
        await worker.engine.cancel(job.process_instance_key)
        await worker.executor.give_back(job)

        assert worker.engine.failures == []
