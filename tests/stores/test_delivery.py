"""Message delivery: to the engine once, or to a person; never lost, whatever fails."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.support.mail import KEY, TENANT, InboxSetup, deploy_wait, make_message, make_registry, open_inbox
from verbworker.engine.protocol import Signal, Variables
from verbworker.errors import CommandInvalid, EngineUnavailable
from verbworker.runbook.event import Kind
from verbworker.testing.memory import MemoryEngine
from verbworker.work.messages.ingress import DeliveryAnswer, ImmediateDelivery


@pytest.fixture
async def setup(dsn: str) -> AsyncIterator[InboxSetup]:
    async with open_inbox(dsn) as setup:
        yield setup


@pytest.mark.req("MSG-04", "MSG-09", "ING-04", "ING-09")
async def test_a_message_is_published_with_its_time_its_id_and_no_variables(setup: InboxSetup) -> None:
    await setup.case()
    await setup.put(ttl=timedelta(minutes=2))
    await setup.message_delivery.drain()

    assert list(setup.engine.published.values()) == [
        Signal("documents-received", KEY, "acme/m-1/0", 120_000, variables={})
    ]
    assert await setup.state() == "published"


@pytest.mark.req("X-11", "MSG-04")
async def test_an_early_message_waits_for_the_case_that_has_no_key_yet(setup: InboxSetup) -> None:
    case = await setup.case("not-yet")
    await setup.put()
    await setup.message_delivery.drain()
    before = dict(setup.engine.published)
    await setup.give_key(case, KEY)
    await setup.hurry()
    await setup.message_delivery.drain()

    assert (before, list(setup.engine.published)) == ({}, ["acme/m-1/0"])


@pytest.mark.req("MSG-07", "X-13", "X-28", "TST-12")
async def test_a_message_that_no_case_ever_waits_for_becomes_a_dead_letter_when_its_time_is_over(
    setup: InboxSetup,
) -> None:
    await setup.put()
    await setup.message_delivery.drain()
    before = await setup.state()
    await setup.hurry(over=True)
    await setup.message_delivery.drain()
    letter = await setup.letter()

    assert (before, letter.code, letter.reason) == ("received", "no_case", "no case waits for it")
    assert setup.engine.published == {}


@pytest.mark.req("MSG-07", "X-13", "TST-12")
async def test_a_key_of_two_cases_is_a_dead_letter_at_once(setup: InboxSetup) -> None:
    await setup.case()
    await setup.case()
    await setup.put()
    await setup.message_delivery.drain()

    assert ((await setup.letter()).code, setup.engine.published) == ("several", {})


async def test_a_key_that_two_tenants_use_is_published_for_neither(setup: InboxSetup) -> None:
    await setup.case()
    await setup.case(tenant="other")
    await setup.put()
    await setup.message_delivery.drain()

    assert ((await setup.letter()).code, setup.engine.published) == ("several", {})


@pytest.mark.req("ING-01", "MSG-01", "MSG-07")
@pytest.mark.parametrize("named", ["business key", "entry"])
async def test_a_message_that_names_its_workflow_reaches_that_case(setup: InboxSetup, named: str) -> None:
    case = await setup.case()
    await setup.database.execute("UPDATE verbworker.workflow_instance SET business_key = 'kyc/allianz'")
    await setup.put(make_message(workflow_id="kyc/allianz" if named == "business key" else str(case.entry_id)))
    await setup.message_delivery.drain()

    assert (await setup.state(), list(setup.engine.published)) == ("published", ["acme/m-1/0"])


@pytest.mark.req("ING-01", "MSG-07", "MSG-08")
@pytest.mark.parametrize("business_key", [None, "kyc/munich-re"])
async def test_a_message_that_names_another_workflow_than_its_key_is_a_dead_letter(
    setup: InboxSetup, business_key: str | None
) -> None:
    case = await setup.case()
    await setup.database.execute("UPDATE verbworker.workflow_instance SET business_key = $1", business_key)
    await setup.put(make_message(workflow_id="kyc/allianz"))
    await setup.message_delivery.drain()
    letter = await setup.letter()

    assert (letter.code, setup.engine.published) == ("mismatch", {})
    assert letter.reason == "it names the workflow 'kyc/allianz', but its key belongs to another"
    assert [one["code"] for one in await setup.told(case, Kind.CORRELATION_FAILED)] == ["mismatch"]


@pytest.mark.req("ING-10")
async def test_the_log_of_a_delivery_has_the_trace_and_the_cause(
    setup: InboxSetup, caplog: pytest.LogCaptureFixture
) -> None:
    trace = {"traceparent": f"00-{'a' * 32}-00f067aa0ba902b7-01", "correlation_id": "c-1", "causation_id": "m-0"}
    await setup.case()
    await setup.put(make_message(**trace))
    await setup.put(make_message(message_id="m-2", correlation_key="nobody", **trace))
    with caplog.at_level("INFO"):
        await setup.message_delivery.drain()
        await setup.hurry(over=True)
        await setup.message_delivery.drain()
    lines = [record for record in caplog.records if getattr(record, "message_id", None) in ("m-1", "m-2")]

    assert {record.getMessage() for record in lines} >= {
        "message published",
        "message delivery failed, manual resolution required",
    }
    assert [{name: getattr(record, name) for name in trace} for record in lines] == [trace] * len(lines)


async def test_another_tenants_case_gets_nothing(setup: InboxSetup) -> None:
    await setup.case(tenant="other")
    await setup.put()
    await setup.message_delivery.drain()

    assert (await setup.state(), setup.engine.published) == ("received", {})


@pytest.mark.req("ING-08")
async def test_a_name_that_no_verb_takes_is_a_dead_letter_at_once(setup: InboxSetup) -> None:
    await setup.put(make_message(message_name="documents-recieved"))
    await setup.message_delivery.drain()

    assert (await setup.letter()).code == "unknown_name"


async def test_a_message_for_another_application_is_left_to_its_workers(setup: InboxSetup, dsn: str) -> None:
    await deploy_wait(setup.database)
    await setup.case()
    async with open_inbox(dsn, make_registry(message="order-paid")) as other:
        await setup.put()
        await other.message_delivery.drain()
        await other.message_delivery.drain()
        left = await setup.state(), await setup.letters.list(TENANT)
    await setup.message_delivery.drain()

    assert left == ("received", [])
    assert await setup.state() == "published"


async def test_a_message_for_an_application_that_is_away_becomes_a_dead_letter_in_time(dsn: str) -> None:
    async with open_inbox(dsn, make_registry(message="order-paid")) as other:
        await deploy_wait(other.database)
        await other.put()
        await other.hurry(over=True)
        await other.message_delivery.drain()

        assert (await other.letter()).code == "expired"


async def test_a_verb_that_does_not_take_the_message_is_no_addressee(setup: InboxSetup) -> None:
    await setup.case(verb="shop.order")
    await setup.put()
    await setup.message_delivery.drain()

    assert await setup.state() == "received"


@pytest.mark.req("X-11")
async def test_what_is_published_and_not_read_in_time_becomes_a_dead_letter(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.put()
    await setup.message_delivery.drain()
    await setup.hurry(over=True)
    await setup.message_delivery.drain()

    assert (await setup.letter()).code == "expired"
    assert [detail["code"] for detail in await setup.told(case, Kind.CORRELATION_FAILED)] == ["expired"]


async def test_a_message_whose_case_ends_unread_does_not_wait_for_its_time(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.put()
    await setup.message_delivery.drain()
    await setup.end(case)
    await setup.message_delivery.tidy()
    await setup.message_delivery.drain()

    assert (await setup.letter()).reason == "its case ended before it was read"


async def test_messages_of_one_key_are_published_in_the_order_they_came(setup: InboxSetup) -> None:
    await setup.case()
    for number in range(6):
        await setup.put(make_message(message_id=f"m-{number}"))
    while await setup.message_delivery.drain():
        pass

    assert list(setup.engine.published) == [f"acme/m-{number}/0" for number in range(6)]


@pytest.mark.parametrize("fault", ["drop", "refuse", "lose_answer"])
async def test_an_engine_that_is_away_delays_a_message_and_loses_or_doubles_none(setup: InboxSetup, fault: str) -> None:
    case = await setup.case()
    await setup.put()
    getattr(setup.engine, fault)("publish", 3)
    for _ in range(4):
        await setup.hurry()
        await setup.message_delivery.drain()

    assert list(setup.engine.published) == ["acme/m-1/0"]
    assert await setup.state() == "published"
    assert await setup.consume(case) is not None


async def test_a_matched_message_outlives_its_time_while_the_engine_is_away(setup: InboxSetup) -> None:
    await setup.case()
    await setup.put()
    setup.engine.drop("publish", 1)
    await setup.message_delivery.drain()
    await setup.hurry(over=True)
    await setup.message_delivery.drain()

    assert await setup.state() == "published"


class Refusing(MemoryEngine):
    """An engine that never takes these words."""

    async def publish(self, signal: Signal) -> None:
        raise CommandInvalid("too large for it")


async def test_what_the_engine_will_never_take_is_a_dead_letter(dsn: str) -> None:
    async with open_inbox(dsn) as setup:
        await setup.case()
        await setup.put()
        setup.message_delivery._engine = Refusing("engine-1")
        await setup.message_delivery.drain()

        assert ((await setup.letter()).code, (await setup.letter()).reason) == (
            "refused",
            "the engine refused it: too large for it",
        )


async def test_many_workers_publish_each_message_once(setup: InboxSetup) -> None:
    for number in range(30):
        await setup.case(f"case-{number}")
        await setup.put(make_message(message_id=f"m-{number}", correlation_key=f"case-{number}"))
    await asyncio.gather(*(setup.message_delivery.drain() for _ in range(6)))

    assert len(setup.engine.published) == 30


async def test_a_delivery_that_is_woken_does_not_wait(dsn: str) -> None:
    async with open_inbox(dsn) as setup:
        await setup.case()
        async with asyncio.TaskGroup() as tasks:
            setup.message_delivery.service._every = 3600
            running = tasks.create_task(setup.message_delivery.service.run())
            await setup.ingress.take(make_message(), sent_by="tests")
            await setup.engine.until(lambda: bool(setup.engine.published))
            running.cancel()

        assert list(setup.engine.published) == ["acme/m-1/0"]


class Waiting(MemoryEngine):
    """An engine where a case waits, or whose answer is lost."""

    def __init__(self, answer: int | Exception | None) -> None:
        super().__init__("engine-1")
        self.answer = answer
        self.handed: list[str] = []

    async def correlate(
        self, name: str, correlation_key: str, variables: Variables, *, tenant_id: str | None = None
    ) -> int | None:
        self.handed.append(correlation_key)
        assert variables == {}
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def immediate_with(setup: InboxSetup, engine: Waiting) -> ImmediateDelivery:
    setup.immediate._engine = engine
    return setup.immediate


@pytest.mark.req("MSG-05")
async def test_a_message_is_handed_over_to_a_case_that_waits(setup: InboxSetup) -> None:
    case = await setup.case()
    immediate = immediate_with(setup, Waiting(7))
    answer = await immediate.hand_over(make_message(), sent_by="tests")

    assert answer == DeliveryAnswer(is_delivered=True)
    assert await setup.consume(case) is not None


@pytest.mark.req("MSG-05", "MSG-08")
async def test_a_case_that_does_not_wait_now_is_told_that_a_message_came(setup: InboxSetup) -> None:
    case = await setup.case()
    answer = await immediate_with(setup, Waiting(None)).hand_over(make_message(), sent_by="tests")

    assert (answer.is_delivered, answer.is_kept) == (False, False)
    assert [detail["code"] for detail in await setup.told(case, Kind.CORRELATION_FAILED)] == ["no_case"]


async def test_a_sender_may_try_again_under_the_same_id(setup: InboxSetup) -> None:
    await setup.case()
    engine = Waiting(None)
    immediate = immediate_with(setup, engine)
    await immediate.hand_over(make_message(), sent_by="portal")
    engine.answer = 7
    answer = await immediate.hand_over(make_message(), sent_by="portal")
    (letter,) = await setup.letters.list(TENANT, resolved=True)

    assert answer.is_delivered
    assert (letter.state, letter.resolved_by) == ("redelivered", "portal")


async def test_a_message_that_was_handed_over_is_not_handed_over_again(setup: InboxSetup) -> None:
    await setup.case()
    engine = Waiting(7)
    immediate = immediate_with(setup, engine)
    answers = [await immediate.hand_over(make_message(), sent_by="tests") for _ in range(2)]

    assert (answers, engine.handed) == ([DeliveryAnswer(is_delivered=True)] * 2, [KEY])


async def test_when_the_answer_is_lost_the_message_is_kept_and_nobody_sends_it_at_once(setup: InboxSetup) -> None:
    await setup.case()
    answer = await immediate_with(setup, Waiting(EngineUnavailable("no answer"))).hand_over(
        make_message(), sent_by="tests"
    )

    assert (answer.is_kept, await setup.state()) == (True, "received")
    assert await setup.message_delivery.drain() == 0


async def test_a_kept_message_that_the_case_did_read_is_not_sent_again(setup: InboxSetup) -> None:
    case = await setup.case()
    await immediate_with(setup, Waiting(EngineUnavailable("no answer"))).hand_over(make_message(), sent_by="tests")
    await setup.consume(case)
    await setup.hurry()
    await setup.message_delivery.drain()

    assert setup.engine.published == {}


async def test_a_kept_message_that_nobody_read_is_published(setup: InboxSetup) -> None:
    await setup.case()
    await immediate_with(setup, Waiting(EngineUnavailable("no answer"))).hand_over(make_message(), sent_by="tests")
    await setup.hurry()
    await setup.message_delivery.drain()

    assert list(setup.engine.published) == ["acme/m-1/0"]
