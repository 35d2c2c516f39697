"""Human gates on both engines: a task waits, a person decides, the next verb hears it."""

import json
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from uuid import UUID, uuid4

import pytest

from tests.support import gate_cases as gate_cases
from tests.support.engines import Gateway
from tests.support.eventually import eventually
from tests.support.gate_cases import TENANT, GateSetup, job_of, review_registry
from tests.support.models import review
from tests.support.rig import Rig, opened
from verbworker.engine.protocol import Ask, Resource
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import RequestConflict
from verbworker.job.job import ENTRY_ID, Job
from verbworker.model.weave import FIRED, weave
from verbworker.runbook.event import Kind, Status
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.gates import HumanGate
from verbworker.stores.cases.instances import Instances
from verbworker.stores.deployments import Deployments
from verbworker.stores.messages.inbox import Inbox
from verbworker.work.gates.decide import Gates
from verbworker.work.listeners.bridge import Bridge
from verbworker.work.listeners.job_handler import ListenerJobs
from verbworker.work.starts.deploy import Deploy, ReadyModel
from verbworker.work.starts.duplicate_instances import InstanceIdentity

ON = ("embedded", "zeebe", "zeebe-rest")

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def domain(unique: Callable[[str], str]) -> str:
    return unique("hall")


@pytest.fixture
async def rig(dsn: str, gateway: Gateway, domain: str) -> AsyncIterator[Rig]:
    async with opened(dsn, gateway.address, review_registry(domain)) as rig:
        yield rig


@pytest.fixture
async def setup(rig: Rig, domain: str) -> AsyncIterator[GateSetup]:
    async with gate_cases.opened(rig.database, rig.engine, rig.registry, domain=domain) as setup:
        yield setup


async def deploy(rig: Rig, domain: str, **options: object) -> None:
    model = review(f"{domain}-review", f"{domain}.after", **options)  # type: ignore[arg-type]  # the builder's own
    await rig.engine.deploy([Resource(f"{domain}.bpmn", model)])


async def task_of(setup: GateSetup, entry_id: UUID, *, timeout_ms: int = 60_000) -> Job:
    """The user task of one entry: other tests' tasks on the same broker are left alone, as the handler does."""

    async def look() -> list[Job]:
        job = await setup.task(timeout_ms=timeout_ms)
        return [job] if job.variables.get(ENTRY_ID) == str(entry_id) else []

    (job,) = await eventually(look)
    return job


async def parked(setup: GateSetup) -> HumanGate:
    entry_id = await setup.ask()
    await setup.handler.serve(await task_of(setup, entry_id))
    return await setup.gate(entry_id)


@pytest.mark.req("WAIT-01", "WAIT-02", "WAIT-04", "EVT-03", "X-42", "PRX-34", "COR-08")
async def test_a_person_decides_and_the_next_verb_hears_it(rig: Rig, setup: GateSetup, domain: str) -> None:
    await deploy(rig, domain)
    gate = await parked(setup)
    assert await setup.status(gate.entry_id) is Status.PARKED
    assert {name: gate.detail[name] for name in ("assignee", "groups", "due")} == {
        "assignee": "anna",
        "groups": ["reviewers", "leads"],
        "due": "2030-01-31T12:00Z",
    }

    decided = await setup.decide(gate)
    job = await rig.work(f"{domain}.after")
    frame = await rig.frame(job)

    assert decided.verdict is not None
    assert decided.verdict.answer == "completed"
    assert frame.output is not None
    assert json.loads(frame.output)["data"]["heard"] == ["anna: review approve (all is well)"]
    assert await setup.kinds(gate.entry_id) == [
        Kind.STARTED,
        Kind.PARKED,
        Kind.GATE_DECIDED,
        Kind.RESUMED,
        Kind.STEP_COMPLETED,
    ]
    assert (await setup.starts.runbook.verify(TENANT, gate.entry_id)).findings == ()


@pytest.mark.req("WAIT-04")
async def test_nothing_goes_past_a_gate_that_nobody_decided(rig: Rig, setup: GateSetup, domain: str) -> None:
    await deploy(rig, domain)
    gate = await parked(setup)
    ask = Ask(type=f"{domain}.after", worker="rig", timeout_ms=60_000, variables=())
    passed = await rig.engine.activate(ask, 1, 500)

    assert passed == []
    assert (await setup.gate(gate.entry_id)).closed_at is None


@pytest.mark.req("X-42", "PRX-34")
async def test_a_decision_made_while_the_engine_is_away_is_relayed(rig: Rig, setup: GateSetup, domain: str) -> None:
    await deploy(rig, domain)
    gate = await parked(setup)
    async with ZeebeEngine(GatewayAddress(address=NOWHERE), engine_id=rig.engine.engine_id) as away:
        decided = await Gates(rig.database, away).decide(gate.token_id, "reject", by="bob", tenant_id=TENANT)
    assert decided.verdict is not None
    assert (decided.closed_as, decided.verdict.answer) == ("decided", None)

    await setup.due()
    await setup.relay.drain()
    job = await rig.work(f"{domain}.after")
    told = (await setup.gate(gate.entry_id)).verdict

    assert told is not None
    assert told.answer == "completed"
    frame = await rig.frame(job)
    assert frame.output is not None
    assert json.loads(frame.output)["data"]["heard"] == ["bob: review reject ()"]


@pytest.mark.req("X-42", "COR-08")
async def test_a_task_that_the_engine_delivers_again_is_completed_when_it_was_decided(
    rig: Rig, setup: GateSetup, domain: str
) -> None:
    await deploy(rig, domain)
    entry_id = await setup.ask()
    await setup.handler.serve(await task_of(setup, entry_id, timeout_ms=1_000))
    gate = await setup.gate(entry_id)
    await setup.without_engine.decide(gate.token_id, "approve", by="anna", tenant_id=TENANT)
    await rig.engine.extend(job_of(gate), 1)
    again = await task_of(setup, entry_id)
    await setup.handler.serve(again)

    assert again.key == job_of(gate)
    assert await rig.work(f"{domain}.after")
    told = (await setup.gate(entry_id)).verdict
    assert told is not None
    assert told.answer == "completed"


@pytest.mark.req("COR-08", "EVT-03")
async def test_a_task_that_comes_again_is_still_the_same_gate(rig: Rig, setup: GateSetup, domain: str) -> None:
    await deploy(rig, domain)
    gate = await parked(setup)
    await rig.engine.extend(job_of(gate), 1)
    await setup.handler.serve(await task_of(setup, gate.entry_id))
    again = await setup.gate(gate.entry_id)

    assert (again.token_id, again.closed_at) == (gate.token_id, None)
    assert again.seen_at > gate.seen_at
    assert (await setup.kinds(gate.entry_id)).count(Kind.PARKED) == 1


@pytest.mark.req("WAIT-05")
async def test_a_decision_that_comes_after_the_deadline_is_said_to_be_too_late(
    rig: Rig, setup: GateSetup, domain: str
) -> None:
    await deploy(rig, domain, escalate=f"{domain}.escalate", within="PT2S")
    gate = await parked(setup)
    job = await rig.work(f"{domain}.escalate")
    decided = await setup.decide(gate)

    assert decided.verdict is not None
    assert decided.verdict.answer == "gone"
    assert (await setup.kinds(gate.entry_id))[-1] is Kind.GATE_GONE
    frame = await rig.frame(job)
    assert frame.output is not None
    assert json.loads(frame.output)["data"]["escalated"] is True


@pytest.mark.req("WAIT-05")
async def test_a_deadline_that_only_reminds_leaves_the_gate_open(rig: Rig, setup: GateSetup, domain: str) -> None:
    await deploy(rig, domain, escalate=f"{domain}.escalate", within="PT1S", ends=False)
    gate = await parked(setup)
    await rig.work(f"{domain}.escalate")
    decided = await setup.decide(gate)

    assert decided.verdict is not None
    assert decided.verdict.answer == "completed"
    assert await rig.work(f"{domain}.after")


@pytest.mark.req("WAIT-05")
async def test_a_task_whose_time_was_up_before_it_was_parked_leaves_no_open_gate(
    rig: Rig, setup: GateSetup, domain: str
) -> None:
    await deploy(rig, domain, escalate=f"{domain}.escalate", within="PT1S")
    entry_id = await setup.ask()
    late = await task_of(setup, entry_id)
    await rig.work(f"{domain}.escalate")
    await setup.handler.serve(late)

    assert (await setup.gate(entry_id)).closed_as == "gone"
    assert await setup.status(entry_id) is Status.EXECUTING


async def deploy_woven(rig: Rig, domain: str, *, ends: bool) -> None:
    """Deploy as `verbworker deploy` does: with listeners, and with what stands at each element on record."""
    after, escalate = f"{domain}.after", f"{domain}.escalate"
    authored = review(f"{domain}-review", after, escalate=escalate, within="PT2S", ends=ends)
    ready = ReadyModel(weave(authored, rig.registry), f"{domain}.bpmn", sha256(authored).digest())
    deployments = Deployments(rig.database, engine_id=rig.engine.engine_id)
    await Deploy(rig.engine, deployments).deploy(ready, by="tests")


async def serve_fired(rig: Rig, domain: str) -> None:
    """Serve the listener of the timer, as a worker's bridge does."""
    engine_id, owner = rig.engine.engine_id, uuid4()
    inbox = Inbox(rig.database, engine_id=engine_id, owner=owner)
    dispatches = Dispatches(rig.database, engine_id=engine_id, owner=owner)
    identity = InstanceIdentity(Instances(rig.database), rig.engine, dispatches)
    listener_jobs = ListenerJobs(rig.database, rig.engine, identity)
    bridge = Bridge(rig.registry, rig.database, Deployments(rig.database, engine_id=engine_id), inbox, listener_jobs)
    (handler,) = [handler for handler in bridge.handlers() if handler.type == FIRED]

    async def look() -> list[Job]:
        return [job for job in await rig.take(FIRED) if job.process_id == f"{domain}-review"]

    (job,) = await eventually(look)
    await handler.serve(job)


@pytest.mark.req("WAIT-05", "EVT-03", "COR-08")
async def test_a_deadline_closes_its_gate_and_a_decision_after_it_is_refused(
    rig: Rig, setup: GateSetup, domain: str
) -> None:
    await deploy_woven(rig, domain, ends=True)
    gate = await parked(setup)
    await serve_fired(rig, domain)

    with pytest.raises(RequestConflict, match=r"closed at .* UTC: its time was up"):
        await setup.decide(gate)
    assert await rig.work(f"{domain}.escalate")
    assert (await setup.kinds(gate.entry_id))[1:] == [
        Kind.PARKED,
        Kind.TIMER_FIRED,
        Kind.RESUMED,
        Kind.STEP_COMPLETED,
    ]


@pytest.mark.req("WAIT-05")
async def test_a_reminder_is_told_and_its_gate_stays_open(rig: Rig, setup: GateSetup, domain: str) -> None:
    await deploy_woven(rig, domain, ends=False)
    gate = await parked(setup)
    await serve_fired(rig, domain)
    assert await setup.status(gate.entry_id) is Status.PARKED
    decided = await setup.decide(gate)

    assert decided.verdict is not None
    assert decided.verdict.answer == "completed"


async def test_a_cancelled_instance_is_found_by_asking_after_its_gate(rig: Rig, setup: GateSetup, domain: str) -> None:
    await deploy(rig, domain)
    gate = await parked(setup)
    instance_key = await setup.database.fetchrow(
        "SELECT instance_key FROM verbworker.parked_token WHERE token_id = $1", gate.token_id
    )
    assert instance_key is not None
    await rig.engine.cancel(instance_key["instance_key"])
    await setup.change(gate, "seen_at = seen_at - interval '1 hour'")

    assert await setup.relay.probe() == 1
    assert (await setup.gate(gate.entry_id)).closed_as == "gone"
