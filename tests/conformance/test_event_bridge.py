"""The event bridge on every engine: what the engine waits for is in the runbook, in people's words."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from tests.support import case_models as models
from tests.support.case_setup import COMPLETE, FIRED, GATE, PARK, START, UNPARK, CaseSetup, case_setup, working
from tests.support.engines import Gateway
from tests.support.entries import told
from tests.support.eventually import eventually
from tests.support.mail import received
from tests.support.zeebe_engine import Bench
from verbworker.engine.protocol import Signal, Start
from verbworker.runbook.event import Kind, Status, Wait
from verbworker.runbook.event import describe as sentence

ON = ("embedded", "zeebe", "zeebe-rest")
ALSO_ON = ("zeebe-8.8", "zeebe-8.9")


@pytest.fixture
async def setup(dsn: str, gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[CaseSetup]:
    async with case_setup(dsn, gateway.address, unique("case")) as setup:
        yield setup


@pytest.mark.req("EVT-01", "EVT-02", "EVT-05", "EVT-09", "EVT-15", "WAIT-06", "COR-08", "ADP-03", "X-36", "EVT-18")
async def test_a_message_wait_parks_the_entry_and_says_what_for(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.waits_for, event=models.LETTER)
    await setup.serve("first", PARK)

    (wait,) = await setup.waits(entry_id)
    (parked,) = await setup.events(entry_id, Kind.PARKED)
    assert await setup.status(entry_id) == "parked"
    assert (wait.kind, wait.reason, wait.message_name) == (
        Wait.EXTERNAL_SIGNAL,
        "Awaiting documents",
        setup.message,
    )
    assert sentence(parked) == "Awaiting documents"
    assert told(parked, "wait", "message_name", "correlation_key", "instance_key") == {
        "wait": "external_signal",
        "message_name": setup.message,
        "correlation_key": f"{setup.domain}-key",
        "instance_key": await setup.instance_key(entry_id),
    }
    assert await setup.kinds(entry_id) == ["DurableTaskStarted", "StepCompleted", "Parked"]


@pytest.mark.req("EVT-05", "EVT-14", "WAIT-06", "EVT-17")
async def test_the_message_resumes_it_and_is_in_the_runbook(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.waits_for, event=models.LETTER)
    await setup.serve("first", PARK)

    await setup.send(pages=3)
    await setup.serve(UNPARK)

    assert await setup.status(entry_id) == "executing"
    assert await setup.waits(entry_id) == []
    assert (await setup.kinds(entry_id))[-2:] == ["MessageReceived", "Resumed"]
    (message,) = await received(setup.database, await setup.uid(entry_id))
    assert message.payload == {"pages": 3}


@pytest.mark.req("EVT-05")
async def test_listener_jobs_that_come_again_change_nothing(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.waits_for, event=models.LETTER)
    park = await setup.serve("first", PARK)
    await setup.send("m-1")
    await setup.send("m-2")
    await setup.deliver(park)
    unpark = await setup.serve(UNPARK)
    before = await setup.kinds(entry_id)

    for job in (park, unpark, park):
        await setup.deliver(job)

    assert await setup.kinds(entry_id) == before
    assert await setup.waits(entry_id) == []
    assert len(await received(setup.database, await setup.uid(entry_id))) == 1


@pytest.mark.req("WAIT-08", "COR-01", "COR-11")
async def test_a_case_that_waits_is_brought_to_its_end_by_another_boot(
    setup: CaseSetup, dsn: str, gateway: Gateway
) -> None:
    entry_id = await setup.start(models.waits_for, event=models.LETTER)
    await setup.serve("first", PARK)
    gateway.advance(30 * 24 * 3600)

    async with case_setup(dsn, gateway.address, setup.domain) as other:
        await other.send()
        await other.serve(UNPARK, "second", COMPLETE)

    assert await setup.status(entry_id) == "completed"


@pytest.mark.req("EVT-04", "EVT-09", "WAIT-03")
async def test_a_timer_parks_fires_and_resumes(setup: CaseSetup, gateway: Gateway) -> None:
    entry_id = await setup.start(models.waits_for, event=models.TIMER)
    await setup.serve("first", PARK)
    (wait,), parked = await setup.waits(entry_id), await setup.status(entry_id)

    gateway.advance(3601)
    await setup.serve(UNPARK)

    assert (wait.kind, wait.reason, parked) == (Wait.TIMER, "Awaiting documents", "parked")
    assert (await setup.kinds(entry_id))[-2:] == ["TimerFired", "Resumed"]
    (fired,) = await setup.events(entry_id, Kind.TIMER_FIRED)
    assert sentence(fired) == "Timer expired: documents"
    assert await setup.status(entry_id) == "executing"


@pytest.mark.req("WAIT-03", "EVT-04", "EVT-18")
async def test_a_boundary_timer_that_interrupts_ends_the_wait_it_is_attached_to(
    setup: CaseSetup, gateway: Gateway
) -> None:
    entry_id = await setup.start(models.receives, interrupting=True)
    await setup.serve(PARK)

    gateway.advance(3601)
    job = await setup.serve(FIRED)
    await setup.deliver(job)

    assert await setup.kinds(entry_id) == ["DurableTaskStarted", "Parked", "TimerFired", "Resumed"]
    assert await setup.status(entry_id) == "executing"
    closed = await setup.database.fetch("SELECT element_id, closed_as FROM verbworker.parked_token ORDER BY 1")
    assert [tuple(row) for row in closed] == [("wait", "fired"), ("week", "fired")]
    await setup.serve("second")


@pytest.mark.req("WAIT-03")
async def test_a_boundary_timer_that_does_not_interrupt_leaves_the_wait(setup: CaseSetup, gateway: Gateway) -> None:
    entry_id = await setup.start(models.receives, interrupting=False)
    await setup.serve(PARK)

    gateway.advance(3601)
    await setup.serve(FIRED, "second")

    assert await setup.kinds(entry_id) == ["DurableTaskStarted", "Parked", "TimerFired", "StepCompleted"]
    assert await setup.reasons(entry_id) == ["Awaiting documents"]
    assert await setup.status(entry_id) == "parked"
    await setup.send()
    await setup.serve(UNPARK)
    assert await setup.status(entry_id) == "executing"


@pytest.mark.req("WAIT-03", "EVT-03")
async def test_a_gate_whose_time_ran_out_is_closed(setup: CaseSetup, gateway: Gateway) -> None:
    entry_id = await setup.start(models.reviews)
    gate = await setup.serve(GATE)
    (wait,) = await setup.waits(entry_id)

    gateway.advance(3601)
    await setup.serve(FIRED)
    await setup.deliver(gate)

    assert (wait.kind, wait.reason) == (Wait.HUMAN_GATE, "Awaiting reviewer")
    assert await setup.waits(entry_id) == []
    assert await setup.status(entry_id) == "executing"
    assert "TimerFired" in await setup.kinds(entry_id)


@pytest.mark.req("WAIT-03")
async def test_a_subprocess_whose_time_ran_out_ends_the_waits_inside_and_no_others(
    setup: CaseSetup, gateway: Gateway
) -> None:
    entry_id = await setup.start(models.bounded)
    await setup.serve(PARK, PARK)
    before = sorted(await setup.reasons(entry_id))

    gateway.advance(3601)
    await setup.serve(FIRED)

    assert before == ["Awaiting a day", "Awaiting documents"]
    assert await setup.reasons(entry_id) == ["Awaiting a day"]
    assert await setup.status(entry_id) == "parked"


@pytest.mark.req("EVT-05", "EVT-18")
async def test_a_choice_waits_once_and_goes_on_by_what_came_first(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.chooses)
    await setup.serve(PARK)
    waited = await setup.reasons(entry_id)

    await setup.send()
    await setup.serve(UNPARK)

    assert waited == ["Awaiting documents or a week"]
    assert await setup.kinds(entry_id) == ["DurableTaskStarted", "Parked", "MessageReceived", "Resumed"]
    assert await setup.waits(entry_id) == []


@pytest.mark.req("EVT-04")
async def test_a_choice_whose_time_is_up_tells_the_timer(setup: CaseSetup, gateway: Gateway) -> None:
    entry_id = await setup.start(models.chooses)
    await setup.serve(PARK)

    gateway.advance(3601)
    await setup.serve(UNPARK)

    assert await setup.kinds(entry_id) == ["DurableTaskStarted", "Parked", "TimerFired", "Resumed"]
    assert await setup.status(entry_id) == "executing"


@pytest.mark.req("EVT-14")
@pytest.mark.parametrize("interrupting", [True, False])
async def test_a_message_at_the_edge_of_a_task_is_received_once(setup: CaseSetup, interrupting: bool) -> None:
    entry_id = await setup.start(models.asks_and_hears, interrupting=interrupting)
    await setup.take("first")
    await setup.send("m-1")
    await setup.send("m-2")

    job = await setup.serve(FIRED)
    await setup.deliver(job)

    assert [message.payload for message in await received(setup.database, await setup.uid(entry_id))] == [{}]
    assert await setup.kinds(entry_id) == ["DurableTaskStarted", "MessageReceived"]


@pytest.mark.req("EVT-01", "X-39", "COR-07")
async def test_the_first_listener_pins_an_instance_whose_starter_died(setup: CaseSetup) -> None:
    await setup.deploy(models.receives, interrupting=True)
    entry_id = await setup.ask()
    (dispatch,) = await setup.dispatches.claim(1, claim_for=timedelta(minutes=1))
    started = await setup.engine.start(Start(dispatch.process_id, dispatch.variables))

    await setup.serve(PARK)

    entry = await setup.entry(entry_id)
    assert await setup.instance_key(entry_id) == started.instance_key
    assert (entry.definition_key, entry.process_version) == (started.definition_key, started.version)
    assert await setup.kinds(entry_id) == ["DurableTaskStarted", "Parked"]


async def test_a_job_of_an_instance_nobody_knows_stops_for_a_person(setup: CaseSetup) -> None:
    await setup.deploy(models.receives, interrupting=True)
    await setup.engine.start(Start(setup.workflow.process, {"corr_case": "nobody"}))

    job = await setup.serve(PARK)

    ((key, retries, message),) = setup.engine.failures
    assert (key, retries) == (job.key, 0)
    assert "InstanceUnknown: this process instance was not started by verbworker" in message
    await setup.engine.cancel(job.process_instance_key)


@pytest.mark.req("EVT-14", "EVT-08", "X-34")
async def test_a_listener_that_cannot_be_served_is_an_incident_until_it_can(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.receives, interrupting=True)
    await setup.database.execute("DELETE FROM verbworker.process_deployment")
    job = replace(await setup.take(PARK), retries=1)
    await setup.deliver(job)
    await setup.deliver(job)
    (wait,), held = await setup.waits(entry_id), await setup.status(entry_id)
    raised = await setup.kinds(entry_id)

    await setup.deploy(models.receives, interrupting=True)
    await Bench(setup.engine, "", "").incident_of(job)
    await setup.serve(PARK)

    assert (wait.kind, held) == (Wait.INCIDENT, "parked")
    assert raised == ["DurableTaskStarted", "IncidentRaised", "Parked"]
    assert (await setup.kinds(entry_id))[3:] == ["IncidentResolved", "Resumed", "Parked"]
    assert await setup.reasons(entry_id) == ["Awaiting documents"]
    assert (await setup.entry(entry_id)).status is Status.PARKED


@pytest.mark.req("X-39", "COR-07", "COR-02")
async def test_an_instance_that_a_message_started_is_pinned_by_its_first_listener(setup: CaseSetup) -> None:
    await setup.deploy(models.started_by_message)
    entry_id = await setup.ask()
    (dispatch,) = await setup.dispatches.claim(1, claim_for=timedelta(minutes=1))
    await setup.engine.publish(Signal(setup.message, "", "start-1", 60_000, dispatch.variables))

    job = await setup.serve(START)

    entry = await setup.entry(entry_id)
    assert await setup.instance_key(entry_id) == job.process_instance_key
    assert (entry.process_version, entry.definition_key) == (1, job.process_definition_key)
    await setup.serve("first")


@pytest.mark.req("X-39")
async def test_an_instance_that_a_strangers_message_started_stays_visible(setup: CaseSetup) -> None:
    await setup.deploy(models.started_by_message)
    await setup.engine.publish(Signal(setup.message, "", "start-1", 60_000, {}))

    job = await setup.serve(START)

    ((key, retries, message),) = setup.engine.failures
    assert (key, retries) == (job.key, 0)
    assert "InstanceUnknown" in message
    assert await setup.engine.alive(job.process_instance_key)
    await setup.engine.cancel(job.process_instance_key)


@pytest.mark.req("WAIT-07", "EVT-09", "EVT-16", "COR-10")
async def test_a_worker_with_every_handler_brings_many_cases_to_their_end(setup: CaseSetup) -> None:
    await setup.deploy(models.waits_for, event=models.LETTER)
    cases = [await setup.ask(f"{setup.domain}-{number}") for number in range(12)]
    await setup.dispatcher.drain()
    async with working(setup):
        await eventually(lambda: _all_are(setup, cases, "parked"))
        for number in range(12):
            await setup.send(f"m-{number}", to=f"{setup.domain}-{number}")
        await eventually(lambda: _all_are(setup, cases, "completed"))

    entries = [await setup.entry(entry_id) for entry_id in cases]
    results = [(await setup.events(entry_id, Kind.RESULT))[0] for entry_id in cases]
    assert all(entry.outcome == {"first": "done", "second": "done"} for entry in entries)
    assert all(result.detail["flags"] == {"orch_first": True} for result in results)
    assert (await setup.runbook.verify(entries[0].tenant_id)).broken == {}
    assert {tuple(await setup.kinds(entry_id)) for entry_id in cases} == {
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


async def _all_are(setup: CaseSetup, cases: list[UUID], status: str) -> bool:
    return {await setup.status(entry_id) for entry_id in cases} == {status}
