"""The messenger: to the engine once, or to a person; never lost, whatever fails."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.support.mail import KEY, TENANT, InboxSetup, mailroom, make_message
from verbworker.engine.protocol import Signal, Variables
from verbworker.errors import CommandInvalid, EngineUnavailable
from verbworker.runbook.event import Kind
from verbworker.testing.memory import MemoryEngine
from verbworker.work.messages.ingress import DeliveryAnswer, ImmediateDelivery


@pytest.fixture
async def room(dsn: str) -> AsyncIterator[InboxSetup]:
    async with mailroom(dsn) as room:
        yield room


@pytest.mark.req("MSG-04", "MSG-09", "ING-04", "ING-09")
async def test_a_message_is_published_with_its_time_its_id_and_no_variables(room: InboxSetup) -> None:
    await room.case()
    await room.put(ttl=timedelta(minutes=2))
    await room.message_delivery.drain()

    assert list(room.engine.published.values()) == [
        Signal("documents-received", KEY, "acme/m-1/0", 120_000, variables={})
    ]
    assert await room.state() == "published"


@pytest.mark.req("X-11", "MSG-04")
async def test_an_early_message_waits_for_the_case_that_has_no_key_yet(room: InboxSetup) -> None:
    case = await room.case("not-yet")
    await room.put()
    await room.message_delivery.drain()
    before = dict(room.engine.published)
    await room.give_key(case, KEY)
    await room.hurry()
    await room.message_delivery.drain()

    assert (before, list(room.engine.published)) == ({}, ["acme/m-1/0"])


@pytest.mark.req("MSG-07", "X-13", "X-28")
async def test_a_message_that_no_case_ever_waits_for_becomes_a_dead_letter_when_its_time_is_over(
    room: InboxSetup,
) -> None:
    await room.put()
    await room.message_delivery.drain()
    before = await room.state()
    await room.hurry(over=True)
    await room.message_delivery.drain()
    letter = await room.letter()

    assert (before, letter.code, letter.reason) == ("received", "no_case", "no case waits for it")
    assert room.engine.published == {}


@pytest.mark.req("MSG-07", "X-13")
async def test_a_key_of_two_cases_is_a_dead_letter_at_once(room: InboxSetup) -> None:
    await room.case()
    await room.case()
    await room.put()
    await room.message_delivery.drain()

    assert ((await room.letter()).code, room.engine.published) == ("several", {})


async def test_a_key_that_two_tenants_use_is_published_for_neither(room: InboxSetup) -> None:
    await room.case()
    await room.case(tenant="other")
    await room.put()
    await room.message_delivery.drain()

    assert ((await room.letter()).code, room.engine.published) == ("several", {})


async def test_another_tenants_case_gets_nothing(room: InboxSetup) -> None:
    await room.case(tenant="other")
    await room.put()
    await room.message_delivery.drain()

    assert (await room.state(), room.engine.published) == ("received", {})


@pytest.mark.req("ING-08")
async def test_a_name_that_no_verb_takes_is_a_dead_letter_at_once(room: InboxSetup) -> None:
    await room.put(make_message(message_name="documents-recieved"))
    await room.message_delivery.drain()

    assert (await room.letter()).code == "unknown_name"


async def test_a_verb_that_does_not_take_the_message_is_no_addressee(room: InboxSetup) -> None:
    await room.case(verb="shop.order")
    await room.put()
    await room.message_delivery.drain()

    assert await room.state() == "received"


@pytest.mark.req("X-11")
async def test_what_is_published_and_not_read_in_time_becomes_a_dead_letter(room: InboxSetup) -> None:
    case = await room.case()
    await room.put()
    await room.message_delivery.drain()
    await room.hurry(over=True)
    await room.message_delivery.drain()

    assert (await room.letter()).code == "expired"
    assert [detail["code"] for detail in await room.told(case, Kind.CORRELATION_FAILED)] == ["expired"]


async def test_a_message_whose_case_ends_unread_does_not_wait_for_its_time(room: InboxSetup) -> None:
    case = await room.case()
    await room.put()
    await room.message_delivery.drain()
    await room.end(case)
    await room.message_delivery.tidy()
    await room.message_delivery.drain()

    assert (await room.letter()).reason == "its case ended before it was read"


async def test_messages_of_one_key_are_published_in_the_order_they_came(room: InboxSetup) -> None:
    await room.case()
    for number in range(6):
        await room.put(make_message(message_id=f"m-{number}"))
    while await room.message_delivery.drain():
        pass

    assert list(room.engine.published) == [f"acme/m-{number}/0" for number in range(6)]


@pytest.mark.parametrize("fault", ["drop", "refuse", "lose_answer"])
async def test_an_engine_that_is_away_delays_a_message_and_loses_or_doubles_none(room: InboxSetup, fault: str) -> None:
    case = await room.case()
    await room.put()
    getattr(room.engine, fault)("publish", 3)
    for _ in range(4):
        await room.hurry()
        await room.message_delivery.drain()

    assert list(room.engine.published) == ["acme/m-1/0"]
    assert await room.state() == "published"
    assert await room.consume(case) is not None


async def test_a_matched_message_outlives_its_time_while_the_engine_is_away(room: InboxSetup) -> None:
    await room.case()
    await room.put()
    room.engine.drop("publish", 1)
    await room.message_delivery.drain()
    await room.hurry(over=True)
    await room.message_delivery.drain()

    assert await room.state() == "published"


class Refusing(MemoryEngine):
    """An engine that never takes these words."""

    async def publish(self, signal: Signal) -> None:
        raise CommandInvalid("too large for it")


async def test_what_the_engine_will_never_take_is_a_dead_letter(dsn: str) -> None:
    async with mailroom(dsn) as room:
        await room.case()
        await room.put()
        room.message_delivery._engine = Refusing("engine-1")
        await room.message_delivery.drain()

        assert ((await room.letter()).code, (await room.letter()).reason) == (
            "refused",
            "the engine refused it: too large for it",
        )


async def test_many_workers_publish_each_message_once(room: InboxSetup) -> None:
    for number in range(30):
        await room.case(f"case-{number}")
        await room.put(make_message(message_id=f"m-{number}", correlation_key=f"case-{number}"))
    await asyncio.gather(*(room.message_delivery.drain() for _ in range(6)))

    assert len(room.engine.published) == 30


async def test_a_delivery_that_is_woken_does_not_wait(dsn: str) -> None:
    async with mailroom(dsn) as room:
        await room.case()
        async with asyncio.TaskGroup() as tasks:
            room.message_delivery.service._every = 3600
            running = tasks.create_task(room.message_delivery.service.run())
            await room.ingress.take(make_message(), sent_by="tests")
            await room.engine.until(lambda: bool(room.engine.published))
            running.cancel()

        assert list(room.engine.published) == ["acme/m-1/0"]


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


def immediate_with(room: InboxSetup, engine: Waiting) -> ImmediateDelivery:
    room.immediate._engine = engine
    return room.immediate


@pytest.mark.req("MSG-05")
async def test_a_message_is_handed_over_to_a_case_that_waits(room: InboxSetup) -> None:
    case = await room.case()
    immediate = immediate_with(room, Waiting(7))
    answer = await immediate.hand_over(make_message(), sent_by="tests")

    assert answer == DeliveryAnswer(is_delivered=True)
    assert await room.consume(case) is not None


@pytest.mark.req("MSG-05", "MSG-08")
async def test_a_case_that_does_not_wait_now_is_told_that_a_message_came(room: InboxSetup) -> None:
    case = await room.case()
    answer = await immediate_with(room, Waiting(None)).hand_over(make_message(), sent_by="tests")

    assert (answer.is_delivered, answer.is_kept) == (False, False)
    assert [detail["code"] for detail in await room.told(case, Kind.CORRELATION_FAILED)] == ["no_case"]


async def test_a_sender_may_try_again_under_the_same_id(room: InboxSetup) -> None:
    await room.case()
    engine = Waiting(None)
    immediate = immediate_with(room, engine)
    await immediate.hand_over(make_message(), sent_by="portal")
    engine.answer = 7
    answer = await immediate.hand_over(make_message(), sent_by="portal")
    (letter,) = await room.letters.list(TENANT, resolved=True)

    assert answer.is_delivered
    assert (letter.state, letter.resolved_by) == ("redelivered", "portal")


async def test_a_message_that_was_handed_over_is_not_handed_over_again(room: InboxSetup) -> None:
    await room.case()
    engine = Waiting(7)
    immediate = immediate_with(room, engine)
    answers = [await immediate.hand_over(make_message(), sent_by="tests") for _ in range(2)]

    assert (answers, engine.handed) == ([DeliveryAnswer(is_delivered=True)] * 2, [KEY])


async def test_when_the_answer_is_lost_the_message_is_kept_and_nobody_sends_it_at_once(room: InboxSetup) -> None:
    await room.case()
    answer = await immediate_with(room, Waiting(EngineUnavailable("no answer"))).hand_over(
        make_message(), sent_by="tests"
    )

    assert (answer.is_kept, await room.state()) == (True, "received")
    assert await room.message_delivery.drain() == 0


async def test_a_kept_message_that_the_case_did_read_is_not_sent_again(room: InboxSetup) -> None:
    case = await room.case()
    await immediate_with(room, Waiting(EngineUnavailable("no answer"))).hand_over(make_message(), sent_by="tests")
    await room.consume(case)
    await room.hurry()
    await room.message_delivery.drain()

    assert room.engine.published == {}


async def test_a_kept_message_that_nobody_read_is_published(room: InboxSetup) -> None:
    await room.case()
    await immediate_with(room, Waiting(EngineUnavailable("no answer"))).hand_over(make_message(), sent_by="tests")
    await room.hurry()
    await room.message_delivery.drain()

    assert list(room.engine.published) == ["acme/m-1/0"]
