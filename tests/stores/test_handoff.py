"""Handing off: one case tells another, exactly when its step is done."""

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from opentelemetry.sdk.trace import TracerProvider

from tests.support.mail import DOCS, TENANT, Case, InboxSetup, mailroom
from verbworker import Call, PermanentContract, hand_off
from verbworker.stores.database import Connection


@pytest.fixture
async def room(dsn: str) -> AsyncIterator[InboxSetup]:
    async with mailroom(dsn) as room:
        yield room


def make_call(case: Case, connection: Connection | None) -> Call:
    return Call(
        verb="kyc.close",
        entry_id=case.entry_id,
        tenant_id=TENANT,
        idempotency_key="job-7",
        attempt=1,
        epoch=1,
        deadline=datetime.now(UTC) + timedelta(minutes=1),
        log=logging.getLogger("tests"),
        connection=connection,
    )


async def send(room: InboxSetup, case: Case, pages: int = 1, message_id: str | None = None) -> str:
    async with room.database.transaction() as connection:
        return await hand_off(make_call(case, connection), DOCS, "case-2", {"pages": pages}, message_id=message_id)


@pytest.mark.req("REG-14", "X-24")
async def test_a_step_of_one_case_ends_the_wait_of_another(room: InboxSetup) -> None:
    sender, receiver = await room.case(), await room.case("case-2")
    await send(room, sender)
    await room.message_delivery.drain()
    received = await room.consume(receiver, "case-2")

    assert received is not None
    assert received.payload == {"pages": 1}


async def test_what_is_handed_off_carries_the_trace_of_its_step(room: InboxSetup) -> None:
    sender = await room.case()
    with TracerProvider(shutdown_on_exit=False).get_tracer("step").start_as_current_span("step") as step:
        await send(room, sender)
        trace_id = step.get_span_context().trace_id

    (claimed,) = await room.claim()
    assert claimed.traceparent is not None
    assert claimed.traceparent.split("-")[1] == f"{trace_id:032x}"


async def test_a_step_that_is_undone_has_sent_nothing(room: InboxSetup) -> None:
    sender = await room.case()

    async def break_off() -> None:
        async with room.database.transaction() as connection:
            await hand_off(make_call(sender, connection), DOCS, "case-2")
            raise KeyError

    with pytest.raises(KeyError):
        await break_off()

    assert await room.inbox.backlog() == (0, 0.0)


async def test_a_step_that_runs_again_has_sent_one(room: InboxSetup) -> None:
    sender = await room.case()
    ids = {await send(room, sender) for _ in range(3)}

    assert (len(ids), (await room.inbox.backlog())[0]) == (1, 1)


@pytest.mark.parametrize("message_id", ["m-1", None])
async def test_another_message_under_the_same_id_breaks_the_contract(room: InboxSetup, message_id: str | None) -> None:
    sender = await room.case()
    await send(room, sender, message_id=message_id)

    with pytest.raises(PermanentContract) as told:
        await send(room, sender, pages=2, message_id=message_id)
    assert told.value.code == "MessageConflict"


@pytest.mark.parametrize("message_id", ["", " "])
async def test_a_message_that_does_not_fit_breaks_the_contract(room: InboxSetup, message_id: str) -> None:
    sender = await room.case()

    with pytest.raises(PermanentContract, match="message_id") as told:
        await send(room, sender, message_id=message_id)
    assert told.value.code == "MessageInvalid"


async def test_only_a_step_of_a_process_can_hand_off(room: InboxSetup) -> None:
    case = await room.case()
    stranger = Case(case.instance_uid, case.instance_uid)

    with pytest.raises(PermanentContract) as told:
        await send(room, stranger)
    assert told.value.code == "NoProcess"


async def test_an_external_verb_has_no_transaction_to_hand_off_in(room: InboxSetup) -> None:
    case = await room.case()

    with pytest.raises(PermanentContract) as told:
        await hand_off(make_call(case, None), DOCS, "case-2")
    assert told.value.code == "NoDatabase"
