"""A native user task on the real 8.6.0 broker, completed over its REST from our gate.

8.6 has no task listeners, so the gate is opened by the test, with the key that the broker gave the task.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from uuid import UUID

import pytest

from tests.support.case_models import reviews
from tests.support.case_setup import CaseSetup, case_setup
from tests.support.engines import Gateway
from tests.support.http import ask
from tests.support.native_tasks import CONTRACT, NATIVE, gate_of
from tests.support.start_router import TENANT
from tests.support.zeebe import Broker
from verbworker.engine.protocol import Ask, Resource, UserTasks
from verbworker.errors import JobGone, TaskTaken
from verbworker.model.weave import weave
from verbworker.runbook.event import ParkedToken, Wait
from verbworker.stores.cases.gates import GateStore
from verbworker.work.gates.decide import GateRelay, Gates

ON = ("zeebe",)
_TASK_LISTENERS = re.compile(rb"<zeebe:taskListeners .*?</zeebe:taskListeners>")
_KEYS = 60  # the task's key is one of the next after its instance's


@pytest.fixture
def broker(gateway: Gateway) -> Broker:
    if not isinstance(gateway, Broker):
        pytest.skip("needs the broker's REST address")
    return gateway


@pytest.fixture
async def setup(dsn: str, broker: Broker, unique: Callable[[str], str]) -> AsyncIterator[CaseSetup]:
    url = f"http://{broker.rest_address}"
    async with case_setup(dsn, broker.address, unique("task"), rest_url=url) as setup:
        yield setup


async def waiting(setup: CaseSetup, broker: Broker) -> tuple[UUID, int]:
    """A case at its native task: its entry, and the task's key. The mapping is woven, the listeners are left out."""
    authored = reviews(setup.workflow.process, setup.message, setup.domain, asked=NATIVE)
    woven = weave(authored, setup.registry)
    (deployed,) = await setup.engine.deploy([Resource("case.bpmn", _TASK_LISTENERS.sub(b"", woven.content))])
    digest = sha256(authored).digest()
    await setup.deployments.record(deployed, woven, resource="case.bpmn", authored_sha256=digest, by="tests")
    entry_id = await setup.ask()
    await setup.dispatcher.drain()
    key = await asyncio.to_thread(_find_task, broker, await setup.instance_key(entry_id))
    return entry_id, key


def _find_task(broker: Broker, instance_key: int) -> int:
    for _ in range(50):
        for key in range(instance_key + 1, instance_key + _KEYS):
            if ask("POST", broker.rest_address, f"/v2/user-tasks/{key}/assignment", {"assignee": "x"})[0] == 204:
                assert ask("DELETE", broker.rest_address, f"/v2/user-tasks/{key}/assignee")[0] == 204
                return key
    raise LookupError("no task among the next keys")


async def open_gate(setup: CaseSetup, entry_id: UUID, key: int) -> None:
    """What the creating listener does where there is one."""
    place = TENANT, entry_id, await setup.uid(entry_id), setup.engine.engine_id, await setup.instance_key(entry_id)
    token = ParkedToken(*place, key, "review", Wait.HUMAN_GATE, "Awaiting reviewer", gate="review")
    async with setup.database.transaction() as connection:
        token_id, _ = await setup.runbook.park_in(connection, token)
        await GateStore(setup.database).name_task_in(connection, token_id, key)


@pytest.mark.req("WAIT-04", "PRX-34")
async def test_a_decision_completes_the_task_of_a_real_broker_over_rest(setup: CaseSetup, broker: Broker) -> None:
    entry_id, key = await waiting(setup, broker)
    await open_gate(setup, entry_id, key)

    decided = await Gates(setup.database, setup.engine).decide(entry_id, "yes", by="ada", tenant_id=TENANT)
    await setup.serve("first", "verbworker.complete")

    assert decided.verdict is not None
    assert decided.verdict.answer == "completed"
    assert await setup.status(entry_id) == "completed"
    assert await GateRelay(setup.database, setup.engine).drain() == 0
    assert isinstance(setup.engine, UserTasks)
    with pytest.raises(JobGone):
        await setup.engine.complete_user_task(key)


async def test_a_decision_for_a_task_that_is_gone_is_told_once_and_came_too_late(
    setup: CaseSetup, broker: Broker
) -> None:
    entry_id, key = await waiting(setup, broker)
    await open_gate(setup, entry_id, key)
    assert isinstance(setup.engine, UserTasks)
    await setup.engine.complete_user_task(key)

    decided = await Gates(setup.database, setup.engine).decide(entry_id, "yes", by="ada", tenant_id=TENANT)

    assert decided.verdict is not None
    assert decided.verdict.answer == "gone"
    assert (await setup.kinds(entry_id))[-1] == "GateGone"


async def test_a_claim_is_mirrored_and_another_persons_task_is_not_taken(setup: CaseSetup, broker: Broker) -> None:
    entry_id, key = await waiting(setup, broker)
    await open_gate(setup, entry_id, key)
    people, relay = Gates(setup.database), GateRelay(setup.database, setup.engine)
    await people.claim(entry_id, "ada", TENANT)
    assert await relay.drain() == 1
    assert isinstance(setup.engine, UserTasks)

    with pytest.raises(TaskTaken):
        await setup.engine.assign_user_task(key, "bob")
    await people.release(entry_id, "ada", TENANT)
    assert await relay.drain() == 1
    await setup.engine.assign_user_task(key, "bob")
    await people.claim(entry_id, "ada", TENANT)
    assert await relay.drain() == 1

    # The engine has another person, so the claim is given up, with the reason in the runbook.
    assert (await gate_of(setup, entry_id)).claimed_by is None
    (*_, released) = await setup.events(entry_id)
    assert released.detail["by"] == "the task list"
    assert "another person has it" in released.detail["reason"]


@pytest.mark.req("X-42")
async def test_no_variable_of_a_completion_leaves_the_task(setup: CaseSetup, broker: Broker) -> None:
    _, key = await waiting(setup, broker)
    sent = {"decision": "yes", "reason": "fine", "comment": "more", "orch_first": True, "domain_payload": "{}"}
    path = f"/v2/user-tasks/{key}/completion"
    status, _ = await asyncio.to_thread(ask, "POST", broker.rest_address, path, {"variables": sent})

    (job,) = await setup.engine.activate(Ask(f"{setup.domain}.first", "tests", 60_000, ()), 1, 20_000)

    assert status == 204
    assert set(job.variables) <= CONTRACT
    assert job.variables["orch_first"] is False
    assert job.variables["domain_payload"] != "{}"
