"""The event bridge on every engine: what the engine waits for is in the runbook, in people's words."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from tests.support import case_models as models
from tests.support.casebook import COMPLETE, FIRED, GATE, PARK, START, UNPARK, CaseSetup, casebook, working
from tests.support.engines import Gateway
from tests.support.entries import told
from tests.support.eventually import eventually
from tests.support.mail import received
from tests.support.zeebe_engine import Bench
from verbworker.engine.protocol import Signal, Start
from verbworker.runbook.event import Kind, Status, Wait
from verbworker.runbook.event import describe as sentence

ON = ("embedded", "zeebe")
ALSO_ON = ("zeebe-8.8", "zeebe-8.9")


@pytest.fixture
async def book(dsn: str, gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[CaseSetup]:
    async with casebook(dsn, gateway.address, unique("case")) as book:
        yield book


@pytest.mark.req("EVT-01", "EVT-02", "EVT-05", "EVT-09", "EVT-15", "WAIT-06", "COR-08", "ADP-03", "X-36", "EVT-18")
async def test_a_message_wait_parks_the_entry_and_says_what_for(book: CaseSetup) -> None:
    entry_id = await book.start(models.waits_for, event=models.LETTER)
    await book.serve("first", PARK)

    (wait,) = await book.waits(entry_id)
    (parked,) = await book.events(entry_id, Kind.PARKED)
    assert await book.status(entry_id) == "parked"
    assert (wait.kind, wait.reason, wait.message_name) == (
        Wait.EXTERNAL_SIGNAL,
        "Awaiting documents",
        book.message,
    )
    assert sentence(parked) == "Awaiting documents"
    assert told(parked, "wait", "message_name", "correlation_key", "instance_key") == {
        "wait": "external_signal",
        "message_name": book.message,
        "correlation_key": f"{book.domain}-key",
        "instance_key": await book.instance_key(entry_id),
    }
    assert await book.kinds(entry_id) == ["DurableTaskStarted", "StepCompleted", "Parked"]


@pytest.mark.req("EVT-05", "EVT-14", "WAIT-06", "EVT-17")
async def test_the_message_resumes_it_and_is_in_the_book(book: CaseSetup) -> None:
    entry_id = await book.start(models.waits_for, event=models.LETTER)
    await book.serve("first", PARK)

    await book.send(pages=3)
    await book.serve(UNPARK)

    assert await book.status(entry_id) == "executing"
    assert await book.waits(entry_id) == []
    assert (await book.kinds(entry_id))[-2:] == ["MessageReceived", "Resumed"]
    (message,) = await received(book.database, await book.uid(entry_id))
    assert message.payload == {"pages": 3}


@pytest.mark.req("EVT-05")
async def test_listener_jobs_that_come_again_change_nothing(book: CaseSetup) -> None:
    entry_id = await book.start(models.waits_for, event=models.LETTER)
    park = await book.serve("first", PARK)
    await book.send("m-1")
    await book.send("m-2")
    await book.deliver(park)
    unpark = await book.serve(UNPARK)
    before = await book.kinds(entry_id)

    for job in (park, unpark, park):
        await book.deliver(job)

    assert await book.kinds(entry_id) == before
    assert await book.waits(entry_id) == []
    assert len(await received(book.database, await book.uid(entry_id))) == 1


@pytest.mark.req("WAIT-08", "COR-01", "COR-11")
async def test_a_case_that_waits_is_brought_to_its_end_by_another_boot(
    book: CaseSetup, dsn: str, gateway: Gateway
) -> None:
    entry_id = await book.start(models.waits_for, event=models.LETTER)
    await book.serve("first", PARK)
    gateway.advance(30 * 24 * 3600)

    async with casebook(dsn, gateway.address, book.domain) as other:
        await other.send()
        await other.serve(UNPARK, "second", COMPLETE)

    assert await book.status(entry_id) == "completed"


@pytest.mark.req("EVT-04", "EVT-09", "WAIT-03")
async def test_a_timer_parks_fires_and_resumes(book: CaseSetup, gateway: Gateway) -> None:
    entry_id = await book.start(models.waits_for, event=models.TIMER)
    await book.serve("first", PARK)
    (wait,), parked = await book.waits(entry_id), await book.status(entry_id)

    gateway.advance(3601)
    await book.serve(UNPARK)

    assert (wait.kind, wait.reason, parked) == (Wait.TIMER, "Awaiting documents", "parked")
    assert (await book.kinds(entry_id))[-2:] == ["TimerFired", "Resumed"]
    (fired,) = await book.events(entry_id, Kind.TIMER_FIRED)
    assert sentence(fired) == "Timer expired: documents"
    assert await book.status(entry_id) == "executing"


@pytest.mark.req("WAIT-03", "EVT-04", "EVT-18")
async def test_a_boundary_timer_that_interrupts_ends_the_wait_it_is_attached_to(
    book: CaseSetup, gateway: Gateway
) -> None:
    entry_id = await book.start(models.receives, interrupting=True)
    await book.serve(PARK)

    gateway.advance(3601)
    job = await book.serve(FIRED)
    await book.deliver(job)

    assert await book.kinds(entry_id) == ["DurableTaskStarted", "Parked", "TimerFired", "Resumed"]
    assert await book.status(entry_id) == "executing"
    closed = await book.database.fetch("SELECT element_id, closed_as FROM verbworker.parked_token ORDER BY 1")
    assert [tuple(row) for row in closed] == [("wait", "fired"), ("week", "fired")]
    await book.serve("second")


@pytest.mark.req("WAIT-03")
async def test_a_boundary_timer_that_does_not_interrupt_leaves_the_wait(book: CaseSetup, gateway: Gateway) -> None:
    entry_id = await book.start(models.receives, interrupting=False)
    await book.serve(PARK)

    gateway.advance(3601)
    await book.serve(FIRED, "second")

    assert await book.kinds(entry_id) == ["DurableTaskStarted", "Parked", "TimerFired", "StepCompleted"]
    assert await book.reasons(entry_id) == ["Awaiting documents"]
    assert await book.status(entry_id) == "parked"
    await book.send()
    await book.serve(UNPARK)
    assert await book.status(entry_id) == "executing"


@pytest.mark.req("WAIT-03", "EVT-03")
async def test_a_gate_whose_time_ran_out_is_closed(book: CaseSetup, gateway: Gateway) -> None:
    entry_id = await book.start(models.reviews)
    gate = await book.serve(GATE)
    (wait,) = await book.waits(entry_id)

    gateway.advance(3601)
    await book.serve(FIRED)
    await book.deliver(gate)

    assert (wait.kind, wait.reason) == (Wait.HUMAN_GATE, "Awaiting reviewer")
    assert await book.waits(entry_id) == []
    assert await book.status(entry_id) == "executing"
    assert "TimerFired" in await book.kinds(entry_id)


@pytest.mark.req("WAIT-03")
async def test_a_subprocess_whose_time_ran_out_ends_the_waits_inside_and_no_others(
    book: CaseSetup, gateway: Gateway
) -> None:
    entry_id = await book.start(models.bounded)
    await book.serve(PARK, PARK)
    before = sorted(await book.reasons(entry_id))

    gateway.advance(3601)
    await book.serve(FIRED)

    assert before == ["Awaiting a day", "Awaiting documents"]
    assert await book.reasons(entry_id) == ["Awaiting a day"]
    assert await book.status(entry_id) == "parked"


@pytest.mark.req("EVT-05", "EVT-18")
async def test_a_choice_waits_once_and_goes_on_by_what_came_first(book: CaseSetup) -> None:
    entry_id = await book.start(models.chooses)
    await book.serve(PARK)
    waited = await book.reasons(entry_id)

    await book.send()
    await book.serve(UNPARK)

    assert waited == ["Awaiting documents or a week"]
    assert await book.kinds(entry_id) == ["DurableTaskStarted", "Parked", "MessageReceived", "Resumed"]
    assert await book.waits(entry_id) == []


@pytest.mark.req("EVT-04")
async def test_a_choice_whose_time_is_up_tells_the_timer(book: CaseSetup, gateway: Gateway) -> None:
    entry_id = await book.start(models.chooses)
    await book.serve(PARK)

    gateway.advance(3601)
    await book.serve(UNPARK)

    assert await book.kinds(entry_id) == ["DurableTaskStarted", "Parked", "TimerFired", "Resumed"]
    assert await book.status(entry_id) == "executing"


@pytest.mark.req("EVT-14")
@pytest.mark.parametrize("interrupting", [True, False])
async def test_a_message_at_the_edge_of_a_task_is_received_once(book: CaseSetup, interrupting: bool) -> None:
    entry_id = await book.start(models.asks_and_hears, interrupting=interrupting)
    await book.take("first")
    await book.send("m-1")
    await book.send("m-2")

    job = await book.serve(FIRED)
    await book.deliver(job)

    assert [message.payload for message in await received(book.database, await book.uid(entry_id))] == [{}]
    assert await book.kinds(entry_id) == ["DurableTaskStarted", "MessageReceived"]


@pytest.mark.req("EVT-01", "X-39", "COR-07")
async def test_the_first_listener_pins_an_instance_whose_starter_died(book: CaseSetup) -> None:
    await book.deploy(models.receives, interrupting=True)
    entry_id = await book.ask()
    (dispatch,) = await book.dispatches.claim(1, claim_for=timedelta(minutes=1))
    started = await book.engine.start(Start(dispatch.process_id, dispatch.variables))

    await book.serve(PARK)

    entry = await book.entry(entry_id)
    assert await book.instance_key(entry_id) == started.instance_key
    assert (entry.definition_key, entry.process_version) == (started.definition_key, started.version)
    assert await book.kinds(entry_id) == ["DurableTaskStarted", "Parked"]


async def test_a_job_of_an_instance_nobody_knows_stops_for_a_person(book: CaseSetup) -> None:
    await book.deploy(models.receives, interrupting=True)
    await book.engine.start(Start(book.workflow.process, {"corr_case": "nobody"}))

    job = await book.serve(PARK)

    ((key, retries, message),) = book.engine.failures
    assert (key, retries) == (job.key, 0)
    assert "InstanceUnknown: this process instance was not started by verbworker" in message
    await book.engine.cancel(job.process_instance_key)


@pytest.mark.req("EVT-14", "EVT-08", "X-34")
async def test_a_listener_that_cannot_be_served_is_an_incident_until_it_can(book: CaseSetup) -> None:
    entry_id = await book.start(models.receives, interrupting=True)
    await book.database.execute("DELETE FROM verbworker.process_deployment")
    job = replace(await book.take(PARK), retries=1)
    await book.deliver(job)
    await book.deliver(job)
    (wait,), held = await book.waits(entry_id), await book.status(entry_id)
    raised = await book.kinds(entry_id)

    await book.deploy(models.receives, interrupting=True)
    await Bench(book.engine, "", "").incident_of(job)
    await book.serve(PARK)

    assert (wait.kind, held) == (Wait.INCIDENT, "parked")
    assert raised == ["DurableTaskStarted", "IncidentRaised", "Parked"]
    assert (await book.kinds(entry_id))[3:] == ["IncidentResolved", "Resumed", "Parked"]
    assert await book.reasons(entry_id) == ["Awaiting documents"]
    assert (await book.entry(entry_id)).status is Status.PARKED


@pytest.mark.req("X-39", "COR-07", "COR-02")
async def test_an_instance_that_a_message_started_is_pinned_by_its_first_listener(book: CaseSetup) -> None:
    await book.deploy(models.started_by_message)
    entry_id = await book.ask()
    (dispatch,) = await book.dispatches.claim(1, claim_for=timedelta(minutes=1))
    await book.engine.publish(Signal(book.message, "", "start-1", 60_000, dispatch.variables))

    job = await book.serve(START)

    entry = await book.entry(entry_id)
    assert await book.instance_key(entry_id) == job.process_instance_key
    assert (entry.process_version, entry.definition_key) == (1, job.process_definition_key)
    await book.serve("first")


@pytest.mark.req("X-39")
async def test_an_instance_that_a_strangers_message_started_stays_visible(book: CaseSetup) -> None:
    await book.deploy(models.started_by_message)
    await book.engine.publish(Signal(book.message, "", "start-1", 60_000, {}))

    job = await book.serve(START)

    ((key, retries, message),) = book.engine.failures
    assert (key, retries) == (job.key, 0)
    assert "InstanceUnknown" in message
    assert await book.engine.alive(job.process_instance_key)
    await book.engine.cancel(job.process_instance_key)


@pytest.mark.req("WAIT-07", "EVT-09", "EVT-16", "COR-10")
async def test_a_worker_with_every_desk_brings_many_cases_to_their_end(book: CaseSetup) -> None:
    await book.deploy(models.waits_for, event=models.LETTER)
    cases = [await book.ask(f"{book.domain}-{number}") for number in range(12)]
    await book.dispatcher.drain()
    async with working(book):
        await eventually(lambda: _all_are(book, cases, "parked"))
        for number in range(12):
            await book.send(f"m-{number}", to=f"{book.domain}-{number}")
        await eventually(lambda: _all_are(book, cases, "completed"))

    entries = [await book.entry(entry_id) for entry_id in cases]
    results = [(await book.events(entry_id, Kind.RESULT))[0] for entry_id in cases]
    assert all(entry.outcome == {"first": "done", "second": "done"} for entry in entries)
    assert all(result.detail["flags"] == {"orch_first": True} for result in results)
    assert (await book.runbook.verify(entries[0].tenant_id)).broken == {}
    assert {tuple(await book.kinds(entry_id)) for entry_id in cases} == {
        (
            "DurableTaskStarted",
            "StepCompleted",
            "Parked",
            "MessageReceived",
            "Resumed",
            "StepCompleted",
            "ExecutionResult",
        )
    }


async def _all_are(book: CaseSetup, cases: list[UUID], status: str) -> bool:
    return {await book.status(entry_id) for entry_id in cases} == {status}
