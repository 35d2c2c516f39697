"""The inbox: kept once, claimed by one, read in order."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.support.mail import DOCS, HOUR, MINUTE, TENANT, Case, InboxSetup, make_message, open_inbox, received
from verbworker.errors import RequestConflict
from verbworker.runbook.event import Kind
from verbworker.stores.messages.inbox import Receipt

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
async def setup(dsn: str) -> AsyncIterator[InboxSetup]:
    async with open_inbox(dsn) as setup:
        yield setup


@pytest.mark.req("ING-05", "ING-03")
async def test_a_repetition_is_accepted_again_and_kept_once(setup: InboxSetup) -> None:
    first, second = await setup.put(), await setup.put()

    assert (first, second) == (Receipt(is_new=True, state="received"), Receipt(is_new=False, state="received"))


async def test_the_same_id_with_another_body_is_refused(setup: InboxSetup) -> None:
    await setup.put()

    with pytest.raises(RequestConflict, match="'m-1' was used before for another message, at 20"):
        await setup.put(make_message(payload={"pages": 4}))


async def test_two_tenants_may_use_the_same_id(setup: InboxSetup) -> None:
    await setup.put()

    assert (await setup.put(make_message(tenant_id="other"))).is_new


async def test_of_many_duplicates_at_once_one_is_kept_and_all_are_accepted(setup: InboxSetup) -> None:
    receipts = await asyncio.gather(*(setup.put() for _ in range(20)))

    assert sorted(receipt.is_new for receipt in receipts) == [False] * 19 + [True]


async def test_of_two_bodies_at_once_under_one_id_one_is_refused(setup: InboxSetup) -> None:
    bodies = [make_message(payload={"pages": pages}) for pages in range(8)]
    answers = await asyncio.gather(*(setup.put(body) for body in bodies), return_exceptions=True)

    assert sum(isinstance(answer, RequestConflict) for answer in answers) == 7


@pytest.mark.req("X-12")
async def test_a_message_that_was_read_is_never_taken_in_again(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.put()
    await setup.message_delivery.drain()
    await setup.consume(case)

    assert await setup.put() == Receipt(is_new=False, state="consumed")


async def test_a_claimed_message_is_nobody_elses(setup: InboxSetup) -> None:
    await setup.put()
    mine, theirs = await setup.claim(), await setup.beside().claim(16, names=(DOCS,), claim_for=MINUTE)

    assert ([one.message_id for one in mine], theirs) == (["m-1"], [])


async def test_whoever_dies_with_a_message_loses_it(setup: InboxSetup) -> None:
    await setup.put()
    await setup.claim()
    await setup.hurry()
    (again,) = await setup.beside().claim(16, names=(DOCS,), claim_for=MINUTE)

    assert (again.message_id, again.attempts) == ("m-1", 2)


async def test_who_lost_a_claim_writes_nothing_more(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.put()
    (lost,) = await setup.claim()
    await setup.hurry()
    await setup.beside().claim(16, names=(DOCS,), claim_for=MINUTE)

    assert not await setup.inbox.aim(lost, case.instance_uid)
    assert not await setup.inbox.record_send(lost)


async def test_many_workers_share_the_messages_and_none_is_taken_twice(setup: InboxSetup) -> None:
    for number in range(40):
        await setup.put(make_message(message_id=f"m-{number}", correlation_key=f"case-{number}"))
    taken = await asyncio.gather(*(setup.beside().claim(16, names=(DOCS,), claim_for=MINUTE) for _ in range(6)))
    ids = [one.message_id for some in taken for one in some]

    assert sorted(ids) == sorted(f"m-{number}" for number in range(40))


async def test_of_one_key_only_the_oldest_is_due(setup: InboxSetup) -> None:
    await setup.put()
    await setup.put(make_message(message_id="m-2"))
    await setup.put(make_message(message_id="m-3", correlation_key="case-2"))

    assert sorted(one.message_id for one in await setup.claim()) == ["m-1", "m-3"]


async def was_stored_first(setup: InboxSetup, message_id: str) -> None:
    """Have a message older than those before it: its transaction began before theirs, and committed after them."""
    await setup.database.execute(
        "UPDATE verbworker.inbox_message SET queued_at = queued_at - interval '1 hour' WHERE message_id = $1",
        message_id,
    )


async def test_a_message_that_may_be_with_the_engine_comes_before_an_older_one_seen_late(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.put()
    (sent,) = await setup.claim()
    await setup.inbox.aim(sent, case.instance_uid)
    await setup.inbox.postpone(sent, by=MINUTE, reason="the answer was lost")
    await setup.put(make_message(message_id="m-0"))
    await was_stored_first(setup, "m-0")
    meanwhile = await setup.claim()
    await setup.hurry()
    (again,) = await setup.claim()
    await setup.inbox.record_send(again)

    assert (meanwhile, again.message_id) == ([], "m-1")
    assert [one.message_id for one in await setup.claim()] == ["m-0"]


async def test_of_one_key_one_message_at_a_time_may_be_sent(setup: InboxSetup) -> None:
    case = await setup.case()
    for number in range(6):
        await setup.put(make_message(message_id=f"m-{number}"))
    claimed = [
        found
        for number in range(6)
        if (found := await setup.inbox.seize(TENANT, f"m-{number}", claim_for=MINUTE)) is not None
    ]
    aimed = await asyncio.gather(*(setup.inbox.aim(one, case.instance_uid) for one in claimed))
    first = claimed[aimed.index(True)]
    again = await setup.inbox.aim(first, case.instance_uid)
    await setup.inbox.record_send(first)
    (second,) = (one for one in claimed if one is claimed[aimed.index(False)])

    assert (len(claimed), sorted(aimed), again) == (6, [False] * 5 + [True], True)
    assert await setup.inbox.aim(second, case.instance_uid)


async def test_waits_end_by_messages_in_the_order_in_which_the_engine_got_them(setup: InboxSetup) -> None:
    case = await setup.case()
    for name in ("m-1", "m-0"):
        await setup.put(make_message(message_id=name, payload={"name": name}))
        (claimed,) = await setup.claim()
        await setup.inbox.aim(claimed, case.instance_uid)
        await setup.inbox.record_send(claimed)
    await was_stored_first(setup, "m-0")
    read = [await setup.consume(case) for _ in range(2)]

    assert [one and one.message_id for one in read] == ["m-1", "m-0"]


async def test_another_engines_messages_are_left_alone(setup: InboxSetup) -> None:
    await setup.put()
    await setup.database.execute("UPDATE verbworker.inbox_message SET engine_id = 'elsewhere'")

    assert await setup.claim() == []


@pytest.mark.req("EVT-14", "ING-10", "MSG-09")
async def test_a_read_message_is_told_to_its_entry_once_and_without_its_payload(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.put(make_message(causation_id="m-0", traceparent=TRACE))
    await setup.message_delivery.drain()
    await setup.consume(case)
    (detail,) = await setup.told(case, Kind.MESSAGE_RECEIVED)

    assert {name: detail[name] for name in ("message_name", "message_id", "causation_id", "traceparent")} == {
        "message_name": DOCS,
        "message_id": "m-1",
        "causation_id": "m-0",
        "traceparent": TRACE,
    }
    assert "payload" not in detail


@pytest.mark.req("ING-09")
async def test_the_next_verb_finds_what_was_sent(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.put(make_message(payload={"pages": [1, {"scan": None}], "ratio": 0.5}))
    await setup.message_delivery.drain()
    await setup.consume(case)
    (message,) = await received(setup.database, case.instance_uid)

    assert (message.name, message.message_id) == (DOCS, "m-1")
    assert message.payload == {"pages": [1, {"scan": None}], "ratio": 0.5}


@pytest.mark.req("ING-09")
async def test_opaque_bytes_reach_the_verb_as_they_were_sent(setup: InboxSetup) -> None:
    case, content = await setup.case(), bytes(range(256)) + b'{"not": JSON'
    await setup.put(make_message(payload=None, payload_bytes=content))
    await setup.message_delivery.drain()
    at_once = await setup.consume(case)
    (message,) = await received(setup.database, case.instance_uid)

    assert at_once == message
    assert (message.payload, message.payload_bytes) == (None, content)


async def test_bytes_that_look_like_json_stay_bytes(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.put(make_message(payload=None, payload_bytes=b'{"pages":3}'))
    await setup.message_delivery.drain()
    await setup.consume(case)
    (message,) = await received(setup.database, case.instance_uid)

    assert (message.payload, message.payload_bytes) == (None, b'{"pages":3}')


async def test_what_nobody_has_read_is_not_shown_to_a_verb(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.put()
    await setup.message_delivery.drain()

    assert await received(setup.database, case.instance_uid) == []


@pytest.mark.req("ING-05")
async def test_sequential_waits_read_sequential_messages(setup: InboxSetup) -> None:
    case = await setup.case()
    for number in (1, 2, 3):
        await setup.put(make_message(message_id=f"m-{number}", payload={"n": number}))
    while await setup.message_delivery.drain():
        pass
    read = [await setup.consume(case) for _ in range(4)]

    assert [None if one is None else one.payload for one in read] == [{"n": 1}, {"n": 2}, {"n": 3}, None]
    assert [one.message_id for one in await received(setup.database, case.instance_uid)] == ["m-1", "m-2", "m-3"]


async def test_two_waits_that_end_at_once_read_two_messages(setup: InboxSetup) -> None:
    case = await setup.case()
    for number in (1, 2):
        await setup.put(make_message(message_id=f"m-{number}"))
    while await setup.message_delivery.drain():
        pass
    read = await asyncio.gather(*(setup.consume(case) for _ in range(3)))

    assert sorted(one.message_id for one in read if one is not None) == ["m-1", "m-2"]


async def test_a_wait_may_end_before_we_noted_that_the_message_was_sent(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.put()
    (claimed,) = await setup.claim()
    await setup.inbox.aim(claimed, case.instance_uid)
    read = await setup.consume(case)

    assert read is not None
    assert not await setup.inbox.record_send(claimed)
    assert await setup.state() == "consumed"


async def test_a_wait_is_ended_by_what_was_sent_and_not_by_an_older_message_that_was_not(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.put(make_message(message_id="m-2"))
    (second,) = await setup.claim()
    await setup.inbox.aim(second, case.instance_uid)
    await setup.inbox.record_send(second)
    await setup.put()
    await setup.database.execute(
        "UPDATE verbworker.inbox_message SET queued_at = queued_at - interval '1 second' WHERE message_id = 'm-1'"
    )
    (first,) = await setup.claim()
    await setup.inbox.aim(first, case.instance_uid)
    read = await setup.consume(case)

    assert read is not None
    assert (read.message_id, await setup.state("m-1")) == ("m-2", "received")


async def test_a_message_of_another_case_name_or_key_is_not_read(setup: InboxSetup) -> None:
    case, other = await setup.case(), await setup.case("case-2")
    await setup.put()
    await setup.message_delivery.drain()

    assert await setup.consume(other) is None
    assert await setup.consume(case, "case-2") is None


async def consume_and_break(setup: InboxSetup, case: Case) -> None:
    async with setup.database.transaction() as connection:
        await setup.inbox.consume_in(connection, case.instance_uid, DOCS, "case-1")
        raise KeyError


async def test_consuming_is_undone_with_the_transaction_around_it(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.put()
    await setup.message_delivery.drain()
    with pytest.raises(KeyError):
        await consume_and_break(setup, case)

    assert await setup.state() == "published"
    assert await setup.told(case, Kind.MESSAGE_RECEIVED) == []


async def test_the_backlog_counts_what_waits(setup: InboxSetup) -> None:
    assert await setup.inbox.backlog() == (0, 0.0)
    await setup.put()
    waiting, oldest = await setup.inbox.backlog()

    assert waiting == 1
    assert oldest > 0


async def test_a_message_in_the_hands_of_its_taker_is_not_due_for_others(setup: InboxSetup) -> None:
    await setup.inbox.receive(make_message(), sent_by="tests", ttl=HOUR, keep_for=timedelta(minutes=5))

    assert await setup.claim() == []
    assert await setup.beside().seize(TENANT, "m-1", claim_for=MINUTE) is None
    assert await setup.inbox.seize(TENANT, "m-1", claim_for=MINUTE) is not None
