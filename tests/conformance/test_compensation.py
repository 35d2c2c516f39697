"""Undoing on both engines: three steps, a failure at the fourth, and each undone in reverse order, once."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.engines import Gateway
from tests.support.models import guarded
from tests.support.rig import Rig, opened
from tests.support.start_router import asking, beside
from tests.support.trip import EFFECTS, PLACES, TABLE, Agency, trip_registry
from tests.support.undoing import RECORDS
from verblint.names import COMPENSATE
from verbworker.background.poll_loop import run_all
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Resource
from verbworker.errors import JobGone, PermanentContract
from verbworker.job.job import PAYLOAD, Job
from verbworker.model.weave import weave
from verbworker.runbook.event import Kind, Status
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.deployments import Deployments
from verbworker.stores.jobs.compensations import Compensations
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.histories import Histories
from verbworker.work.jobs.executor import Databases
from verbworker.work.listeners.compensation import CompensationJobs
from verbworker.work.upkeep.releases import Release, Releases

ON = ("embedded", "zeebe", "zeebe-rest")


@pytest.fixture
def domain(unique: Callable[[str], str]) -> str:
    return unique("trip")


@pytest.fixture
def agency() -> Agency:
    return Agency()


@pytest.fixture
async def rig(dsn: str, gateway: Gateway, domain: str, agency: Agency) -> AsyncIterator[Rig]:
    async with opened(dsn, gateway.address, trip_registry(agency, domain)) as rig:
        await rig.database.execute(TABLE)
        model = guarded(
            f"{domain}-arrange", [f"{domain}.book-{place}" for place in PLACES], f"{domain}.depart", COMPENSATE
        )
        (deployed,) = await rig.engine.deploy([Resource("trip.bpmn", model)])
        # Without listeners, which nobody here serves; with what it catches, or no code would be thrown.
        kept = replace(weave(model, rig.registry), content=model)
        deployments = Deployments(rig.database, engine_id=rig.engine.engine_id)
        await deployments.record(deployed, kept, resource="trip.bpmn", authored_sha256=bytes(32), by="tests")
        yield rig


@asynccontextmanager
async def open_compensation(rig: Rig) -> AsyncIterator[CompensationJobs]:
    pools = Databases(rig.database, rig.database)
    compensation = CompensationJobs(rig.registry, rig.engine, pools, rig.executor._verb_run, owner=uuid4())
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(run_all(compensation.services))
        try:
            yield compensation
        finally:
            running.cancel()


@pytest.fixture
async def compensation(rig: Rig) -> AsyncIterator[CompensationJobs]:
    async with open_compensation(rig) as compensation:
        yield compensation


async def failed_trip(rig: Rig, domain: str) -> UUID:
    """Book everything and fail to depart; the entry."""
    async with beside(rig) as starts:
        entry = await starts.router.invoke(f"{domain}.arrange", {}, caller=asking())
        await starts.dispatcher.drain()
    for place in PLACES:
        await rig.work(f"{domain}.book-{place}")
    await rig.work(f"{domain}.depart")
    return entry.entry_id


async def compensate_job(rig: Rig, entry_id: UUID, *, timeout_ms: int = 60_000) -> Job:
    """The compensate job of one entry: the broker is shared, and so is its job type."""
    for _ in range(20):
        for job in await rig.take(COMPENSATE, timeout_ms=timeout_ms):
            if job.variables["vw_entry_id"] == str(entry_id):
                return job
    raise AssertionError("the compensate job never came")


async def told(rig: Rig, entry_id: UUID) -> list[tuple[str, Any]]:
    """What the entry tells of steps and their undoing, without the test's own prefix."""
    events = await Runbook(rig.database).events(entry_id)
    kinds = (Kind.STEP_COMPLETED, Kind.COMPENSATED, Kind.INCIDENT_RAISED, Kind.INCIDENT_RESOLVED)
    return [(event.kind.value, event.detail["verb"].split(".")[1]) for event in events if event.kind in kinds]


async def resolve(rig: Rig, job: Job) -> None:
    """Resolve the incident of a job: gRPC tells nobody its key, but it is one of the next."""
    if isinstance(rig.engine, EmbeddedEngine):
        await rig.engine.release(job.key, retries=3)
        return
    for key in range(job.key + 1, job.key + 400):
        try:
            await rig.engine.release(job.key, retries=3, incident_key=key)
        except JobGone:
            continue
        return
    raise LookupError("no incident among the next keys")


STEPS = [("StepCompleted", verb) for verb in ("book-flight", "book-hotel", "book-car", "depart")]


@pytest.mark.req("CMP-01", "CMP-02", "CMP-03", "CMP-04", "CMP-05", "X-38", "X-40")
async def test_a_failure_at_the_fourth_step_undoes_the_three_before_in_reverse_order(
    rig: Rig, compensation: CompensationJobs, domain: str, agency: Agency
) -> None:
    entry_id = await failed_trip(rig, domain)
    job = await compensate_job(rig, entry_id)

    await compensation.serve(job)

    undone = [("Compensated", verb) for verb in ("cancel-car", "cancel-hotel", "cancel-flight")]
    assert await told(rig, entry_id) == [*STEPS, *undone]
    assert [row["deed"] for row in await rig.database.fetch(EFFECTS)] == [
        "book-flight",
        "book-car",
        "cancel-car",
        "cancel-flight",
    ]
    assert agency.count_effects("cancel-hotel") == 1
    (variables,) = [variables for key, variables in rig.engine.completions if key == job.key]
    envelope = json.loads(variables[PAYLOAD])
    assert variables["orch_booked"] == 0
    assert envelope["data"] == {"booked": [], "cancelled": ["car", "hotel", "flight"]}
    assert [step["verb"].split(".")[1] for step in envelope["sub_verb_trail"]] == [
        "book-flight",
        "book-hotel",
        "book-car",
        "cancel-car",
        "cancel-hotel",
        "cancel-flight",
    ]
    assert (await Runbook(rig.database).verify("tests", entry_id)).broken == {}


@pytest.mark.req("X-38", "CMP-07", "EVT-07")
async def test_an_incident_in_the_middle_is_mended_and_the_rest_is_undone(
    rig: Rig, compensation: CompensationJobs, domain: str, agency: Agency
) -> None:
    entry_id = await failed_trip(rig, domain)
    agency.trouble("cancel-hotel", PermanentContract("the agency knows no such booking", code="BookingUnknown"))
    stopped = await compensate_job(rig, entry_id)
    await compensation.serve(stopped)
    runbook = Runbook(rig.database)
    parked = await runbook.entry(entry_id)
    (message,) = [message for key, retries, message in rig.engine.failures if (key, retries) == (stopped.key, 0)]

    assert parked is not None
    assert parked.status is Status.PARKED
    assert message.startswith(f"undoing {domain}.book-hotel: PermanentContract BookingUnknown")
    rows = await rig.database.fetch(RECORDS)
    assert [row["state"] for row in rows] == ["pending", "held", "undone"]

    records = Compensations(rig.database, engine_id="rig")
    frames = Frames(rig.database, engine_id=records.engine_id, owner=uuid4())
    releases = Releases(frames, Histories(rig.database, engine_id=records.engine_id), rig.engine, records=records)
    answer = await releases.release(Release(int(rows[1]["record_id"]), "ann", "the agency found it", 3))
    assert answer.done, answer.sentence
    await resolve(rig, stopped)
    await compensation.serve(await compensate_job(rig, entry_id))

    assert (await told(rig, entry_id))[len(STEPS) :] == [
        ("Compensated", "cancel-car"),
        ("IncidentRaised", "cancel-hotel"),
        ("IncidentResolved", "cancel-hotel"),
        ("Compensated", "cancel-hotel"),
        ("Compensated", "cancel-flight"),
    ]
    assert stopped.key in [key for key, _ in rig.engine.completions]


@pytest.mark.req("CMP-07")
async def test_a_compensate_job_the_broker_delivers_to_two_workers_undoes_each_step_once(
    rig: Rig, compensation: CompensationJobs, domain: str, agency: Agency
) -> None:
    entry_id = await failed_trip(rig, domain)
    first = await compensate_job(rig, entry_id, timeout_ms=1)
    second = await compensate_job(rig, entry_id)
    assert first.key == second.key

    async with open_compensation(rig) as other:
        await asyncio.gather(compensation.serve(first), other.serve(second))
        await compensation.serve(second)

    undone = [event for event in await told(rig, entry_id) if event[0] == "Compensated"]
    assert [verb for _, verb in undone] == ["cancel-car", "cancel-hotel", "cancel-flight"]
    effects = [row["deed"] for row in await rig.database.fetch(EFFECTS)]
    assert effects == ["book-flight", "book-car", "cancel-car", "cancel-flight"]
    assert agency.count_effects("cancel-hotel") == 1
