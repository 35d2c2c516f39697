"""A gate whose task got another key: the person is asked once, and the decision is told under the new key."""

from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import uuid4

import pytest

from tests.support.gate_cases import GATE, TENANT, GateSetup, memory, opened, review_registry
from verblint.contracts.contract import Gate
from verbworker.engine.protocol import Start
from verbworker.job.job import PAYLOAD, Job
from verbworker.job.outcome import NO_RESULT
from verbworker.runbook.event import Kind, Status
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.gates import HumanGate
from verbworker.stores.cases.instances import Instances
from verbworker.stores.database import Database
from verbworker.testing.memory import JobState, MemoryEngine
from verbworker.work.jobs.step_guard import certain_in
from verbworker.work.starts.duplicate_instances import InstanceIdentity

_HEAD = '<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="t">'
_PROCESS = '<bpmn:process id="hall-review" isExecutable="true"><bpmn:startEvent id="start"/>{}</bpmn:process>'


def model(body: str, *flows: str) -> bytes:
    """A process of these elements; a flow is written as `from to`."""
    arrows = [
        f'<bpmn:sequenceFlow id="f{number}" sourceRef="{flow.split()[0]}" targetRef="{flow.split()[1]}"/>'
        for number, flow in enumerate(flows)
    ]
    return f"{_HEAD}{_PROCESS.format(body + ''.join(arrows))}</bpmn:definitions>".encode()


TASK = '<bpmn:userTask id="task_1"/><bpmn:serviceTask id="step"/>'
LINE = model(TASK, "start task_1", "task_1 step")
FORK = model('<bpmn:parallelGateway id="fork"/>' + TASK, "start fork", "fork task_1", "fork task_1")
CHOICE = '<bpmn:exclusiveGateway id="way"/><bpmn:endEvent id="end"/>'
LOOP = model(TASK + CHOICE, "start task_1", "task_1 way", "way task_1", "way step", "step end")
LOOP_WITH_STEP = model(TASK + CHOICE, "start task_1", "task_1 step", "step way", "way task_1", "way end")
LOOP_BY_ERROR = model(
    TASK
    + CHOICE
    + '<bpmn:boundaryEvent id="edge" attachedToRef="step"><bpmn:errorEventDefinition/></bpmn:boundaryEvent>',
    *("start task_1", "task_1 step", "edge task_1", "step end"),
)
BESIDE_BRANCH = model('<bpmn:parallelGateway id="fork"/>' + TASK, "start fork", "fork task_1", "fork step")
EACH = model(
    '<bpmn:userTask id="task_1"><bpmn:multiInstanceLoopCharacteristics isSequential="true"/></bpmn:userTask>',
    "start task_1",
)


@pytest.mark.parametrize(
    ("content", "is_certain"),
    [(LINE, True), (LOOP_WITH_STEP, True), (FORK, False), (LOOP, False), (LOOP_BY_ERROR, False), (EACH, False)],
)
def test_the_payload_names_a_visit_where_every_way_back_has_a_step(content: bytes, is_certain: bool) -> None:
    assert ("task_1" in certain_in(content, "hall-review")) is is_certain


def test_of_what_cannot_be_read_nothing_is_certain() -> None:
    assert certain_in(b"<a>", "hall-review") == certain_in(LINE, "another") == frozenset()


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=8) as database:
        yield database


@pytest.fixture
def engine() -> MemoryEngine:
    return memory()


@pytest.fixture
async def setup(database: Database, engine: MemoryEngine) -> AsyncIterator[GateSetup]:
    dispatches = Dispatches(database, engine_id=engine.engine_id, owner=uuid4())
    identity = InstanceIdentity(Instances(database), engine, dispatches)
    registry = review_registry(gate=Gate(GATE, "task_1", ("approve", "reject"), "reviewer"))
    async with opened(database, engine, registry, identity=identity) as setup:
        yield setup


async def deploy(setup: GateSetup, content: bytes) -> None:
    """Record what was deployed."""
    await setup.database.execute(
        "INSERT INTO verbworker.process_deployment (engine_id, definition_key, process_id, version, verb, resource,"
        " authored_sha256, woven_sha256, woven, deployed_by) VALUES ('memory', 1, 'hall-review', 1, 'hall.review',"
        " 'r', sha256($1), sha256($1), $1, 'tests')",
        content,
    )


async def asked(setup: GateSetup) -> tuple[HumanGate, Job]:
    """An entry that stands at its gate, and the task."""
    entry_id = await setup.ask()
    job = await setup.task()
    await setup.handler.serve(job)
    return await setup.gate(entry_id), job


async def anew(setup: GateSetup, job: Job, **changes: object) -> Job:
    """The same task under another key, as a broker hands it out that lost its last records."""
    await setup.engine.start(Start("hall-review", {**job.variables, **changes}))
    return replace(await setup.task(), process_instance_key=job.process_instance_key)


async def gates(setup: GateSetup, gate: HumanGate) -> list[HumanGate]:
    return await setup.gates.list(TENANT, entry_id=gate.entry_id, closed=True)


@pytest.mark.parametrize("content", [LINE, LOOP_WITH_STEP])
async def test_a_decision_is_told_again_to_a_task_that_got_another_key(
    setup: GateSetup, engine: MemoryEngine, content: bytes
) -> None:
    await deploy(setup, content)
    gate, job = await asked(setup)
    await setup.decide(gate)
    again = await anew(setup, job)

    await setup.handler.serve(again)

    assert engine.jobs[again.key].state is JobState.COMPLETED
    assert [one.token_id for one in await gates(setup, gate)] == [gate.token_id]
    assert (await setup.kinds(gate.entry_id)).count(Kind.PARKED) == 1


async def test_a_decision_that_found_its_task_gone_is_told_to_the_task_that_replaced_it(
    setup: GateSetup, engine: MemoryEngine
) -> None:
    await deploy(setup, LINE)
    gate, job = await asked(setup)
    again = await anew(setup, job)
    await engine.complete(job.key, NO_RESULT)
    late = await setup.decide(gate)

    await setup.handler.serve(again)
    (told,) = await gates(setup, gate)

    assert late.verdict is not None
    assert late.verdict.answer == "gone"
    assert told.verdict is not None
    assert (told.verdict.answer, engine.jobs[again.key].state) == ("completed", JobState.COMPLETED)


async def test_an_open_gate_stays_the_same_when_its_task_gets_another_key(
    setup: GateSetup, engine: MemoryEngine
) -> None:
    await deploy(setup, LINE)
    gate, job = await asked(setup)
    again = await anew(setup, job)

    await setup.handler.serve(again)
    (moved,) = await gates(setup, gate)
    await setup.decide(moved)

    assert (moved.token_id, moved.job_key, moved.closed_at) == (gate.token_id, again.key, None)
    assert engine.jobs[again.key].state is JobState.COMPLETED


@pytest.mark.parametrize("content", [FORK, LOOP, LOOP_BY_ERROR, None])
async def test_where_it_may_be_another_visit_the_person_is_asked(setup: GateSetup, content: bytes | None) -> None:
    if content is not None:
        await deploy(setup, content)
    gate, job = await asked(setup)
    await setup.decide(gate)

    await setup.handler.serve(await anew(setup, job))

    assert [one.verdict is None for one in await gates(setup, gate)] == [False, True]


@pytest.mark.parametrize("content", [LINE, BESIDE_BRANCH])
async def test_a_task_that_is_entered_once_is_the_same_visit_whatever_a_branch_wrote_meanwhile(
    setup: GateSetup, engine: MemoryEngine, content: bytes
) -> None:
    await deploy(setup, content)
    gate, job = await asked(setup)
    await setup.decide(gate)
    again = await anew(setup, job, **{PAYLOAD: str(job.variables[PAYLOAD]).replace('"A"', '"B"')})

    await setup.handler.serve(again)

    assert [one.token_id for one in await gates(setup, gate)] == [gate.token_id]
    assert engine.jobs[again.key].state is JobState.COMPLETED


async def test_another_payload_is_another_visit(setup: GateSetup) -> None:
    await deploy(setup, LOOP_WITH_STEP)
    gate, job = await asked(setup)
    await setup.decide(gate)
    payload = str(job.variables[PAYLOAD]).replace('"A"', '"B"')

    await setup.handler.serve(await anew(setup, job, **{PAYLOAD: payload}))

    assert len(await gates(setup, gate)) == 2


async def test_a_late_delivery_of_a_task_that_is_gone_moves_no_gate(setup: GateSetup, engine: MemoryEngine) -> None:
    await deploy(setup, LINE)
    gate, job = await asked(setup)
    again = await anew(setup, job)
    await setup.handler.serve(again)
    await engine.complete(job.key, NO_RESULT)

    await setup.handler.serve(job)
    (kept,) = [one for one in await gates(setup, gate) if one.closed_at is None]

    assert kept.job_key == again.key


async def test_a_gate_closed_as_gone_opens_again_when_its_task_comes_back(setup: GateSetup) -> None:
    gate, job = await asked(setup)
    await setup.change(gate, "closed_at = clock_timestamp(), closed_as = 'gone'")

    await setup.handler.serve(job)
    (again,) = await gates(setup, gate)

    assert (again.token_id, again.closed_at) == (gate.token_id, None)
    assert await setup.status(gate.entry_id) is Status.PARKED


async def test_a_gate_closed_as_gone_stays_closed_when_its_task_is_gone(setup: GateSetup, engine: MemoryEngine) -> None:
    gate, job = await asked(setup)
    await setup.change(gate, "closed_at = clock_timestamp(), closed_as = 'gone'")
    await engine.complete(job.key, NO_RESULT)

    await setup.handler.serve(job)

    assert [one.closed_as for one in await gates(setup, gate)] == ["gone"]


async def test_a_gate_moves_to_a_key_that_another_case_had(setup: GateSetup, engine: MemoryEngine) -> None:
    await deploy(setup, LINE)
    gate, job = await asked(setup)
    other, its = await asked(setup)
    await setup.decide(gate)
    again = replace(await anew(setup, job), element_instance_key=its.element_instance_key)

    await setup.handler.serve(again)

    assert engine.jobs[again.key].state is JobState.COMPLETED
    assert [one.closed_as for one in await gates(setup, other)] == ["gone"]
