"""Native user tasks on the 8.8 and 8.9 engines: their listeners drive the gate, over gRPC.

These engines have no REST. The task list's calls are written into the engine's log by the test server: what is
accepted, asked of listeners and denied is the engine's own doing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.support.case_models import reviews
from tests.support.case_setup import FIRED, GATE, CaseSetup, case_setup, working
from tests.support.engine_versions import VersionEngine
from tests.support.engines import Gateway
from tests.support.eventually import eventually
from tests.support.native_tasks import CONTRACT, NATIVE, TaskList, at_gate, gate_of
from tests.support.start_router import TENANT
from verbworker.client.records import GateRecord
from verbworker.contract.person import Person
from verbworker.errors import RequestConflict
from verbworker.model.native_tasks import ASSIGNING, CANCELING, COMPLETING, CREATING
from verbworker.runbook.event import Kind
from verbworker.stores.cases.gates import HumanGate
from verbworker.stores.people.people import People
from verbworker.work.gates.decide import GateRelay, Gates

ON = ("zeebe-8.8", "zeebe-8.9")
A_DAY = 86_400.0


@pytest.fixture
async def setup(dsn: str, gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[CaseSetup]:
    assert isinstance(gateway, VersionEngine)
    url = f"http://{gateway.rest_address}"
    async with case_setup(dsn, gateway.address, unique("task"), rest_url=url) as setup:
        yield setup


@pytest.fixture
def tasks(gateway: Gateway) -> TaskList:
    assert isinstance(gateway, VersionEngine)
    return TaskList(gateway)


async def claimed(setup: CaseSetup, tasks: TaskList, who: str = "ada", **options: Any) -> HumanGate:
    """A gate whose task a person has in the task list."""
    gate = await at_gate(setup, reviews, asked=NATIVE, **options)
    (status, _), _ = await asyncio.gather(tasks.assign(key_of(gate), who), setup.serve(ASSIGNING))
    assert status == 204
    return await gate_of(setup, gate.entry_id)


def key_of(gate: HumanGate) -> int:
    assert gate.user_task_key is not None
    return gate.user_task_key


async def finish(setup: CaseSetup) -> None:
    await setup.serve("first", "verbworker.complete")


# ---- creating -------------------------------------------------------------------------------------------------------


@pytest.mark.req("WAIT-01", "WAIT-02", "X-42")
async def test_a_created_task_opens_its_gate_with_all_that_the_model_asks(setup: CaseSetup, tasks: TaskList) -> None:
    asked = (
        f'{NATIVE}<zeebe:assignmentDefinition candidateGroups="reviewers,leads" candidateUsers="ann"/>'
        '<zeebe:taskSchedule dueDate="2030-01-31T12:00Z" followUpDate="2030-01-30T12:00Z"/>'
        '<zeebe:priorityDefinition priority="70"/>'
        '<zeebe:formDefinition externalReference="review-form"/>'
    )
    gate = await at_gate(setup, reviews, asked=asked)

    assert (gate.gate, gate.reason, gate.job_key, gate.decisions) == (
        "review",
        "Awaiting reviewer",
        None,
        ("yes", "no"),
    )
    assert {name: value for name, value in gate.detail.items() if name != "decisions"} == {
        "audience": ["reviewer"],
        "groups": ["reviewers", "leads"],
        "users": ["ann"],
        "due": "2030-01-31T12:00Z",
        "follow_up": "2030-01-30T12:00Z",
        "priority": "70",
        "form": "review-form",
    }
    listed = "audience: reviewer; groups: reviewers, leads; users: ann; form: review-form"
    assert sorted(GateRecord.of(gate).asked.split("; ")) == sorted(
        [*listed.split("; "), "due: 2030-01-31T12:00Z", "follow_up: 2030-01-30T12:00Z", "priority: 70"]
    )
    assert await setup.status(gate.entry_id) == "parked"
    assert tasks.states(key_of(gate)) == ["CREATING", "CREATED"]


async def test_a_creating_listener_delivered_twice_opens_one_gate(setup: CaseSetup) -> None:
    gate = await at_gate(setup, reviews, asked=NATIVE)
    (job,) = setup.taken[CREATING]

    await setup.deliver(job)

    assert (await gate_of(setup, gate.entry_id)).user_task_key == gate.user_task_key
    assert (await setup.kinds(gate.entry_id)).count("Parked") == 1


# ---- our own decision -----------------------------------------------------------------------------------------------


@pytest.mark.req("WAIT-04", "PRX-34")
async def test_a_decision_here_completes_the_task_once_and_leaves_no_variable(
    setup: CaseSetup, tasks: TaskList
) -> None:
    gate = await at_gate(setup, reviews, asked=NATIVE)
    decide = Gates(setup.database, setup.engine).decide(gate.entry_id, "yes", reason="fine", by="ada", tenant_id=TENANT)

    decided, _ = await asyncio.gather(decide, setup.serve(COMPLETING))
    await finish(setup)

    assert decided.verdict is not None
    assert (decided.verdict.answer, decided.closed_as) == ("completed", "decided")
    assert tasks.states(key_of(gate)) == ["CREATING", "CREATED", "COMPLETING", "COMPLETED"]
    assert set(tasks.variables(await setup.instance_key(gate.entry_id))) <= CONTRACT
    assert await GateRelay(setup.database, setup.engine).drain() == 0
    assert await setup.status(gate.entry_id) == "completed"


async def test_a_decision_without_an_engine_is_told_by_the_relay_until_the_engine_has_it(
    setup: CaseSetup, tasks: TaskList
) -> None:
    gate = await at_gate(setup, reviews, asked=NATIVE)
    await Gates(setup.database).decide(gate.entry_id, "no", by="ada", tenant_id=TENANT)
    assert (await gate_of(setup, gate.entry_id)).closed_as == "decided"
    relay = GateRelay(setup.database, setup.engine)

    told, _ = await asyncio.gather(relay.drain(), setup.serve(COMPLETING))

    verdict = (await gate_of(setup, gate.entry_id)).verdict
    assert verdict is not None
    assert (told, verdict.answer, await relay.drain()) == (1, "completed", 0)


# ---- a decision in the task list ------------------------------------------------------------------------------------


@pytest.mark.req("WAIT-03", "WAIT-04")
async def test_a_decision_of_the_task_list_is_kept_with_who_made_it_and_leaves_no_variable(
    setup: CaseSetup, tasks: TaskList
) -> None:
    gate = await claimed(setup, tasks)
    sent = {"decision": "yes", "reason": "seen it", "comment": "and more", "orch_first": True, "domain_payload": "{}"}

    (status, _), _ = await asyncio.gather(tasks.complete(key_of(gate), **sent), setup.serve(COMPLETING))
    before = tasks.variables(await setup.instance_key(gate.entry_id))
    await finish(setup)

    made = await gate_of(setup, gate.entry_id)
    assert made.verdict is not None
    assert status == 204
    assert (made.verdict.decision, made.verdict.reason, made.verdict.by) == ("yes", "seen it", "ada")
    assert (made.verdict.answer, made.closed_as) == ("completed", "decided")
    assert set(before) <= CONTRACT
    assert before["orch_first"] == "false"
    assert before["domain_payload"] != '"{}"'
    assert await GateRelay(setup.database, setup.engine).drain() == 0
    told = ["DurableTaskStarted", "Parked", "GateClaimed", "GateDecided", "Resumed", "StepCompleted", "ExecutionResult"]
    assert await setup.kinds(gate.entry_id) == told


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({}, "review needs a decision: set the variable decision, one of yes, no"),
        ({"decision": "maybe"}, "review takes yes, no, and not 'maybe'"),
        ({"decision": True}, "review needs a decision"),
        ({"decision": "yes", "reason": 3}, "the variable reason must be text"),
        ({"decision": "yes", "vw_entry_id": "another"}, "vw_entry_id is the runtime's own variable"),
        ({"decision": "yes", "vw_instance_uid": "another"}, "vw_instance_uid is the runtime's own variable"),
    ],
)
async def test_what_is_no_decision_of_the_gate_is_denied_with_the_reason_and_can_be_made_good(
    setup: CaseSetup, tasks: TaskList, sent: dict[str, object], words: str
) -> None:
    gate = await claimed(setup, tasks)

    (status, said), _ = await asyncio.gather(tasks.complete(key_of(gate), **sent), setup.serve(COMPLETING))
    standing = await gate_of(setup, gate.entry_id)
    (again, _), _ = await asyncio.gather(tasks.complete(key_of(gate), decision="no"), setup.serve(COMPLETING))

    assert status == 409
    assert words in said
    assert (standing.closed_at, standing.verdict) == (None, None)
    assert again == 204
    assert set(tasks.variables(await setup.instance_key(gate.entry_id))) <= CONTRACT


async def test_an_assignee_without_the_role_is_denied_with_who_may(setup: CaseSetup, tasks: TaskList) -> None:
    clerk = Person("carl", frozenset({"clerk"}), "https://login.example", "u-7")
    await People(setup.database).note(TENANT, clerk)
    gate = await claimed(setup, tasks, "carl")

    (status, said), _ = await asyncio.gather(tasks.complete(key_of(gate), decision="yes"), setup.serve(COMPLETING))

    assert status == 409
    assert "only reviewer may decide at review, and carl has the roles clerk" in said
    assert (await gate_of(setup, gate.entry_id)).verdict is None


async def test_nobody_decides_a_task_that_nobody_has(setup: CaseSetup, tasks: TaskList) -> None:
    gate = await at_gate(setup, reviews, asked=NATIVE)

    (status, said), _ = await asyncio.gather(tasks.complete(key_of(gate), decision="yes"), setup.serve(COMPLETING))

    assert status == 409
    assert "assign review to a person first" in said


async def test_the_second_decision_is_denied_with_who_made_the_first(setup: CaseSetup, tasks: TaskList) -> None:
    gate = await claimed(setup, tasks)
    await Gates(setup.database).decide(gate.entry_id, "no", by="ada", tenant_id=TENANT)

    (status, said), _ = await asyncio.gather(tasks.complete(key_of(gate), decision="yes"), setup.serve(COMPLETING))
    told, _ = await asyncio.gather(GateRelay(setup.database, setup.engine).drain(), setup.serve(COMPLETING))

    verdict = (await gate_of(setup, gate.entry_id)).verdict
    assert verdict is not None
    assert status == 409
    assert "is decided: ada said 'no'" in said
    assert (told, verdict.decision, verdict.answer) == (1, "no", "completed")


async def test_a_completing_listener_whose_answer_was_lost_agrees_again(setup: CaseSetup, tasks: TaskList) -> None:
    gate = await claimed(setup, tasks)
    completing = asyncio.ensure_future(tasks.complete(key_of(gate), decision="yes"))
    job = await setup.take(COMPLETING)
    complete = setup.engine.complete
    setup.engine.complete = _lost  # type: ignore[method-assign]
    await setup.deliver(job)
    setup.engine.complete = complete  # type: ignore[method-assign]
    assert not completing.done()

    await setup.deliver(job)

    assert (await completing)[0] == 204
    verdict = (await gate_of(setup, gate.entry_id)).verdict
    assert verdict is not None
    assert (verdict.decision, verdict.answer) == ("yes", "completed")


async def _lost(job_key: int, result: object, **more: object) -> None:
    raise ConnectionError("cut")


# ---- claims ---------------------------------------------------------------------------------------------------------


async def test_an_assignment_in_the_task_list_is_a_claim_here_and_a_release_a_release(
    setup: CaseSetup, tasks: TaskList
) -> None:
    gate = await claimed(setup, tasks)
    with pytest.raises(RequestConflict, match="is claimed by ada"):
        await Gates(setup.database).claim(gate.entry_id, "bob", TENANT)

    (status, _), _ = await asyncio.gather(tasks.unassign(key_of(gate)), setup.serve(ASSIGNING))

    released = await gate_of(setup, gate.entry_id)
    events = await setup.events(gate.entry_id, Kind.GATE_CLAIMED, Kind.GATE_RELEASED)
    assert (gate.claimed_by, status, released.claimed_by) == ("ada", 204, None)
    assert [event.detail["by"] for event in events] == ["ada", "the task list"]


async def test_an_assignee_of_the_model_has_claimed_the_gate(setup: CaseSetup, tasks: TaskList) -> None:
    gate = await at_gate(setup, reviews, asked=f'{NATIVE}<zeebe:assignmentDefinition assignee="ann"/>')

    await setup.serve(ASSIGNING)

    claimed = await gate_of(setup, gate.entry_id)
    assert (claimed.claimed_by, claimed.engine_assignee, tasks.assignee(key_of(gate))) == ("ann", "ann", "ann")
    assert await GateRelay(setup.database, setup.engine).drain() == 0


async def test_a_claim_here_is_an_assignment_in_the_engine_and_a_release_none(
    setup: CaseSetup, tasks: TaskList
) -> None:
    gate = await at_gate(setup, reviews, asked=NATIVE)
    people, relay = Gates(setup.database), GateRelay(setup.database, setup.engine)

    await people.claim(gate.entry_id, "bob", TENANT)
    await asyncio.gather(relay.drain(), setup.serve(ASSIGNING))
    had = tasks.assignee(key_of(gate))
    await people.release(gate.entry_id, "bob", TENANT)
    await asyncio.gather(relay.drain(), setup.serve(ASSIGNING))

    assert (had, tasks.assignee(key_of(gate))) == ("bob", "")
    assert await relay.drain() == 0
    assert len(await setup.events(gate.entry_id, Kind.GATE_CLAIMED, Kind.GATE_RELEASED)) == 2


async def test_an_assignment_of_a_task_that_was_just_claimed_here_is_denied(setup: CaseSetup, tasks: TaskList) -> None:
    gate = await at_gate(setup, reviews, asked=NATIVE)
    await Gates(setup.database).claim(gate.entry_id, "bob", TENANT)

    (status, said), _ = await asyncio.gather(tasks.assign(key_of(gate), "ada"), setup.serve(ASSIGNING))
    await asyncio.gather(GateRelay(setup.database, setup.engine).drain(), setup.serve(ASSIGNING))

    assert status == 409
    assert "is claimed by bob" in said
    assert tasks.assignee(key_of(gate)) == "bob"


# ---- canceling ------------------------------------------------------------------------------------------------------


async def test_a_cancelled_instance_closes_its_gate(setup: CaseSetup, tasks: TaskList) -> None:
    gate = await at_gate(setup, reviews, asked=NATIVE)
    await setup.engine.cancel(await setup.instance_key(gate.entry_id))

    await setup.serve(CANCELING)
    await setup.until_gone(await setup.instance_key(gate.entry_id))

    closed = await gate_of(setup, gate.entry_id)
    assert closed.closed_as == "canceled"
    with pytest.raises(RequestConflict, match="the process withdrew it"):
        await Gates(setup.database).decide(gate.entry_id, "yes", by="ada", tenant_id=TENANT)


@pytest.mark.parametrize("interrupting", [True, False])
async def test_a_boundary_timer_on_a_native_task_tells_the_same_story_as_on_a_job(
    setup: CaseSetup, gateway: Gateway, interrupting: bool
) -> None:
    told = []
    for asked, opens in (("", GATE), (NATIVE, CREATING)):
        entry_id = await setup.start(reviews, asked=asked, interrupting=interrupting)
        await setup.serve(opens)
        gateway.advance(A_DAY)
        if interrupting and asked:
            await setup.serve(CANCELING)
        await setup.serve(FIRED, "second")
        gate = await gate_of(setup, entry_id)
        told.append((gate.closed_as, await setup.kinds(entry_id), [gate.reason, *await setup.reasons(entry_id)]))
        if not interrupting:
            await setup.engine.cancel(await setup.instance_key(entry_id))

    assert told[0] == told[1]
    assert told[0][0] == ("fired" if interrupting else None)


async def test_a_worker_serves_the_whole_life_of_a_task(setup: CaseSetup, tasks: TaskList) -> None:
    async with working(setup):
        entry_id = await setup.start(reviews, asked=NATIVE)

        async def opened() -> list[HumanGate]:
            return await Gates(setup.database).list(TENANT, entry_id=entry_id)

        (gate,) = await eventually(opened)
        relay = asyncio.ensure_future(GateRelay(setup.database, setup.engine, every=0.1).service.run())
        await Gates(setup.database).decide(entry_id, "yes", by="ada", tenant_id=TENANT)

        async def ended() -> bool:
            return await setup.status(entry_id) == "completed"

        await eventually(ended)
        relay.cancel()

    assert tasks.states(key_of(gate))[-1] == "COMPLETED"
