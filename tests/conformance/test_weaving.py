"""Woven models on real engines: they deploy, and each listener's job comes from where it should."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.bpmn import document, process
from tests.support.engines import GATEWAYS, Gateway
from tests.support.fixture_models import FixtureModel, passing_models
from tests.support.weaving import BY_ERROR, BY_MESSAGE, BY_TIMER, SHARED, registry_of
from tests.support.zeebe_engine import zeebe
from verbworker.contract.policy import load_policies
from verbworker.engine.protocol import Ask, Resource, Signal, Start
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import Refused
from verbworker.job.job import Job
from verbworker.job.outcome import NO_RESULT
from verbworker.model.weave import COMPLETE, FIRED, LISTENER_RETRIES, PARK, START, UNPARK, weave

ON = (*GATEWAYS, "zeebe-rest")
LISTENERS = (PARK, UNPARK, FIRED, COMPLETE, START)
GATE = "io.camunda.zeebe:userTask"

# One has listeners of the runtime already, one a process that no verb owns, and two ask people behind its back.
REFUSED = {
    "rules/listener/valid.bpmn",
    "rules/process-unknown/valid-without-contracts.bpmn",
}
# The broker of these tests has no task listeners; tests of native tasks deploy such models on newer engines.
NATIVE = {
    "rules/native-user-task/valid-native.bpmn",
    "rules/job-based-user-task/valid-native.bpmn",
    "rules/form-attribute/valid-native.bpmn",
    "rules/form-attribute/valid-native-form-id.bpmn",
}
PASSING = passing_models()
POLICIES = load_policies(Path(__file__).parents[1] / "lint" / "contracts" / "policies.yaml").values()


@pytest.mark.zeebe
@pytest.mark.req("LNT-07")
@pytest.mark.parametrize(
    "model", [one for one in PASSING if one.name not in REFUSED | NATIVE], ids=lambda model: model.name
)
async def test_whatever_the_linter_passes_deploys_woven(
    model: FixtureModel, broker: Gateway, unique: Callable[[str], str]
) -> None:
    name = unique("woven")
    woven = weave(model.renamed(name), registry_of(name, policies=POLICIES))

    async with zeebe(broker.address) as engine:
        (deployed,) = await engine.deploy([Resource(f"{name}.bpmn", woven.content)])

    assert (deployed.process_id, deployed.version) == (name, 1)


@pytest.mark.parametrize("model", [one for one in PASSING if one.name in REFUSED], ids=lambda model: model.name)
def test_what_the_linter_passes_and_nobody_could_start_or_weave_is_refused(model: FixtureModel) -> None:
    with pytest.raises(Refused):
        weave(model.renamed("case"), registry_of("case", policies=POLICIES))


@dataclass
class Floor:
    """One engine, and an instance on it whose listeners the test serves one by one."""

    engine: ZeebeEngine
    gateway: Gateway
    name: str
    key: str = field(default_factory=lambda: uuid4().hex)
    served: list[tuple[str, str]] = field(default_factory=list)
    taken: list[Job] = field(default_factory=list)

    async def begin(self, *parts: str) -> None:
        """Weave a model around some parts, deploy it and start it."""
        await self.deploy(*parts)
        await self.engine.start(Start(self.name, {"corr_case": self.key}))

    async def deploy(self, *parts: str) -> None:
        """Weave a model around some parts and deploy it."""
        shared = SHARED.replace("letter-came", f"letter-{self.name}")
        authored = document(shared, process(*(part.replace("{verb}", self.verb) for part in parts), key=self.name))
        woven = weave(authored, registry_of(self.name))
        await self.engine.deploy([Resource(f"{self.name}.bpmn", woven.content)])

    @property
    def verb(self) -> str:
        """A job type of this test alone."""
        return f"kyc.{self.name}"

    async def take(self, *types: str) -> Job:
        """The next job of our process, of any of these types; the jobs of others are left to time out."""
        wanted = types or LISTENERS
        async with asyncio.timeout(30):
            while not (found := next((job for job in self.taken if job.type in wanted), None)):
                for kind in wanted:
                    jobs = await self.engine.activate(Ask(kind, "tests", 60_000, ["corr_case"]), 50, -1)
                    self.taken += [job for job in jobs if job.process_id == self.name]
                await asyncio.sleep(0.02)
        self.taken.remove(found)
        return found

    async def serve(self, *types: str) -> Job:
        """Take the next job, complete it and note where it came from."""
        job = await self.take(*types)
        await self.engine.complete(job.key, NO_RESULT)
        self.served.append((job.type, job.element_id))
        return job

    async def send(self) -> None:
        """Send the letter our instance waits for, or soon will."""
        await self.engine.publish(Signal(f"letter-{self.name}", self.key, uuid4().hex, 60_000, {}))


@pytest.fixture
async def floor(gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[Floor]:
    async with zeebe(gateway.address) as engine:
        yield Floor(engine, gateway, unique("woven"))


def flows(*pairs: tuple[str, str]) -> str:
    """Sequence flows from node to node."""
    return "".join(f'<sequenceFlow id="{a}-{b}" sourceRef="{a}" targetRef="{b}"/>' for a, b in pairs)


def out(*names: str) -> str:
    """The flows that leave a node, by name."""
    return "".join(f"<outgoing>{name}</outgoing>" for name in names)


BEGIN, END = '<startEvent id="begin"/>', '<endEvent id="end"/>'
TASK = (
    '<serviceTask id="work"><extensionElements><zeebe:taskDefinition type="{verb}"/></extensionElements></serviceTask>'
)
WAITS = {
    "message": f'<intermediateCatchEvent id="wait">{BY_MESSAGE}</intermediateCatchEvent>',
    "timer": f'<intermediateCatchEvent id="wait">{BY_TIMER}</intermediateCatchEvent>',
    "receive task": '<receiveTask id="wait" messageRef="letter"/>',
}


@pytest.mark.req("X-36", "X-37", "ADP-03", "WAIT-06")
@pytest.mark.parametrize("kind", WAITS)
async def test_a_wait_is_told_when_it_begins_and_when_it_ends(kind: str, floor: Floor) -> None:
    await floor.begin(BEGIN, WAITS[kind], END, flows(("begin", "wait"), ("wait", "end")))
    parked = await floor.serve()
    await floor.send()
    floor.gateway.advance(5)
    unparked = await floor.serve()
    await floor.serve()

    assert floor.served == [(PARK, "wait"), (UNPARK, "wait"), (COMPLETE, floor.name)]
    assert (parked.element_instance_key, parked.retries) == (unparked.element_instance_key, LISTENER_RETRIES)
    assert parked.variables == {"corr_case": floor.key}


CHOICE = (
    BEGIN,
    f'<eventBasedGateway id="first">{out("first-late", "first-came")}</eventBasedGateway>',
    f'<intermediateCatchEvent id="late">{BY_TIMER}</intermediateCatchEvent>',
    f'<intermediateCatchEvent id="came">{BY_MESSAGE}</intermediateCatchEvent>',
    END,
    flows(("begin", "first"), ("first", "late"), ("first", "came"), ("late", "end"), ("came", "end")),
)


async def test_an_event_based_gateway_parks_and_what_comes_first_unparks(floor: Floor) -> None:
    await floor.begin(*CHOICE)
    await floor.serve()
    await floor.send()
    await floor.serve()
    await floor.serve()

    assert floor.served == [(PARK, "first"), (UNPARK, "came"), (COMPLETE, floor.name)]


async def test_a_timer_behind_an_event_based_gateway_unparks_too(floor: Floor) -> None:
    await floor.begin(*CHOICE)
    await floor.serve()
    floor.gateway.advance(5)
    await floor.serve()

    assert floor.served == [(PARK, "first"), (UNPARK, "late")]


def boundary(event: str, *, on: str = "work", interrupting: bool = True) -> str:
    """A boundary event that leads to an end of its own."""
    cancel = str(interrupting).lower()
    return (
        f'<boundaryEvent id="edge" attachedToRef="{on}" cancelActivity="{cancel}">{out("edge-other")}{event}'
        f'</boundaryEvent><endEvent id="other"/>{flows(("edge", "other"))}'
    )


LINE = flows(("begin", "work"), ("work", "end"))


@pytest.mark.parametrize("event", [BY_TIMER, BY_MESSAGE], ids=["timer", "message"])
async def test_an_interrupting_boundary_event_is_told_and_ends_the_process(event: str, floor: Floor) -> None:
    await floor.begin(BEGIN, TASK, END, boundary(event), LINE)
    job = await floor.take(floor.verb)
    await floor.send()
    floor.gateway.advance(5)
    await floor.serve()
    await floor.serve()

    assert job.retries == 3
    assert floor.served == [(FIRED, "edge"), (COMPLETE, floor.name)]


@pytest.mark.parametrize("event", [BY_TIMER, BY_MESSAGE], ids=["timer", "message"])
async def test_a_boundary_event_that_interrupts_nothing_is_told_while_the_task_goes_on(
    event: str, floor: Floor
) -> None:
    await floor.begin(BEGIN, '<userTask id="work"/>', END, boundary(event, interrupting=False), LINE)
    gate = await floor.take(GATE)
    await floor.send()
    floor.gateway.advance(5)
    await floor.serve()
    await floor.engine.complete(gate.key, NO_RESULT)
    await floor.serve()

    assert gate.element_id == "work"
    assert floor.served == [(FIRED, "edge"), (COMPLETE, floor.name)]


async def test_a_caught_error_is_told(floor: Floor) -> None:
    await floor.begin(BEGIN, TASK, END, boundary(BY_ERROR), LINE)
    job = await floor.take(floor.verb)
    await floor.engine.throw(job.key, code="REFUSED", message="no")
    await floor.serve()

    assert floor.served == [(FIRED, "edge")]


async def test_a_wait_in_a_subprocess_is_told_and_so_is_what_interrupts_it(floor: Floor) -> None:
    inside = f'<startEvent id="in"/>{WAITS["message"]}<endEvent id="out"/>{flows(("in", "wait"), ("wait", "out"))}'
    sub = f'<subProcess id="work">{inside}</subProcess>'
    await floor.begin(BEGIN, sub, END, boundary(BY_TIMER), LINE)
    await floor.serve()
    floor.gateway.advance(5)
    await floor.serve()
    await floor.serve()

    assert floor.served == [(PARK, "wait"), (FIRED, "edge"), (COMPLETE, floor.name)]


EVENT_STARTS = {
    "timer": (BY_TIMER, "true"),
    "timer beside": (BY_TIMER, "false"),
    "message": (BY_MESSAGE, "true"),
    "error": (BY_ERROR, "true"),
}


@pytest.mark.parametrize("kind", EVENT_STARTS)
async def test_the_start_of_an_event_subprocess_is_told(kind: str, floor: Floor) -> None:
    event, interrupting = EVENT_STARTS[kind]
    start = f'<startEvent id="edge" isInterrupting="{interrupting}">{event}</startEvent>'
    sub = (
        f'<subProcess id="sub" triggeredByEvent="true">{start}<endEvent id="out"/>{flows(("edge", "out"))}</subProcess>'
    )
    await floor.begin(BEGIN, TASK, END, sub, LINE)
    job = await floor.take(floor.verb)
    if kind == "error":
        await floor.engine.throw(job.key, code="REFUSED", message="no")
    await floor.send()
    floor.gateway.advance(5)
    await floor.serve()

    assert floor.served == [(FIRED, "edge")]


async def test_branches_park_side_by_side(floor: Floor) -> None:
    waits = "".join(WAITS["timer"].replace('"wait"', f'"{side}"') for side in ("left", "right"))
    forks = '<parallelGateway id="fork"/><parallelGateway id="join"/>'
    pairs = [
        ("begin", "fork"),
        ("fork", "left"),
        ("fork", "right"),
        ("left", "join"),
        ("right", "join"),
        ("join", "end"),
    ]
    await floor.begin(BEGIN, forks, waits, END, flows(*pairs))
    await floor.serve()
    await floor.serve()
    floor.gateway.advance(5)
    await floor.serve(UNPARK)
    await floor.serve(UNPARK)
    await floor.serve()

    assert sorted(floor.served[:2]) == [(PARK, "left"), (PARK, "right")]
    assert sorted(floor.served[2:4]) == [(UNPARK, "left"), (UNPARK, "right")]
    assert floor.served[4:] == [(COMPLETE, floor.name)]


async def test_a_process_that_a_message_starts_tells_its_start(floor: Floor) -> None:
    await floor.deploy(f'<startEvent id="begin">{BY_MESSAGE}</startEvent>', TASK, END, LINE)
    await floor.send()
    job = await floor.take(START)

    assert (job.element_id, job.retries) == ("begin", LISTENER_RETRIES)


async def test_a_gate_has_no_listener_and_its_job_comes(floor: Floor) -> None:
    await floor.begin(BEGIN, '<userTask id="work"/>', END, LINE)
    gate = await floor.take(GATE)
    await floor.engine.complete(gate.key, NO_RESULT)
    await floor.serve()

    assert floor.served == [(COMPLETE, floor.name)]
