"""Undoing on a real database and an engine in memory: in reverse order, each step once, whatever happens."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.proxy import proxied
from tests.support.trip import PLACES, Agency, trip_registry
from tests.support.undoing import CompensationSetup, open_compensation
from verblint.names import COMPENSATE
from verbworker.errors import PermanentBusiness, PermanentContract, TransientExternal
from verbworker.job.failpoint import Point
from verbworker.job.frame import FrameState
from verbworker.job.outcome import NO_RESULT
from verbworker.payload.signature import KeyRing
from verbworker.runbook.event import Kind, Status
from verbworker.stores.cases.instances import Instances
from verbworker.stores.jobs.histories import Histories
from verbworker.testing.memory import JobState, MemoryJob

BACKWARDS = ["trip.book-car", "trip.book-hotel", "trip.book-flight"]
DONE_AND_UNDONE = ["book-flight", "book-car", "cancel-car", "cancel-flight"]


def state(known: MemoryJob) -> JobState:
    return known.state


@pytest.fixture
def agency() -> Agency:
    return Agency()


@pytest.fixture
async def place(dsn: str, agency: Agency) -> AsyncIterator[CompensationSetup]:
    async with open_compensation(dsn, trip_registry(agency)) as opened:
        yield opened


@pytest.mark.req("CMP-01", "CMP-02", "CMP-03", "CMP-04", "X-38", "X-40")
async def test_what_was_done_is_undone_in_reverse_order(place: CompensationSetup, agency: Agency) -> None:
    known = await place.booked()

    await place.undo()

    assert state(known) is JobState.COMPLETED
    assert await place.undone() == BACKWARDS
    assert await place.effects() == DONE_AND_UNDONE
    assert agency.count_effects("cancel-hotel") == 1
    assert set((await place.records()).values()) == {"undone"}
    assert known.variables["orch_booked"] == 0
    envelope = place.envelope(known.job.process_instance_key)
    assert envelope["data"] == {"booked": [], "cancelled": ["car", "hotel", "flight"]}
    assert [step["verb"] for step in envelope["sub_verb_trail"]][-3:] == [
        "trip.cancel-car",
        "trip.cancel-hotel",
        "trip.cancel-flight",
    ]


async def test_an_undo_is_told_with_the_step_it_undoes(place: CompensationSetup) -> None:
    await place.booked()

    await place.undo()

    first, *_ = await place.events(Kind.COMPENSATED)
    assert (first.detail["verb"], first.detail["undoes"]) == ("trip.cancel-car", "trip.book-car")
    assert place.entry_id is not None
    assert (await place.runbook.verify("tests", place.entry_id)).broken == {}


async def test_nothing_to_undo_is_done_at_once(place: CompensationSetup) -> None:
    await place.start(COMPENSATE)
    known = place.compensate_job()

    await place.undo()

    assert (known.state, known.variables) == (JobState.COMPLETED, {})
    assert await place.records() == {}


async def test_a_step_without_a_rollback_is_left_as_it_is(dsn: str, agency: Agency) -> None:
    manifest = {"trip.book-hotel": "trip.cancel-hotel"}
    async with open_compensation(dsn, trip_registry(agency, compensation=manifest)) as place:
        await place.booked()

        await place.undo()

        assert await place.undone() == ["trip.book-hotel"]
        assert await place.effects() == ["book-flight", "book-car"]


async def test_a_step_that_ended_with_a_business_no_is_not_undone(dsn: str, agency: Agency) -> None:
    manifest = {"trip.book-flight": "trip.cancel-flight", "trip.depart": "trip.cancel-hotel"}
    async with open_compensation(dsn, trip_registry(agency, compensation=manifest)) as place:
        await place.start("trip.book-flight", "trip.depart", COMPENSATE)
        await place.work("trip.book-flight")
        await place.work("trip.depart")  # the error is caught: the case goes on

        await place.undo()

        assert await place.undone() == ["trip.book-flight"]


@pytest.mark.parametrize("number", range(1, 16))
@pytest.mark.req("CMP-07", "X-38")
async def test_a_worker_that_dies_anywhere_on_the_way_undoes_nothing_twice(
    place: CompensationSetup, agency: Agency, number: int
) -> None:
    known, passed = await place.booked(), 0

    def strike(point: Point) -> bool:
        nonlocal passed
        passed += 1
        return passed == number

    assert await place.crash(strike)
    assert state(known) is not JobState.COMPLETED

    await place.undo()

    assert state(known) is JobState.COMPLETED
    assert await place.undone() == BACKWARDS
    assert await place.effects() == DONE_AND_UNDONE
    assert agency.count_effects("cancel-hotel") == 1


@pytest.mark.req("CMP-07")
async def test_a_compensate_job_that_comes_again_after_its_end_undoes_nothing(
    place: CompensationSetup, agency: Agency
) -> None:
    known = await place.booked()
    first = await place.undo()
    told = dict(known.variables)

    place.engine.redeliver(first.key)
    await place.undo()

    assert (known.completions, known.variables) == (2, told)
    assert await place.effects() == DONE_AND_UNDONE
    assert agency.count_effects("cancel-hotel") == 1


@pytest.mark.req("CMP-07")
async def test_two_workers_at_one_walk_undo_each_step_once(place: CompensationSetup, agency: Agency) -> None:
    known = await place.booked()
    other = place.boot()
    first = await place.take(COMPENSATE)
    place.engine.time_out(first.key)
    second = await place.take(COMPENSATE)

    await asyncio.gather(place.worker.compensation.serve(first), other.compensation.serve(second))
    while state(known) is not JobState.COMPLETED:  # whoever was too early comes again
        place.engine.time_out(known.job.key)
        await place.undo()

    assert await place.undone() == BACKWARDS
    assert await place.effects() == DONE_AND_UNDONE
    assert agency.count_effects("cancel-hotel") == 1


@pytest.mark.req("CMP-07")
async def test_one_worker_with_two_deliveries_undoes_each_step_once(place: CompensationSetup) -> None:
    known = await place.booked()
    first = await place.take(COMPENSATE)
    place.engine.time_out(first.key)
    second = await place.take(COMPENSATE)

    await asyncio.gather(place.worker.compensation.serve(first), place.worker.compensation.serve(second))
    while state(known) is not JobState.COMPLETED:
        place.engine.time_out(known.job.key)
        await place.undo()

    assert await place.effects() == DONE_AND_UNDONE


async def test_a_rival_waits_while_a_step_is_being_undone(place: CompensationSetup, agency: Agency) -> None:
    known = await place.booked()
    agency.reached.clear()
    agency.may_go_on.clear()
    first = await place.take(COMPENSATE)
    serving = asyncio.create_task(place.worker.compensation.serve(first))
    await agency.reached.wait()

    place.engine.time_out(first.key)
    second = await place.take(COMPENSATE)
    await place.boot().compensation.serve(second)

    assert state(known) is JobState.ACTIVATED
    agency.may_go_on.set()
    await serving
    assert state(known) is JobState.COMPLETED
    assert await place.effects() == DONE_AND_UNDONE


@pytest.mark.parametrize("fault", ["lose_answer", "drop", "refuse"])
async def test_an_answer_the_engine_did_not_get_is_given_again(place: CompensationSetup, fault: str) -> None:
    known = await place.booked()
    getattr(place.engine, fault)("complete")

    await place.undo()

    assert state(known) is JobState.COMPLETED
    assert await place.effects() == DONE_AND_UNDONE


@pytest.mark.req("X-38", "FAIL-02")
async def test_an_undo_that_fails_for_a_moment_is_tried_again_without_an_incident(
    place: CompensationSetup, agency: Agency
) -> None:
    known = await place.booked()
    agency.trouble("cancel-hotel", TransientExternal("the agency is away", code="AgencyAway"))

    await place.undo()

    assert (known.state, known.job.retries) == (JobState.ACTIVATABLE, 3)
    assert await place.undone() == ["trip.book-car"]

    await place.end_backoffs()
    await place.undo()

    assert state(known) is JobState.COMPLETED
    assert await place.undone() == BACKWARDS
    assert await place.events(Kind.INCIDENT_RAISED) == []
    assert agency.count_effects("cancel-hotel") == 1


@pytest.mark.parametrize(
    "error",
    [
        PermanentContract("the agency knows no such booking", code="BookingUnknown"),
        PermanentBusiness("the agency takes nothing back", code="NO_REFUND"),
    ],
)
@pytest.mark.req("X-38", "CMP-02")
async def test_an_undo_that_cannot_be_done_stops_the_walk_for_a_person(
    place: CompensationSetup, agency: Agency, error: Exception
) -> None:
    known = await place.booked()
    agency.trouble("cancel-hotel", error)

    await place.undo()

    assert state(known) is JobState.INCIDENT
    (message,) = known.messages
    assert message.startswith("undoing trip.book-hotel: Permanent")
    assert f"--engine-id {place.engine.engine_id}/undo" in message
    assert await place.records() == {
        "trip.book-flight": "pending",
        "trip.book-hotel": "held",
        "trip.book-car": "undone",
    }
    assert await place.effects() == ["book-flight", "book-car", "cancel-car"]
    (raised,) = await place.events(Kind.INCIDENT_RAISED)
    assert (raised.detail["undoes"], raised.detail["verb"]) == ("trip.book-hotel", "trip.cancel-hotel")
    (parked,) = await place.events(Kind.PARKED)
    assert parked.status is Status.PARKED


async def test_a_held_undo_is_listed_and_counted_with_the_frames_of_its_engine(
    place: CompensationSetup, agency: Agency
) -> None:
    await place.booked()
    agency.trouble("cancel-car", PermanentContract("no such booking", code="BookingUnknown"))

    await place.undo()

    (listed,) = await Histories(place.database, engine_id=place.engine.engine_id).list(FrameState.INCIDENT, limit=9)
    assert (listed["engine_id"], listed["job_key"], listed["verb"]) == (
        f"{place.engine.engine_id}/undo",
        await place.record_of("trip.book-car"),
        "trip.cancel-car",
    )
    assert (await place.worker.frames.count_waiting()).held == 1


async def test_retries_that_run_out_stop_the_walk_too(place: CompensationSetup, agency: Agency) -> None:
    known = await place.booked()
    agency.trouble("cancel-hotel", *[TransientExternal("away", code="AgencyAway")] * 3)

    for _ in range(3):
        await place.undo()
        await place.end_backoffs()

    assert state(known) is JobState.INCIDENT
    assert (await place.records())["trip.book-hotel"] == "held"


@pytest.mark.req("X-38", "CMP-07")
async def test_an_incident_resolved_in_the_engine_goes_on_where_it_stopped(
    place: CompensationSetup, agency: Agency
) -> None:
    known = await place.booked()
    agency.trouble("cancel-hotel", PermanentContract("no such booking", code="BookingUnknown"))
    await place.undo()

    place.engine.advance(60)
    place.engine.resolve(known.job.key)
    await place.undo()

    assert state(known) is JobState.COMPLETED
    assert await place.undone() == BACKWARDS
    assert await place.effects() == DONE_AND_UNDONE
    assert len(await place.events(Kind.INCIDENT_RESOLVED)) == 1


@pytest.mark.req("X-38")
async def test_a_released_frame_goes_on_where_it_stopped(place: CompensationSetup, agency: Agency) -> None:
    known = await place.booked()
    agency.trouble("cancel-hotel", PermanentContract("no such booking", code="BookingUnknown"))
    await place.undo()

    answer = await place.release(await place.record_of("trip.book-hotel"))
    await place.undo()

    assert answer.done
    assert state(known) is JobState.COMPLETED
    assert await place.undone() == BACKWARDS
    assert await place.effects() == DONE_AND_UNDONE


async def test_a_delivery_from_before_the_incident_does_not_go_on(place: CompensationSetup, agency: Agency) -> None:
    known = await place.booked()
    agency.trouble("cancel-car", PermanentContract("no such booking", code="BookingUnknown"))
    early = await place.take(COMPENSATE)
    place.engine.time_out(early.key)
    await place.undo()

    await place.boot().compensation.serve(early)

    assert state(known) is JobState.INCIDENT
    assert await place.undone() == []


async def test_an_incident_the_engine_did_not_hear_of_is_told_with_the_next_delivery(
    place: CompensationSetup, agency: Agency
) -> None:
    known, struck = await place.booked(), []
    agency.trouble("cancel-car", PermanentContract("no such booking", code="BookingUnknown"))

    def strike(point: Point) -> bool:
        struck.append(point)
        return point is Point.FAILED

    assert await place.crash(strike)
    place.engine.advance(3600)
    await place.undo()

    assert state(known) is JobState.INCIDENT
    assert await place.undone() == []


async def test_a_later_compensate_task_undoes_only_what_was_done_since(
    place: CompensationSetup, agency: Agency
) -> None:
    instance = await place.start("trip.book-flight", COMPENSATE, "trip.book-car", COMPENSATE)
    await place.work("trip.book-flight")
    await place.undo()
    await place.work("trip.book-car")

    await place.undo()

    assert place.engine.has_ended(instance)
    assert await place.undone() == ["trip.book-flight", "trip.book-car"]
    assert await place.effects() == ["book-flight", "cancel-flight", "book-car", "cancel-car"]


async def test_another_task_that_meets_a_held_undo_hears_of_it_and_does_not_run_it(
    place: CompensationSetup, agency: Agency
) -> None:
    known = await place.booked(COMPENSATE)
    agency.trouble("cancel-car", PermanentContract("no such booking", code="BookingUnknown"))
    stopped = await place.undo()
    place.engine.redeliver(stopped.key)
    await place.engine.complete(stopped.key, NO_RESULT)  # the first task was left by another way
    later = place.compensate_job()
    assert later is not known

    place.engine.advance(60)
    await place.undo()

    assert state(later) is JobState.INCIDENT
    assert await place.undone() == []

    place.engine.advance(60)
    place.engine.resolve(later.job.key)
    await place.undo()

    assert state(later) is JobState.COMPLETED
    assert await place.undone() == BACKWARDS


async def test_a_long_undo_asks_the_engine_for_time(place: CompensationSetup, agency: Agency) -> None:
    known = await place.booked()
    agency.reached.clear()
    agency.may_go_on.clear()
    job = await place.take(COMPENSATE)
    serving = asyncio.create_task(place.worker.compensation.serve(job))
    await agency.reached.wait()

    place.engine.advance(50)
    await place.worker.compensation.beat()
    place.engine.advance(50)

    assert known.until_ms > place.engine.clock.now_ms
    agency.may_go_on.set()
    await serving


async def test_a_cancelled_case_finishes_the_undo_at_hand_and_begins_no_other(
    place: CompensationSetup, agency: Agency
) -> None:
    known = await place.booked()
    agency.reached.clear()
    agency.may_go_on.clear()
    job = await place.take(COMPENSATE)
    serving = asyncio.create_task(place.worker.compensation.serve(job))
    await agency.reached.wait()

    await place.engine.cancel(known.job.process_instance_key)
    await place.worker.compensation.beat()
    agency.may_go_on.set()
    await serving

    assert await place.undone() == ["trip.book-car"]


async def test_a_stopping_worker_gives_its_undo_back_and_spends_nothing(
    place: CompensationSetup, agency: Agency
) -> None:
    known = await place.booked()
    agency.reached.clear()
    agency.may_go_on.clear()
    job = await place.take(COMPENSATE)
    serving = asyncio.create_task(place.worker.compensation.serve(job))
    await agency.reached.wait()

    place.worker.compensation.stop()
    await serving

    assert (known.state, known.job.retries) == (JobState.ACTIVATABLE, 3)
    assert (await place.records())["trip.book-car"] == "pending"
    agency.may_go_on.set()
    place.worker = place.boot()
    await place.undo()
    assert state(known) is JobState.COMPLETED
    assert await place.effects() == DONE_AND_UNDONE


STATEMENTS = {
    "plan": "ON CONFLICT (instance_uid, step_seq)",
    "next": "ORDER BY step_seq DESC",
    "take": "SET job_key = $2",
    "look": "AS undone",
    "returned": "ORDER BY ended_at, record_id",
}


@pytest.mark.parametrize("statement", STATEMENTS)
async def test_a_database_that_goes_away_on_the_way_costs_one_more_delivery(
    dsn: str, agency: Agency, statement: str
) -> None:
    async with proxied(dsn) as proxy, open_compensation(proxy.dsn, trip_registry(agency)) as place:
        known = await place.booked()
        proxy.cut(STATEMENTS[statement], "before")

        await place.undo()

        assert (proxy.cuts, known.state) == (1, JobState.ACTIVATED)
        assert known.until_ms <= place.engine.clock.now_ms + 2_000
        place.engine.advance(3)
        await place.undo()
        assert state(known) is JobState.COMPLETED
        assert await place.undone() == BACKWARDS
        assert await place.effects() == DONE_AND_UNDONE


@pytest.mark.req("CMP-01")
async def test_a_whole_worker_serves_compensation_beside_its_verbs(dsn: str, agency: Agency) -> None:
    async with open_compensation(dsn, trip_registry(agency)) as place:
        instance = await place.start(*(f"trip.book-{name}" for name in PLACES), COMPENSATE)
        async with asyncio.timeout(60), place.working():
            await place.engine.until(lambda: place.engine.has_ended(instance))

        assert await place.undone() == BACKWARDS
        assert await place.effects() == DONE_AND_UNDONE


async def test_a_draining_worker_gives_back_what_it_is_undoing(dsn: str, agency: Agency) -> None:
    async with open_compensation(dsn, trip_registry(agency)) as place:
        known = await place.booked()
        agency.reached.clear()
        agency.may_go_on.clear()
        async with asyncio.timeout(60), place.working(grace=0.01):
            await agency.reached.wait()

        assert (known.state, known.job.retries) == (JobState.ACTIVATABLE, 3)
        assert (await place.records())["trip.book-car"] == "pending"


async def test_a_draining_worker_keeps_what_it_is_undoing_until_it_is_done(dsn: str, agency: Agency) -> None:
    async with open_compensation(dsn, trip_registry(agency)) as place:
        known = await place.booked()
        agency.reached.clear()
        agency.may_go_on.clear()
        short = timedelta(milliseconds=600)
        async with asyncio.timeout(60), place.working(grace=60, lease=short, timeout=short) as stop:
            await agency.reached.wait()
            stop.set()
            leases = await _seen(4, lambda: place.database.fetchrow(_LEASE))
            activations = await _seen(2, lambda: _until(place, known))
            agency.may_go_on.set()

        assert (len(leases), len(activations)) == (4, 2)
        assert known.state is JobState.COMPLETED
        assert await place.undone() == BACKWARDS
        assert await place.effects() == DONE_AND_UNDONE


_LEASE = "SELECT lease_until FROM verbworker.job_frame WHERE state = 'started'"


async def _until(place: CompensationSetup, known: MemoryJob) -> int:
    """Until when the engine leaves a job to its worker, on a clock that goes on a little with each look."""
    place.engine.advance(0.001)
    return known.until_ms


async def _seen(count: int, look: Callable[[], Awaitable[object]]) -> set[object]:
    """So many different answers."""
    seen: set[object] = set()
    while len(seen) < count:
        seen.add(await look())
        await asyncio.sleep(0.01)
    return seen


async def test_the_case_of_a_cancelled_entry_is_undone_no_more(place: CompensationSetup) -> None:
    await place.booked()
    job = await place.take(COMPENSATE)
    assert place.entry_id is not None
    await place.runbook.append(place.entry_id, Kind.CANCELLED, once="end", detail={})

    await place.worker.compensation.serve(job)

    assert not await place.engine.alive(job.process_instance_key)
    assert await place.records() == {}


async def test_a_job_of_an_instance_nobody_knows_is_refused(place: CompensationSetup) -> None:
    known = await place.booked()
    job = await place.take(COMPENSATE)
    await place.worker.compensation.serve(replace(job, variables={}))

    assert state(known) is JobState.INCIDENT
    assert "InstanceUnknown" in known.messages[0]
    assert await place.records() == {}


async def test_a_payload_that_was_tampered_with_stops_the_first_undo(place: CompensationSetup) -> None:
    known = await place.booked()
    job = await place.take(COMPENSATE)
    forged = {**job.variables, "domain_payload": str(job.variables["domain_payload"]).replace("car", "jet")}
    await place.worker.compensation.serve(replace(job, variables=forged))

    assert state(known) is JobState.INCIDENT
    assert "SealMismatch" in known.messages[0]
    assert (await place.records())["trip.book-car"] == "held"


async def test_signed_payloads_stay_signed(dsn: str, agency: Agency) -> None:
    ring = KeyRing("k1", {"k1": b"a secret that is long enough to be one"})
    async with open_compensation(dsn, trip_registry(agency, integrity="signed"), ring=ring) as place:
        known = await place.booked()

        await place.undo()

        assert state(known) is JobState.COMPLETED
        assert str(known.variables["domain_payload_hash"]).startswith("hmac-sha256-v2:k1:")


async def test_undo_frames_need_no_relay_and_leave_for_the_archive(place: CompensationSetup) -> None:
    await place.booked()

    await place.undo()

    rows = await place.database.fetch(
        "SELECT ack_result FROM verbworker.job_frame WHERE engine_id LIKE '%/undo' AND acked_at IS NOT NULL"
    )
    assert [row["ack_result"] for row in rows] == ["undone"] * 3


async def test_what_was_done_before_the_engine_re_created_the_instance_is_undone_too(place: CompensationSetup) -> None:
    await place.booked()
    job = await place.take(COMPENSATE)
    moved = replace(job, process_instance_key=job.process_instance_key + 1)
    (instance,) = await place.database.fetch("SELECT instance_uid FROM verbworker.workflow_instance")
    assert await Instances(place.database).adopt(instance["instance_uid"], moved, instead_of=job.process_instance_key)

    await place.worker.compensation.serve(moved)

    assert await place.undone() == BACKWARDS
