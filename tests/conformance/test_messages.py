"""Messages on both engines: early, late, twice, under a wrong key, and handed over at once."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

import pytest

from tests.support.connections import connection_to
from tests.support.embedded import EmbeddedPlace
from tests.support.engines import Gateway, RestPlace
from tests.support.errors import Unavailable
from tests.support.mail import make_message, make_registry, make_request
from tests.support.refusal import refuse
from tests.support.start import TENANT, Begun, Prepared, begin, prepare
from tests.support.zeebe import Broker
from tests.support.zeebe_models import message_wait
from verbworker.contract.verb import ReceivedMessage
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Ask, Engine, Resource, Start
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import CommandInvalid, EngineUnavailable
from verbworker.job.job import Job
from verbworker.job.outcome import NO_RESULT
from verbworker.runbook.event import Kind
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.stores.messages.inbox import Inbox
from verbworker.work.messages.delivery import MessageDelivery
from verbworker.work.messages.ingress import ImmediateDelivery, Ingress

ON = ("embedded", "zeebe", "zeebe-rest")

KEY = "case-1"
TIMEOUT_MS = 15_000


@dataclass(frozen=True, slots=True)
class Post:
    """One process that waits for a message, and the delivery in front of it."""

    engine: Engine
    database: Database
    workflow: WorkflowVerb
    message: str
    job_type: str
    inbox: Inbox
    letters: DeadLetters
    message_delivery: MessageDelivery
    immediate: ImmediateDelivery

    async def begin(self, key: str) -> Begun:
        """Start a case that waits under a key."""
        begun = await begin(self.database, self.engine, self.workflow, {}, correlation={"corr_docs": key})
        await self._open(begun)
        return begun

    async def prepare(self, key: str) -> Prepared:
        """A case that has a key and that the engine does not know yet."""
        prepared = await prepare(
            self.database, self.engine.engine_id, self.workflow, {}, correlation={"corr_docs": key}
        )
        await self._open(prepared)
        return prepared

    async def _open(self, case: Begun | Prepared) -> None:
        async with self.database.transaction() as connection:
            await Runbook(self.database).open_in(connection, make_request(case.entry_id, TENANT))

    async def put(self, key: str, message_id: str = "m-1", *, ttl: timedelta = timedelta(minutes=5)) -> None:
        """Keep a message."""
        sent = make_message(message_name=self.message, message_id=message_id, correlation_key=key, tenant_id=TENANT)
        await self.inbox.receive(sent, sent_by="tests", ttl=ttl)

    async def drain(self) -> None:
        """Have everything that waits looked at now."""
        await self.database.execute("UPDATE verbworker.inbox_message SET next_at = clock_timestamp()")
        while await self.message_delivery.drain():
            pass

    async def until_published(self) -> set[str]:
        """Try until nothing waits to be sent; where everything stands then."""
        states = {"received"}
        while "received" in states:
            # Only these: one that is published is due again when its time is over, and a dead letter then.
            await self.database.execute(
                "UPDATE verbworker.inbox_message SET next_at = clock_timestamp() WHERE state = 'received'"
            )
            await self.message_delivery.drain()
            rows = await self.database.fetch("SELECT DISTINCT state FROM verbworker.inbox_message")
            states = {row["state"] for row in rows}
        return states

    async def job(self, wait_ms: int = TIMEOUT_MS) -> Job | None:
        """The task behind the wait, with every variable the engine has."""
        jobs = await self.engine.activate(Ask(self.job_type, "tests", 60_000, ()), 1, wait_ms)
        return jobs[0] if jobs else None

    async def wait_ended(self, case: Begun | Prepared, key: str) -> ReceivedMessage | None:
        """What the bridge does."""
        async with self.database.transaction() as connection:
            return await self.inbox.consume_in(connection, case.instance_uid, self.message, key)

    async def kinds(self, case: Begun | Prepared) -> list[Kind]:
        """What the entry says happened."""
        return [event.kind for event in await Runbook(self.database).events(case.entry_id)]


def rest_of(gateway: Gateway) -> str:
    """Where a broker speaks REST."""
    if not isinstance(gateway, Broker):
        raise Unavailable("only a broker of our own has a REST address that is known here")
    return f"http://{gateway.rest_address}"


def engine_at(gateway: Gateway, engine_id: str) -> ZeebeEngine | EmbeddedEngine:
    """The engine that is there: a broker with REST, or one in the database that is its address."""
    if isinstance(gateway, EmbeddedPlace):
        return EmbeddedEngine(Database(gateway.dsn, size=8), engine_id=engine_id)
    if isinstance(gateway, RestPlace):
        return ZeebeEngine(connection_to(gateway.address), engine_id=engine_id)
    return ZeebeEngine(GatewayAddress(gateway.address, rest_url=rest_of(gateway)), engine_id=engine_id)


@asynccontextmanager
async def open_messages(dsn: str, gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[Post]:
    """A deployed process and everything that brings messages to it."""
    message, job_type, process = unique("docs"), unique("kyc.check"), unique("waits")
    registry = make_registry(message=message, process=process)
    (workflow,) = registry.workflows.values()
    async with engine_at(gateway, unique("post")) as engine, Database(dsn, size=4) as database:
        model = message_wait(process, message, job_type).replace(b"=corr_key", b"=corr_docs")
        await engine.deploy([Resource(f"{process}.bpmn", model)])
        inbox, letters = Inbox(database, engine_id=engine.engine_id, owner=uuid4()), DeadLetters(database)
        message_delivery = MessageDelivery(registry, inbox, letters, engine)
        immediate = ImmediateDelivery(registry, inbox, letters, engine)
        yield Post(engine, database, workflow, message, job_type, inbox, letters, message_delivery, immediate)


@pytest.fixture
async def post(dsn: str, gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[Post]:
    async with open_messages(dsn, gateway, unique) as post:
        yield post


@pytest.mark.req("MSG-03", "MSG-09")
async def test_a_late_message_ends_the_wait_of_its_case(post: Post) -> None:
    case = await post.begin(KEY)
    await post.put(KEY)
    await post.drain()
    job = await post.job()
    received = await post.wait_ended(case, KEY)

    assert job is not None
    assert job.process_instance_key == case.instance_key
    assert received is not None
    assert (received.message_id, received.payload) == ("m-1", {"pages": 3})
    assert Kind.MESSAGE_RECEIVED in await post.kinds(case)


@pytest.mark.req("MSG-04", "X-11", "PRX-39")
async def test_a_message_that_comes_before_its_wait_is_buffered(post: Post) -> None:
    case = await post.prepare(KEY)
    await post.put(KEY)
    await post.drain()
    await post.engine.start(Start(post.workflow.process, case.variables))

    assert await post.job() is not None
    assert await post.wait_ended(case, KEY) is not None


@pytest.mark.req("X-11")
async def test_a_message_that_comes_before_its_case_is_kept_here(post: Post) -> None:
    await post.put(KEY)
    await post.drain()
    case = await post.begin(KEY)
    before = await post.wait_ended(case, KEY)
    await post.drain()

    assert before is None
    assert await post.job() is not None
    assert await post.wait_ended(case, KEY) is not None


@pytest.mark.req("ING-05", "X-12")
async def test_a_message_that_is_sent_twice_ends_one_wait_even_when_its_buffering_is_over(
    post: Post, gateway: Gateway
) -> None:
    first = await post.begin(KEY)
    await post.put(KEY, ttl=timedelta(seconds=30))
    await post.drain()
    job = await post.job()
    assert job is not None
    await post.wait_ended(first, KEY)
    await post.engine.complete(job.key, NO_RESULT)
    await post.database.execute(
        "UPDATE verbworker.workflow_instance SET ended_at = clock_timestamp(), status = 'completed'"
    )
    gateway.advance(60)
    await post.begin(KEY)
    await post.put(KEY, ttl=timedelta(seconds=30))
    await post.drain()

    assert await post.job(wait_ms=1_500) is None


@pytest.mark.req("MSG-07", "MSG-08", "X-13")
async def test_a_wrong_key_becomes_a_letter_and_the_right_one_brings_it_home(post: Post) -> None:
    case = await post.begin(KEY)
    await post.put("case-l")
    await post.database.execute("UPDATE verbworker.inbox_message SET expires_at = clock_timestamp()")
    await post.drain()
    (letter,) = await post.letters.list(TENANT)
    await post.letters.redeliver(letter.letter_id, TENANT, by="ann", reason="a typo", key=KEY)
    await post.drain()

    assert letter.code == "no_case"
    assert await post.job() is not None
    assert await post.wait_ended(case, KEY) is not None


@pytest.mark.req("ING-09")
async def test_nothing_of_a_message_becomes_a_process_variable(post: Post) -> None:
    case = await post.prepare(KEY)
    await post.put(KEY)
    await post.drain()
    await post.engine.start(Start(post.workflow.process, case.variables))
    job = await post.job()

    assert job is not None
    assert dict(job.variables) == dict(case.variables)


@pytest.mark.req("ING-01", "ING-02", "ING-03", "ING-09", "ING-10", "MSG-01", "MSG-03")
async def test_an_envelope_with_the_nine_fields_of_the_profile_completes_a_waiting_case(post: Post) -> None:
    case = await post.begin(KEY)
    await post.database.execute("UPDATE verbworker.workflow_instance SET business_key = 'kyc/allianz-gmbh'")
    sent = """{
        "workflow_id": "kyc/allianz-gmbh",
        "message_name": "MESSAGE",
        "message_id": "m-1",
        "correlation_key": "case-1",
        "tenant_id": "tests",
        "correlation_id": "c-1",
        "causation_id": "m-0",
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "payload_bytes": "AP/+eyI="
    }"""
    ingress = Ingress(post.inbox, post.letters)
    body = sent.replace("MESSAGE", post.message).encode()
    await ingress.take(await ingress.read(body, tenant_id=TENANT, sent_by="bus"), sent_by="bus")
    await post.drain()
    job = await post.job()
    received = await post.wait_ended(case, KEY)
    events = await Runbook(post.database).events(case.entry_id)
    (told,) = [event.detail for event in events if event.kind is Kind.MESSAGE_RECEIVED]

    assert job is not None
    assert job.process_instance_key == case.instance_key
    assert b"AP/+eyI=" not in repr(dict(job.variables)).encode()
    assert received is not None
    assert (received.message_id, received.payload_bytes) == ("m-1", b'\x00\xff\xfe{"')
    names = ("message_name", "message_id", "correlation_key", "correlation_id", "causation_id", "traceparent")
    assert {name: told[name] for name in names} == {name: json.loads(body)[name] for name in names}


@pytest.mark.req("ING-01", "MSG-07")
async def test_an_envelope_that_names_another_case_completes_none(post: Post) -> None:
    case = await post.begin(KEY)
    sent = make_message(message_name=post.message, correlation_key=KEY, tenant_id=TENANT, workflow_id="kyc/munich-re")
    await post.inbox.receive(sent, sent_by="bus", ttl=timedelta(minutes=5))
    await post.drain()
    (letter,) = await post.letters.list(TENANT)

    assert (letter.code, letter.entry_id) == ("mismatch", case.entry_id)
    assert await post.job(wait_ms=500) is None


@pytest.mark.req("MSG-05")
async def test_a_message_is_handed_over_at_once_where_somebody_waits(post: Post) -> None:
    case = await post.begin(KEY)
    # The wait opens a moment after the start was answered; until then its sender tries again, under the same id.
    sent = make_message(message_name=post.message, correlation_key=KEY, tenant_id=TENANT)
    answer = await post.immediate.hand_over(sent, sent_by="tests")
    while not answer.is_delivered:
        answer = await post.immediate.hand_over(sent, sent_by="tests")
    job = await post.job()

    assert job is not None
    assert job.process_instance_key == case.instance_key
    assert await post.wait_ended(case, KEY) is not None


@pytest.mark.req("MSG-05", "MSG-08", "EVT-06")
async def test_a_message_that_nobody_waits_for_now_is_not_handed_over(post: Post) -> None:
    case = await post.prepare(KEY)
    sent = make_message(message_name=post.message, correlation_key=KEY, tenant_id=TENANT)
    answer = await post.immediate.hand_over(sent, sent_by="tests")

    assert (answer.is_delivered, answer.is_kept) == (False, False)
    assert Kind.CORRELATION_FAILED in await post.kinds(case)


async def test_correlating_names_the_instance_or_nobody(post: Post) -> None:
    assert await post.engine.correlate(post.message, "nobody", {}) is None


async def test_an_address_without_rest_is_told_apart_from_nobody_waiting(broker: Gateway) -> None:
    for url, words in ((f"{rest_of(broker)}/elsewhere", "check ZEEBE_REST_ADDRESS"), (None, "set ZEEBE_REST_ADDRESS")):
        async with ZeebeEngine(GatewayAddress(broker.address, rest_url=url), engine_id="x") as engine:
            with pytest.raises(CommandInvalid, match=words):
                await engine.correlate("docs", KEY, {})


async def test_a_rest_gateway_that_is_away_may_be_asked_again(broker: Gateway) -> None:
    async with ZeebeEngine(GatewayAddress(broker.address, rest_url="http://127.0.0.1:9"), engine_id="x") as engine:
        with pytest.raises(EngineUnavailable, match="cannot be reached"):
            await engine.correlate("docs", KEY, {})


@pytest.mark.zeebe
async def test_messages_outlast_a_broker_that_is_killed(dsn: str, unique: Callable[[str], str]) -> None:
    broker = Broker()
    try:
        broker.start()
    except Unavailable as reason:
        refuse(reason)
    try:
        async with open_messages(dsn, broker, unique) as post:
            cases = [await post.begin(f"case-{number}") for number in range(3)]
            broker.kill()
            for number in range(3):
                await post.put(f"case-{number}", f"m-{number}")
            tried = await post.message_delivery.drain()
            broker.start()
            states = await post.until_published()
            jobs = {job.process_instance_key for _ in cases if (job := await post.job()) is not None}

        assert (tried, states) == (3, {"published"})
        assert jobs == {case.instance_key for case in cases}
    finally:
        broker.stop()
