"""An engine that forgot that a message ended a wait waits again: that very message is sent once more, and read once."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import uuid4

import pytest
from pydantic import BaseModel

from tests.support.entries import entries_of
from tests.support.start_router import TENANT, asking, open_starts
from verblint.contracts.contract import Argument
from verbworker.contract.message import Message
from verbworker.contract.registry import Registry
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Ask, Start
from verbworker.job.job import PAYLOAD, RESERVED, Job
from verbworker.model.weave import PARK, UNPARK
from verbworker.runbook.event import Kind
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.stores.deployments import Deployments
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.stores.messages.inbox import Inbox
from verbworker.testing.memory import MemoryEngine
from verbworker.work.listeners.bridge import Bridge
from verbworker.work.listeners.job_handler import ListenerJobs
from verbworker.work.messages.delivery import MessageDelivery
from verbworker.work.starts.duplicate_instances import InstanceIdentity

NAME = "papers"
_MODEL = """<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="t">
<bpmn:process id="mail-case" isExecutable="true"><bpmn:startEvent id="start"/><bpmn:receiveTask id="wait"/>
<bpmn:exclusiveGateway id="way"/><bpmn:sequenceFlow id="a" sourceRef="start" targetRef="wait"/>
<bpmn:sequenceFlow id="b" sourceRef="wait" targetRef="way"/>{}</bpmn:process></bpmn:definitions>"""
_PAUSE = (
    '<bpmn:intermediateCatchEvent id="pause"><bpmn:timerEventDefinition><bpmn:timeDuration>PT1H</bpmn:timeDuration>'
    '</bpmn:timerEventDefinition></bpmn:intermediateCatchEvent><bpmn:sequenceFlow id="d" sourceRef="way"'
    ' targetRef="pause"/>'
)
LINE = _MODEL.format(_PAUSE).encode()
LOOP = _MODEL.format('<bpmn:sequenceFlow id="c" sourceRef="way" targetRef="wait"/>').encode()
WAITS = (
    '{"wait": {"kind": "external_signal", "name": "the papers", "message": "papers"},'
    ' "pause": {"kind": "timer", "name": "a pause"}}'
)


class Case(BaseModel):
    """What waits."""

    number: str


def registry() -> Registry:
    verbs = Registry()

    @verbs.verb("mail.done", mode="transactional")
    async def done(case: Case) -> Case:
        """Nothing."""
        return case

    workflow = WorkflowVerb(
        name="mail.case",
        version=1,
        process="mail-case",
        schema="mail.case/v1",
        args={"number": Argument(type="string", required=True)},
        initial={"number": "args.number"},
        correlation={"corr_case": "${args.number}"},
        messages={NAME: "corr_case"},
        sub_verbs=("mail.done",),
    )
    return verbs.declare(workflow).check()


@dataclass
class WaitingCase:
    """A case that waits for a message, one job at a time."""

    database: Database
    engine: MemoryEngine
    bridge: Bridge
    listener_jobs: ListenerJobs
    message_delivery: MessageDelivery
    inbox: Inbox
    runbook: Runbook
    first: Job

    async def take(self, kind: str, instance_key: int) -> Job:
        """The next listener job of the wait."""
        (job,) = await self.engine.activate(Ask(kind, "tests", 60_000, RESERVED), 1, 0)
        return replace(job, element_id="wait", process_instance_key=instance_key)

    async def anew(self) -> Job:
        """The listener job of the same wait, as the engine makes it again under other keys."""
        await self.engine.start(Start("mail-case", self.first.variables))
        return await self.take(PARK, self.first.process_instance_key)

    async def park(self, job: Job) -> None:
        await self.listener_jobs.receive(job, self.bridge.park)

    async def unpark(self, park: Job) -> None:
        """The wait of a job has ended."""
        job = await self.take(UNPARK, self.first.process_instance_key)
        await self.listener_jobs.receive(
            replace(job, element_instance_key=park.element_instance_key), self.bridge.unpark
        )

    async def send(self, message_id: str) -> None:
        message = Message(message_name=NAME, message_id=message_id, correlation_key="7", tenant_id=TENANT)
        await self.inbox.receive(message, sent_by="tests", ttl=timedelta(minutes=5))
        await self.message_delivery.drain()

    def sent(self) -> list[str]:
        """What the engine got, since it was asked last."""
        known = sorted(signal.message_id.split("/")[1] for signal in self.engine.published.values())
        self.engine.published.clear()
        return known

    async def states(self) -> dict[str, str]:
        rows = await self.database.fetch("SELECT message_id, state FROM verbworker.inbox_message ORDER BY 1")
        return {row["message_id"]: row["state"] for row in rows}

    async def open_waits(self) -> list[int]:
        rows = await self.database.fetch(
            "SELECT element_instance_key FROM verbworker.parked_token WHERE closed_at IS NULL ORDER BY 1"
        )
        return [row["element_instance_key"] for row in rows]


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=8) as database:
        yield database


@pytest.fixture(params=[LINE])
async def waiting(database: Database, request: pytest.FixtureRequest) -> AsyncIterator[WaitingCase]:
    engine, verbs = MemoryEngine("memory"), registry()
    engine.line("mail-case", [PARK, UNPARK, "mail.done"])
    await database.execute(
        "INSERT INTO verbworker.process_deployment (engine_id, definition_key, process_id, version, verb, resource,"
        " authored_sha256, woven_sha256, woven, waits, deployed_by) VALUES ('memory', 1, 'mail-case', 1, 'mail.case',"
        " 'r', sha256($1), sha256($1), $1, $2, 'tests')",
        request.param,
        WAITS,
    )
    inbox = Inbox(database, engine_id="memory", owner=uuid4())
    dispatches = Dispatches(database, engine_id="memory", owner=uuid4())
    listener_jobs = ListenerJobs(database, engine, InstanceIdentity(Instances(database), engine, dispatches))
    bridge = Bridge(verbs, database, Deployments(database, engine_id="memory"), inbox, listener_jobs)
    message_delivery = MessageDelivery(verbs, inbox, DeadLetters(database), engine)
    async with open_starts(database, verbs, engine) as callers:
        await callers.router.invoke('(mail.case :number "7")', caller=asking())
        await callers.dispatcher.drain()
        (job,) = await engine.activate(Ask(PARK, "tests", 60_000, RESERVED), 1, 0)
        first = replace(job, element_id="wait")
        waiting = WaitingCase(
            database, engine, bridge, listener_jobs, message_delivery, inbox, Runbook(database), first
        )
        await waiting.park(first)
        await waiting.send("one")
        assert waiting.sent() == ["one"]
        await waiting.unpark(first)
        yield waiting


async def test_a_late_report_of_an_event_that_the_engine_lost_is_not_believed(waiting: WaitingCase) -> None:
    again = await waiting.anew()
    await waiting.park(again)
    await waiting.message_delivery.tidy()
    wait = again.element_instance_key
    told = await waiting.take(UNPARK, waiting.first.process_instance_key)
    late = replace(told, activated_ms=told.activated_ms - 60_000, element_instance_key=wait)

    await waiting.listener_jobs.receive(replace(late, key=late.key + 1000), waiting.bridge.unpark)
    before = await waiting.open_waits()
    await waiting.listener_jobs.receive(late, waiting.bridge.unpark)

    assert before == [wait], "the worker was suspended, and the engine lost the job meanwhile"
    assert await waiting.open_waits() == [], "the engine still has this one"


async def test_a_message_that_the_engine_forgot_is_sent_again_and_read_once(waiting: WaitingCase) -> None:
    again = await waiting.anew()
    await waiting.park(again)
    await waiting.message_delivery.tidy()
    sent = waiting.sent()
    await waiting.send("two")
    await waiting.unpark(again)

    assert sent == ["one"]
    assert await waiting.states() == {"one": "consumed", "two": "published"}
    assert await waiting.open_waits() == []


async def test_a_message_is_not_sent_again_once_its_wait_is_over(waiting: WaitingCase) -> None:
    again = await waiting.anew()
    await waiting.park(again)
    await waiting.unpark(again)
    await waiting.message_delivery.tidy()

    assert waiting.sent() == []


async def test_a_message_is_sent_again_until_the_engine_has_it(waiting: WaitingCase) -> None:
    await waiting.park(await waiting.anew())
    waiting.engine.drop("publish", 1)
    await waiting.message_delivery.tidy()
    sent = waiting.sent()
    await waiting.database.execute("UPDATE verbworker.inbox_message SET resend_at = clock_timestamp()")
    await waiting.message_delivery.tidy()
    again = waiting.sent()
    await waiting.message_delivery.tidy()

    assert (sent, again, waiting.sent()) == ([], ["one"], [])


async def test_a_wait_that_comes_back_under_its_own_key_is_open_again(waiting: WaitingCase) -> None:
    back = replace(await waiting.anew(), element_instance_key=waiting.first.element_instance_key)
    await waiting.park(back)
    waits = await waiting.open_waits()
    await waiting.message_delivery.tidy()
    sent = waiting.sent()
    await waiting.unpark(back)

    assert (waits, sent) == ([back.element_instance_key], ["one"])
    assert await waiting.open_waits() == []
    events = await waiting.runbook.events((await entries_of(waiting.database, TENANT))[0].entry_id)
    assert [event.kind for event in events][-2:] == [Kind.PARKED, Kind.RESUMED]


async def test_a_late_delivery_of_a_listener_that_is_gone_sends_nothing(waiting: WaitingCase) -> None:
    await waiting.park(waiting.first)
    await waiting.message_delivery.tidy()

    assert waiting.sent() == []
    assert await waiting.open_waits() == []


@pytest.mark.parametrize("waiting", [LOOP], indirect=True)
async def test_where_it_may_be_another_visit_the_next_message_is_read(waiting: WaitingCase) -> None:
    again = await waiting.anew()
    await waiting.park(again)
    await waiting.message_delivery.tidy()
    sent = waiting.sent()
    await waiting.send("two")
    await waiting.unpark(again)

    assert sent == []
    assert await waiting.states() == {"one": "consumed", "two": "consumed"}


async def test_a_wait_that_is_entered_once_is_the_same_whatever_a_branch_wrote_meanwhile(waiting: WaitingCase) -> None:
    payload = str(waiting.first.variables[PAYLOAD]).replace('"7"', '"8"')
    again = replace(await waiting.anew(), variables={**waiting.first.variables, PAYLOAD: payload})
    await waiting.park(again)
    await waiting.message_delivery.tidy()
    sent = waiting.sent()
    await waiting.unpark(again)

    assert sent == ["one"]
    assert await waiting.states() == {"one": "consumed"}


async def test_an_open_wait_goes_on_under_the_key_that_the_engine_gave_it_anew(waiting: WaitingCase) -> None:
    once, again = [replace(await waiting.anew(), element_id="pause") for _ in range(2)]

    await waiting.park(once)
    await waiting.park(again)

    assert await waiting.open_waits() == [again.element_instance_key]
