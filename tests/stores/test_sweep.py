"""The sweep on a real database and an engine in memory that lost its timeouts: no job of a dead worker stays behind."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from tests.support.frames import make_delivery
from tests.support.ledger import EFFECTS, TABLE, Account
from tests.support.sweeping import die, leases_end, reconcile, sweeper
from tests.support.trip import Agency, trip_registry
from tests.support.undoing import CompensationSetup, open_compensation
from tests.support.worker_boot import VERB, LooplessWorker, one_verb, opened, quick
from verbworker import metrics
from verbworker.app import wiring as app
from verbworker.app.settings import Settings
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call
from verbworker.engine.protocol import Ask, Start
from verbworker.errors import Fenced, PermanentContract, TransientExternal
from verbworker.job.failpoint import Point
from verbworker.job.frame import Delivery, FrameState
from verbworker.job.job import RESERVED, Job
from verbworker.job.outcome import NO_RESULT, Incident
from verbworker.payload.boundary import JobVariables
from verbworker.runbook.event import Kind, Status
from verbworker.testing.memory import JobState
from verbworker.work.upkeep.retention import Archiver

FRAMES = "SELECT state, fail_code, ack_result, acked_at IS NOT NULL AS acked FROM verbworker.job_frame"
ARCHIVED = "SELECT state, fail_code, ack_result FROM verbworker.job_frame_archive"


class Outside:
    """What a verb calls: it counts, and fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.calls = 0
        self.failures = failures

    def registry(self, **options: Any) -> Registry:
        async def send(account: Account) -> Account:
            self.calls += 1
            if self.calls <= self.failures:
                raise TransientExternal("away", code="Away")
            return account.model_copy(update={"sent": True})

        return one_verb(send, policy=quick(), **options)


def booking(**options: Any) -> Registry:
    async def book(account: Account, call: Call) -> Account:
        await call.db.execute("INSERT INTO ledger (epoch) VALUES ($1)", call.epoch)
        return account.model_copy(update={"booked": True})

    return one_verb(book, mode="transactional", **options)


async def begun(worker: LooplessWorker) -> Job:
    """A job that was delivered by an engine which will never deliver it again by itself."""
    worker.engine.lose_timeouts()
    return await worker.begun()


async def due(worker: LooplessWorker) -> list[Job]:
    """What the engine hands out, however long one waits."""
    worker.engine.advance(24 * 3600)
    return await worker.engine.activate(Ask(VERB, "rival", 60_000, RESERVED), 10, 0)


# ---- run again ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", [Point.PUSHED, Point.PERFORMED])
@pytest.mark.parametrize("mode", ["transactional", "external"])
async def test_a_job_whose_worker_died_is_run_elsewhere_though_the_engine_never_times_it_out(
    dsn: str, mode: str, point: Point
) -> None:
    outside = Outside()
    registry = booking() if mode == "transactional" else outside.registry()
    async with opened(dsn, registry) as worker, opened(dsn, registry, engine=worker.engine) as rival:
        await worker.database.execute(TABLE)
        job = await begun(worker)
        await die(worker.executor, job, point)
        await leases_end(worker.database)
        before = await due(worker)

        assert await sweeper(rival.database, rival.engine).sweep() == 1
        (again,) = await due(worker)
        await rival.executor.execute(again)
        effects: Any = await worker.database.fetchrow(EFFECTS)

        assert before == []
        assert worker.known(job).state is JobState.COMPLETED
        assert (again.retries, (await worker.frame(job)).runs) == (job.retries, 2)
        assert effects[0] == (1 if mode == "transactional" else 0)
        assert (await worker.story(job))[:2] == ["swept", "reported"]


async def test_a_swept_run_costs_no_retry_and_is_claimed_by_the_next_delivery(dsn: str) -> None:
    async with opened(dsn, Outside().registry()) as worker:
        job = await begun(worker)
        before = await worker.frames.read(job.key)
        await die(worker.executor, job, Point.PUSHED)
        before = await worker.frame(job)
        await leases_end(worker.database)

        await sweeper(worker.database, worker.engine).sweep()

        frame = await worker.frame(job)
        assert (frame.state, frame.epoch, frame.retries_left) == (FrameState.FAILED, 2, before.retries_left)
        assert frame.owner != before.owner
        assert frame.reported_at is not None
        assert frame.next_retry_at is not None
        assert frame.next_retry_at <= frame.now
        assert worker.engine.failures[-1][1] == before.retries_left


async def test_an_owner_that_was_only_slow_finds_its_frame_fenced(dsn: str) -> None:
    async with opened(dsn, Outside().registry()) as worker:
        job = await begun(worker)
        await die(worker.executor, job, Point.PUSHED)
        claim = await worker.frames.resume(job.key)
        assert claim is not None
        await leases_end(worker.database)

        await sweeper(worker.database, worker.engine).sweep()

        assert await worker.frames.heartbeat({job.key: claim.epoch}) == {job.key}
        with pytest.raises(Fenced):
            await worker.frames.settle(claim)


@pytest.mark.parametrize("lease", ["+ interval '1 second'", "- interval '4 seconds'"])
async def test_a_lease_that_is_alive_or_just_over_is_left_alone(dsn: str, lease: str) -> None:
    async with opened(dsn, Outside().registry()) as worker:
        job = await begun(worker)
        await die(worker.executor, job, Point.PUSHED)
        await worker.change(job, f"lease_until = clock_timestamp() {lease}")
        before = await worker.frame(job)

        assert await sweeper(worker.database, worker.engine).sweep() == 0
        assert (await worker.frame(job)).epoch == before.epoch
        assert worker.engine.failures == []


async def test_workers_that_sweep_at_once_take_each_frame_once(dsn: str) -> None:
    async with opened(dsn, Outside().registry()) as worker:
        jobs = [await begun(worker) for _ in range(12)]
        for job in jobs:
            await die(worker.executor, job, Point.PUSHED)
        await leases_end(worker.database)
        sweeps = [sweeper(worker.database, worker.engine) for _ in range(4)]

        taken = await asyncio.gather(*(sweep.sweep() for sweep in sweeps))

        assert sum(taken) == len(jobs)
        assert sorted(key for key, _, _ in worker.engine.failures) == sorted(job.key for job in jobs)
        assert {row["kind"] for row in await worker.database.fetch("SELECT kind FROM verbworker.frame_event")} == {
            "swept",
            "reported",
        }


async def test_a_delivery_that_finds_a_live_lease_asks_nothing_of_the_engine(dsn: str) -> None:
    outside = Outside()
    registry = outside.registry()
    async with opened(dsn, registry) as worker, opened(dsn, registry, engine=worker.engine) as rival:
        job = await worker.begun()
        await die(worker.executor, job, Point.PUSHED)
        worker.engine.time_out(job.key)
        worker.engine.lose_timeouts()
        await rival.work()
        told = (list(rival.engine.extended), list(rival.engine.failures))
        await leases_end(worker.database)
        await sweeper(rival.database, rival.engine).sweep()
        await rival.executor.execute((await due(worker))[0])

        assert told == ([], [])
        assert (outside.calls, worker.known(job).state) == (1, JobState.COMPLETED)


# ---- held, without another delivery ---------------------------------------------------------------------------------


async def test_a_job_that_keeps_killing_its_worker_is_held_without_another_delivery(dsn: str) -> None:
    async with opened(dsn, Outside().registry(max_runs=2)) as worker:
        job = await begun(worker)
        for _ in range(2):
            await die(worker.executor, job, Point.PUSHED)
            await leases_end(worker.database)
            await sweeper(worker.database, worker.engine).sweep()
            job = next(iter(await due(worker)), job)

        frame = await worker.frame(job)
        assert (frame.state, frame.fail_code, frame.runs) == (FrameState.INCIDENT, "CrashLoop", 2)
        assert frame.reported_at is not None
        assert (worker.known(job).state, worker.known(job).deliveries) == (JobState.INCIDENT, 2)
        assert "CrashLoop: the verb was started 2 times" in worker.known(job).messages[-1]


@pytest.mark.parametrize("case", ["hold", "window"])
async def test_an_outcome_that_must_not_be_repeated_is_held_without_another_delivery(dsn: str, case: str) -> None:
    outside = Outside()
    async with opened(dsn, outside.registry(on_unknown="hold" if case == "hold" else "rerun")) as worker:
        job = await begun(worker)
        await die(worker.executor, job, Point.PERFORMED)
        if case == "window":
            await worker.change(job, "keyed_at = clock_timestamp() - interval '30 days'")
        await leases_end(worker.database)

        await sweeper(worker.database, worker.engine).sweep()

        assert ((await worker.frame(job)).fail_code, outside.calls) == ("OutcomeUnknown", 1)
        assert (worker.known(job).state, worker.known(job).deliveries) == (JobState.INCIDENT, 1)


# ---- what was not reported -------------------------------------------------------------------------------------------


async def test_a_failure_that_its_worker_could_not_report_is_reported_by_another(dsn: str) -> None:
    outside = Outside(failures=1)
    registry = outside.registry()
    async with opened(dsn, registry) as worker, opened(dsn, registry, engine=worker.engine) as rival:
        job = await begun(worker)
        await die(worker.executor, job, Point.FAILED)
        failed = await worker.frame(job)
        await leases_end(worker.database)

        await sweeper(rival.database, rival.engine).sweep()
        (again,) = await due(worker)
        await rival.executor.execute(again)

        assert (failed.state, failed.reported_at) == (FrameState.FAILED, None)
        assert again.retries == failed.retries_left
        assert (outside.calls, worker.known(job).state) == (2, JobState.COMPLETED)


async def test_a_failure_whose_pause_is_not_over_waits_for_it_here_and_not_in_the_engine(dsn: str) -> None:
    async with opened(dsn, Outside(failures=1).registry()) as worker:
        job = await begun(worker)
        await die(worker.executor, job, Point.FAILED)
        await leases_end(worker.database)
        await worker.change(job, "next_retry_at = clock_timestamp() + interval '1 minute'")

        assert await sweeper(worker.database, worker.engine).sweep() == 0
        assert worker.known(job).state is JobState.ACTIVATED


async def test_an_incident_that_its_worker_could_not_report_is_reported_by_another(dsn: str) -> None:
    async def refuse(account: Account) -> Account:
        raise PermanentContract("no", code="No")

    async with opened(dsn, one_verb(refuse)) as worker:
        job = await begun(worker)
        await die(worker.executor, job, Point.FAILED)
        await leases_end(worker.database)

        await sweeper(worker.database, worker.engine).sweep()

        assert (await worker.frame(job)).reported_at is not None
        assert worker.known(job).state is JobState.INCIDENT
        assert worker.known(job).messages == [worker.engine.failures[-1][2]]
        assert "PermanentContract No: no" in worker.known(job).messages[0]


@pytest.mark.parametrize("fault", ["drop", "refuse", "lose_answer"])
async def test_a_report_the_engine_did_not_take_is_repeated_later_and_not_at_once(dsn: str, fault: str) -> None:
    async with opened(dsn, Outside().registry()) as worker:
        job = await begun(worker)
        await die(worker.executor, job, Point.PUSHED)
        await leases_end(worker.database)
        getattr(worker.engine, fault)("fail")

        first = sweeper(worker.database, worker.engine)
        assert [await first.sweep(), await first.sweep()] == [1, 0]
        untold = await worker.frame(job)
        await leases_end(worker.database)
        await sweeper(worker.database, worker.engine).sweep()

        assert (untold.state, untold.reported_at) == (FrameState.FAILED, None)
        assert (await worker.frame(job)).reported_at is not None
        assert [known.key for known in await due(worker)] == [job.key]


async def test_an_incident_the_engine_has_already_is_not_reported_again_at_every_sweep(dsn: str) -> None:
    async with opened(dsn, Outside().registry(on_unknown="hold")) as worker:
        job = await begun(worker)
        await die(worker.executor, job, Point.PERFORMED)
        await leases_end(worker.database)
        worker.engine.lose_answer("fail")
        await sweeper(worker.database, worker.engine).sweep()
        await leases_end(worker.database)
        await sweeper(worker.database, worker.engine).sweep()  # the engine says that the job is not active
        await worker.change(job, "lease_until = lease_until - interval '1 minute'")

        assert await sweeper(worker.database, worker.engine).sweep() == 0
        assert (await worker.frame(job)).reported_at is not None
        assert worker.known(job).state is JobState.INCIDENT


async def test_a_failure_that_was_handed_out_and_never_claimed_is_handed_out_again(dsn: str) -> None:
    outside = Outside(failures=1)
    async with opened(dsn, outside.registry()) as worker:
        await begun(worker)
        worker.engine.redeliver(next(iter(worker.engine.jobs)))
        job = await worker.work()
        await worker.later()
        lost = await worker.deliver()  # its worker dies before it can claim
        await leases_end(worker.database)
        early = await sweeper(worker.database, worker.engine).sweep()
        await worker.change(job, "next_retry_at = clock_timestamp() - interval '1 hour'")

        assert await sweeper(worker.database, worker.engine).sweep() == 1
        (again,) = await due(worker)
        await worker.executor.execute(again)

        assert (early, lost.key) == (0, job.key)
        assert (outside.calls, worker.known(job).state) == (2, JobState.COMPLETED)


async def test_a_sweep_counts_what_it_did_by_verb_and_decision(dsn: str) -> None:
    def swept() -> float:
        labels = {"verb": VERB, "decision": "claim again"}
        return metrics.REGISTRY.get_sample_value("verbworker_swept_total", labels) or 0.0

    async with opened(dsn, Outside().registry()) as worker:
        await die(worker.executor, await begun(worker), Point.PUSHED)
        await leases_end(worker.database)
        before = swept()

        await sweeper(worker.database, worker.engine).sweep()

        assert swept() == before + 1


async def test_a_whole_worker_sweeps_what_another_left_and_serves_with_rows(dsn: str) -> None:
    registry = Outside().registry()
    async with opened(dsn, registry) as worker:
        job = await begun(worker)
        await die(worker.executor, job, Point.PUSHED)
        await leases_end(worker.database)
        settings = Settings(
            dsn=SecretStr(dsn), engine_id=worker.engine.engine_id, http_port=0, sweep_every=timedelta(milliseconds=20)
        )
        stop = asyncio.Event()
        async with (
            app.open_app(settings, registry, worker.engine) as whole,
            asyncio.timeout(60),
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(whole.run(stop))
            await worker.engine.until(lambda: worker.known(job).state is JobState.COMPLETED)
            stop.set()

        assert (await worker.frame(job)).runs == 2
        assert whole.worker._serving is not None


# ---- what is gone ---------------------------------------------------------------------------------------------------


@pytest.fixture
async def place(dsn: str) -> AsyncIterator[CompensationSetup]:
    async with open_compensation(dsn, trip_registry(Agency())) as opened:
        yield opened


async def _first_job(place: CompensationSetup) -> Job:
    await place.start("trip.book-flight", "trip.book-car")
    place.engine.lose_timeouts()
    return await place.take("trip.book-flight")


def _delivery(job: Job) -> Delivery:
    return make_delivery(job, instance_uid=JobVariables.of(job).instance_uid)


async def _status(place: CompensationSetup) -> Status:
    assert place.entry_id is not None
    entry = await place.runbook.entry(place.entry_id)
    assert entry is not None
    return entry.status


async def _archived(place: CompensationSetup) -> list[tuple[object, ...]]:
    await Archiver(place.worker.frames, after=timedelta(0)).archive()
    await place.worker.frames.archive(older_than=timedelta(0), settled=timedelta(0))
    left = await place.database.fetch("SELECT 1 FROM verbworker.job_frame WHERE state <> 'completed'")
    assert left == []
    return [tuple(row) for row in await place.database.fetch(ARCHIVED + " WHERE state <> 'completed'")]


@pytest.mark.req("JOB-11")
async def test_a_frame_whose_instance_ended_outside_is_closed_and_its_entry_ended_soon(
    place: CompensationSetup,
) -> None:
    job = await _first_job(place)
    await die(place.worker.executor, job, Point.PUSHED)
    await place.engine.cancel(job.process_instance_key)
    await leases_end(place.database)

    sweep = sweeper(place.database, place.engine)
    await sweep.sweep()
    assert await _status(place) is Status.EXECUTING
    await reconcile(sweep, place.database)

    assert await _status(place) is Status.CANCELLED
    assert await _archived(place) == [("failed", "JobGone", "gone")]


async def test_a_frame_whose_job_ended_otherwise_is_closed_and_its_entry_goes_on(place: CompensationSetup) -> None:
    job = await _first_job(place)
    await die(place.worker.executor, job, Point.PUSHED)
    await place.engine.complete(job.key, NO_RESULT)  # a person, or a boundary event
    await leases_end(place.database)

    await sweeper(place.database, place.engine).sweep()

    assert await _status(place) is Status.EXECUTING
    assert await _archived(place) == [("failed", "JobGone", "gone")]


async def test_an_incident_that_was_told_is_closed_when_its_entry_has_ended(dsn: str) -> None:
    agency = Agency()
    async with open_compensation(dsn, trip_registry(agency)) as place:
        agency.trouble("book-flight", PermanentContract("no such flight", code="NoFlight"))
        job = await _first_job(place)
        await place.worker.executor.execute(job)
        await place.engine.cancel(job.process_instance_key)
        sweep = sweeper(place.database, place.engine)
        assert (await sweep.sweep(), await sweep.ask()) == (0, 0)
        await leases_end(place.database)
        await place.database.execute("UPDATE verbworker.job_frame SET reported_at = reported_at - interval '1 hour'")

        assert await sweep.ask() == 1
        await reconcile(sweep, place.database)
        assert await _status(place) is Status.CANCELLED
        assert await _archived(place) == [("failed", "JobGone", "gone")]


async def test_an_incident_that_still_stands_in_the_engine_is_left_for_its_person(dsn: str) -> None:
    agency = Agency()
    async with open_compensation(dsn, trip_registry(agency)) as place:
        agency.trouble("book-flight", PermanentContract("no such flight", code="NoFlight"))
        job = await _first_job(place)
        await place.worker.executor.execute(job)
        await leases_end(place.database)
        await place.database.execute("UPDATE verbworker.job_frame SET reported_at = reported_at - interval '1 hour'")
        sweep = sweeper(place.database, place.engine)

        assert [await sweep.ask(), await sweep.ask()] == [0, 0]
        frame = await place.worker.frames.read(job.key)
        assert frame is not None
        assert (frame.state, frame.epoch) == (FrameState.INCIDENT, 1)


async def test_a_held_job_that_a_person_released_and_that_was_lost_again_is_handed_out_once_more(dsn: str) -> None:
    async def refuse(account: Account) -> Account:
        raise PermanentContract("no", code="No")

    async with opened(dsn, one_verb(refuse)) as worker:
        job = await begun(worker)
        await worker.executor.execute(job)
        worker.engine.resolve(job.key)
        await worker.deliver()  # its worker dies before it can claim
        await leases_end(worker.database)
        await worker.change(job, "reported_at = reported_at - interval '1 hour'")

        await sweeper(worker.database, worker.engine).ask()
        (again,) = await due(worker)
        await worker.executor.execute(again)

        assert again.key == job.key
        assert ((await worker.frame(job)).epoch, worker.known(job).state) == (2, JobState.INCIDENT)


async def test_a_failure_of_an_entry_that_was_cancelled_here_is_closed(dsn: str) -> None:
    agency = Agency()
    async with open_compensation(dsn, trip_registry(agency)) as place:
        agency.trouble("book-flight", TransientExternal("away", code="Away"))
        job = await _first_job(place)
        await place.worker.executor.execute(job)
        await place.engine.cancel(job.process_instance_key)
        assert place.entry_id is not None
        sweep = sweeper(place.database, place.engine)
        frame = await place.worker.frames.read(job.key)
        assert frame is not None
        assert frame.instance_uid is not None
        await sweep._reconciler.check(frame.instance_uid)
        await reconcile(sweep, place.database)
        await leases_end(place.database)

        assert await sweeper(place.database, place.engine).ask() == 0, "the end of the entry closed it"
        assert await _archived(place) == [("failed", "Away", "gone")]


async def test_an_undo_that_stopped_for_a_person_is_closed_when_its_entry_has_ended(dsn: str) -> None:
    agency = Agency()
    async with open_compensation(dsn, trip_registry(agency)) as place:
        known = await place.booked()
        agency.trouble("cancel-hotel", PermanentContract("no such booking", code="BookingUnknown"))
        await place.undo()
        await place.engine.cancel(known.job.process_instance_key)
        row: Any = await place.database.fetchrow("SELECT instance_uid FROM verbworker.workflow_instance")
        sweep = sweeper(place.database, place.engine)
        await sweep._reconciler.check(row["instance_uid"])
        await reconcile(sweep, place.database)
        await leases_end(place.database)
        swept = await sweep.sweep()

        assert await sweep.ask() == 0, "the end of the entry closed it"
        assert swept == 0, "frames of undos have no job of their own in the engine"
        assert await _archived(place) == [("incident", "BookingUnknown", "gone")]


async def test_a_job_that_was_refused_as_a_duplicates_is_closed_and_the_entry_goes_on(place: CompensationSetup) -> None:
    first = await _first_job(place)
    (workflow,) = place.registry.workflows.values()
    twin = await place.engine.start(Start(workflow.process, place.engine.variables(first.process_instance_key)))
    job = await place.take("trip.book-flight")
    claim = await place.worker.frames.push(_delivery(job))
    assert claim is not None
    await place.engine.cancel(twin.instance_key)
    refused = Incident("PermanentContract", "InstanceStray", "nobody wants this instance any more; it was cancelled")
    await place.worker.frames.pop_incident(claim, refused)
    await leases_end(place.database)

    await sweeper(place.database, place.engine).sweep()

    assert (first.process_instance_key != twin.instance_key, claim.instance is not None) == (True, True)
    assert await _status(place) is Status.EXECUTING
    assert await _archived(place) == [("failed", "JobGone", "gone")]


async def test_a_closed_frame_is_swept_no_more_and_counted_nowhere(place: CompensationSetup) -> None:
    job = await _first_job(place)
    await die(place.worker.executor, job, Point.PUSHED)
    await place.engine.cancel(job.process_instance_key)
    await leases_end(place.database)
    sweep = sweeper(place.database, place.engine)
    await sweep.sweep()
    await reconcile(sweep, place.database)

    waiting = await place.worker.frames.count_waiting()

    assert (waiting.held, waiting.unacknowledged) == (0, 0)
    assert await sweeper(place.database, place.engine).sweep() == 0
    assert [event.kind for event in await place.events(Kind.CANCELLED)] == [Kind.CANCELLED]


# ---- what comes back -------------------------------------------------------------------------------------------------


async def _closed(worker: LooplessWorker) -> Job:
    """A job that the engine called gone, and takes back: it was restored from a backup."""
    job = await begun(worker)
    await die(worker.executor, job, Point.PUSHED)
    worker.known(job).state = JobState.COMPLETED
    await leases_end(worker.database)
    await sweeper(worker.database, worker.engine).sweep()
    worker.engine.redeliver(job.key)
    return job


async def test_a_job_that_comes_back_after_it_was_closed_runs_and_its_frame_is_open_again(dsn: str) -> None:
    outside = Outside()
    async with opened(dsn, outside.registry()) as worker:
        job = await _closed(worker)
        assert await worker.column(job, "ack_result") == "gone"

        await die(worker.executor, await worker.deliver(), Point.PUSHED)

        assert (await worker.column(job, "state"), await worker.column(job, "acked_at")) == ("started", None)
        assert await worker.column(job, "ack_result") is None


async def test_a_job_that_comes_back_and_must_not_be_repeated_is_stopped_for_a_person(dsn: str) -> None:
    outside = Outside()
    async with opened(dsn, outside.registry(on_unknown="hold")) as worker:
        job = await begun(worker)
        await die(worker.executor, job, Point.PERFORMED)
        worker.known(job).state = JobState.COMPLETED
        await leases_end(worker.database)
        await sweeper(worker.database, worker.engine).sweep()
        worker.engine.redeliver(job.key)

        await worker.executor.execute(await worker.deliver())

        assert outside.calls == 1
        assert "JobReturned" in worker.known(job).messages[-1]


async def test_what_the_sweep_leaves_alone(dsn: str) -> None:
    async with opened(dsn, Outside().registry()) as worker:
        await worker.start()
        job = await worker.work()
        await leases_end(worker.database)
        sweep = sweeper(worker.database, worker.engine)

        assert (await sweep.sweep(), await sweep.ask()) == (0, 0)
        assert (await worker.frame(job)).state is FrameState.COMPLETED


async def test_an_incident_that_the_engine_took_before_its_worker_died_counts_as_reported(dsn: str) -> None:
    agency = Agency()
    async with open_compensation(dsn, trip_registry(agency)) as place:
        agency.trouble("book-flight", PermanentContract("no such flight", code="NoFlight"))
        job = await _first_job(place)
        await place.worker.executor.execute(job)
        await place.database.execute("UPDATE verbworker.job_frame SET reported_at = NULL")
        await leases_end(place.database)

        await sweeper(place.database, place.engine).sweep()

        row: Any = await place.database.fetchrow(
            "SELECT state::text, reported_at IS NOT NULL FROM verbworker.job_frame"
        )
        assert tuple(row) == ("incident", True)
