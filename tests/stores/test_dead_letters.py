"""Dead letters: written with the event that tells of them, resolved once."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from tests.support.mail import TENANT, Case, InboxSetup, make_message, open_inbox
from verbworker.errors import NotFound, Refused, RequestConflict
from verbworker.runbook.event import Kind, Status


@pytest.fixture
async def setup(dsn: str) -> AsyncIterator[InboxSetup]:
    async with open_inbox(dsn) as setup:
        yield setup


async def ended_case_with_letter(setup: InboxSetup) -> Case:
    """A case that ended before its message came."""
    case = await setup.case()
    await setup.end(case)
    await setup.put()
    await setup.message_delivery.drain()
    return case


@pytest.mark.req("MSG-08", "EVT-06", "EVT-14")
async def test_the_entry_says_why_its_message_was_not_delivered(setup: InboxSetup) -> None:
    case = await ended_case_with_letter(setup)
    (detail,) = await setup.told(case, Kind.CORRELATION_FAILED)

    assert (detail["message_name"], detail["correlation_key"]) == ("documents-received", "case-1")
    assert detail["reason"] == "its case has ended"
    assert detail["letter_id"] == str((await setup.letter()).letter_id)


async def test_a_failed_message_does_not_change_the_entry_of_its_case(setup: InboxSetup) -> None:
    case = await ended_case_with_letter(setup)
    entry = await setup.runbook.entry(case.entry_id)

    assert entry is not None
    assert entry.status is Status.COMPLETED


@pytest.mark.req("TST-12", "MSG-08")
async def test_the_entry_that_the_sender_named_is_told_though_its_key_is_wrong(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.put(make_message(correlation_key="wrong", entry_id=str(case.entry_id)))
    await setup.hurry(over=True)
    await setup.message_delivery.drain()

    assert [detail["code"] for detail in await setup.told(case, Kind.CORRELATION_FAILED)] == ["no_case"]


async def test_another_tenants_entry_is_told_nothing(setup: InboxSetup) -> None:
    foreign = await setup.case("case-9", tenant="other")
    await setup.put(make_message(correlation_key="wrong", entry_id=str(foreign.entry_id)))
    await setup.hurry(over=True)
    await setup.message_delivery.drain()

    assert await setup.told(foreign, Kind.CORRELATION_FAILED) == []
    assert (await setup.letter()).entry_id is None


async def test_a_redelivered_message_is_due_as_another_delivery_with_a_fresh_time(setup: InboxSetup) -> None:
    await ended_case_with_letter(setup)
    again = await setup.case()
    letter = await setup.letter()
    await setup.letters.redeliver(letter.letter_id, TENANT, by="ann", reason="the case was opened anew")
    await setup.message_delivery.drain()

    assert list(setup.engine.published) == ["acme/m-1/1"]
    assert await setup.consume(again) is not None


async def test_a_message_may_be_redelivered_under_another_key(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.put(make_message(correlation_key="case-l"))
    await setup.hurry(over=True)
    await setup.message_delivery.drain()
    letter = await setup.letter()
    await setup.letters.redeliver(letter.letter_id, TENANT, by="ann", reason="a typo", key="case-1")
    await setup.message_delivery.drain()

    assert [signal.correlation_key for signal in setup.engine.published.values()] == ["case-1"]
    assert await setup.consume(case) is not None


async def test_a_letter_is_resolved_once_and_the_second_hears_by_whom(setup: InboxSetup) -> None:
    await ended_case_with_letter(setup)
    letter = await setup.letter()
    await setup.letters.discard(letter.letter_id, TENANT, by="ann", reason="sent by mistake")

    for second in (setup.letters.discard, setup.letters.redeliver):
        with pytest.raises(RequestConflict, match=r"was discarded before, by ann at 20.* UTC: sent by mistake"):
            await second(letter.letter_id, TENANT, by="bob", reason="no")
    assert await setup.state() == "discarded"


async def test_of_many_who_decide_at_once_one_does(setup: InboxSetup) -> None:
    await ended_case_with_letter(setup)
    letter = await setup.letter()
    answers = await asyncio.gather(
        *(setup.letters.redeliver(letter.letter_id, TENANT, by=f"r{n}", reason="-") for n in range(4)),
        *(setup.letters.discard(letter.letter_id, TENANT, by=f"d{n}", reason="-") for n in range(4)),
        return_exceptions=True,
    )
    (resolved,) = await setup.letters.list(TENANT, resolved=True)

    assert sum(isinstance(answer, RequestConflict) for answer in answers) == 7
    assert (await setup.state(), resolved.state) in (("received", "redelivered"), ("discarded", "discarded"))


async def test_a_message_that_fails_again_has_a_letter_of_its_own(setup: InboxSetup) -> None:
    case = await ended_case_with_letter(setup)
    first = await setup.letter()
    await setup.letters.redeliver(first.letter_id, TENANT, by="ann", reason="try")
    await setup.message_delivery.drain()
    second = await setup.letter()

    assert (second.letter_id != first.letter_id, second.generation) == (True, 1)
    assert len(await setup.told(case, Kind.CORRELATION_FAILED)) == 2


async def test_another_tenants_letter_does_not_exist(setup: InboxSetup) -> None:
    await ended_case_with_letter(setup)
    letter = await setup.letter()

    for ask in (setup.letters.redeliver, setup.letters.discard):
        with pytest.raises(NotFound):
            await ask(letter.letter_id, "other", by="eve", reason="-")
    with pytest.raises(NotFound):
        await setup.letters.read(uuid4(), TENANT)


@pytest.mark.req("X-27", "ING-06")
async def test_what_cannot_be_read_leaves_one_letter_however_often_it_is_sent(setup: InboxSetup) -> None:
    for _ in range(3):
        with pytest.raises(Refused):
            await setup.ingress.read(b'{"message_id": 7}', tenant_id=TENANT, sent_by="portal")
    letter = await setup.letter()

    assert (letter.code, letter.sent_by, letter.message_id) == ("invalid", "portal", None)
    assert "correlation_key is missing" in letter.reason


async def test_what_could_not_be_read_can_only_be_discarded(setup: InboxSetup) -> None:
    with pytest.raises(Refused):
        await setup.ingress.read(b"no", tenant_id=TENANT, sent_by="portal")
    letter = await setup.letter()
    with pytest.raises(Refused, match="could not be read"):
        await setup.letters.redeliver(letter.letter_id, TENANT, by="ann", reason="-")
    await setup.letters.discard(letter.letter_id, TENANT, by="ann", reason="junk")

    assert await setup.letters.list(TENANT) == []


async def test_a_message_that_was_given_up_and_read_after_all_needs_nobody(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.put()
    await setup.message_delivery.drain()
    await setup.hurry(over=True)
    await setup.message_delivery.drain()
    letter = await setup.letter()
    read = await setup.consume(case)
    (lifted,) = await setup.letters.list(TENANT, resolved=True)

    assert letter.code == "expired"
    assert (read is not None, lifted.state, await setup.state()) == (True, "consumed", "consumed")


async def test_a_discarded_message_is_not_read_any_more(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.put()
    await setup.message_delivery.drain()
    await setup.hurry(over=True)
    await setup.message_delivery.drain()
    await setup.letters.discard((await setup.letter()).letter_id, TENANT, by="ann", reason="late")

    assert await setup.consume(case) is None


async def test_a_payload_is_not_in_a_letter_or_its_event(setup: InboxSetup) -> None:
    case = await setup.case()
    await setup.end(case)
    await setup.put(make_message(payload={"passport": "P-1234567"}))
    await setup.message_delivery.drain()

    assert "P-1234567" not in f"{await setup.letter()} {await setup.told(case, Kind.CORRELATION_FAILED)}"
