"""Handing off: one case tells another, exactly when its step is done."""

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from opentelemetry.sdk.trace import TracerProvider

from tests.support.mail import DOCS, TENANT, Case, InboxSetup, open_inbox
from verbworker import Call, PermanentContract, hand_off
from verbworker.stores.database import Connection


@pytest.fixture
async def setup(dsn: str) -> AsyncIterator[InboxSetup]:
    async with open_inbox(dsn) as setup:
        yield setup


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
        clock=partial(datetime.now, UTC),
        connection=connection,
    )


async def send(setup: InboxSetup, case: Case, pages: int = 1, message_id: str | None = None) -> str:
    async with setup.database.transaction() as connection:
        return await hand_off(make_call(case, connection), DOCS, "case-2", {"pages": pages}, message_id=message_id)


@pytest.mark.req("REG-14", "X-24")
async def test_a_step_of_one_case_ends_the_wait_of_another(setup: InboxSetup) -> None:
    sender, receiver = await setup.case(), await setup.case("case-2")
    await send(setup, sender)
    await setup.message_delivery.drain()
    received = await setup.consume(receiver, "case-2")

    assert received is not None
    assert received.payload == {"pages": 1}


async def test_what_is_handed_off_carries_the_trace_of_its_step(setup: InboxSetup) -> None:
    sender = await setup.case()
    with TracerProvider(shutdown_on_exit=False).get_tracer("step").start_as_current_span("step") as step:
        await send(setup, sender)
        trace_id = step.get_span_context().trace_id

    (claimed,) = await setup.claim()
    assert claimed.traceparent is not None
    assert claimed.traceparent.split("-")[1] == f"{trace_id:032x}"


async def test_a_step_that_is_undone_has_sent_nothing(setup: InboxSetup) -> None:
    sender = await setup.case()

    async def break_off() -> None:
        async with setup.database.transaction() as connection:
            await hand_off(make_call(sender, connection), DOCS, "case-2")
            raise KeyError

    with pytest.raises(KeyError):
        await break_off()

    assert await setup.inbox.backlog() == (0, 0.0)


async def test_a_step_that_runs_again_has_sent_one(setup: InboxSetup) -> None:
    sender = await setup.case()
    ids = {await send(setup, sender) for _ in range(3)}

    assert (len(ids), (await setup.inbox.backlog())[0]) == (1, 1)


@pytest.mark.parametrize("message_id", ["m-1", None])
async def test_another_message_under_the_same_id_breaks_the_contract(setup: InboxSetup, message_id: str | None) -> None:
    sender = await setup.case()
    await send(setup, sender, message_id=message_id)

    with pytest.raises(PermanentContract) as told:
        await send(setup, sender, pages=2, message_id=message_id)
    assert told.value.code == "MessageConflict"


@pytest.mark.parametrize("message_id", ["", " "])
async def test_a_message_that_does_not_fit_breaks_the_contract(setup: InboxSetup, message_id: str) -> None:
    sender = await setup.case()

    with pytest.raises(PermanentContract, match="message_id") as told:
        await send(setup, sender, message_id=message_id)
    assert told.value.code == "MessageInvalid"


async def test_only_a_step_of_a_process_can_hand_off(setup: InboxSetup) -> None:
    case = await setup.case()
    stranger = Case(case.instance_uid, case.instance_uid)

    with pytest.raises(PermanentContract) as told:
        await send(setup, stranger)
    assert told.value.code == "NoProcess"


async def test_an_external_verb_has_no_transaction_to_hand_off_in(setup: InboxSetup) -> None:
    case = await setup.case()

    with pytest.raises(PermanentContract) as told:
        await hand_off(make_call(case, None), DOCS, "case-2")
    assert told.value.code == "NoDatabase"
