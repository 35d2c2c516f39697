"""The runbook, gates, messages."""

from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID

from tests.simulator.driver import SECOND, Driver, in_order, operation
from tests.simulator.twins import ENGINE, TENANT, Stores
from verbworker.contract.message import Message, Undeliverable, UndeliverableCode, payload_field
from verbworker.runbook.event import Kind, Wait
from verbworker.stores.messages.inbox import ClaimedMessage, EndedWait


@operation
async def append(driver: Driver) -> None:
    entry_id, once = driver.entries[driver.place()], driver.dice.choice(("a", "b", "c"))
    kind = driver.dice.choice((Kind.STEP_COMPLETED, Kind.RESUMED, Kind.COMPENSATED))
    await driver.both(lambda stores: stores.runbook.append(entry_id, kind, once=once, detail={"verb": "sim.a"}))
    await driver.both(driver.within(lambda stores, c: stores.runbook.is_recorded_in(c, entry_id, once)))
    await driver.both(driver.within(lambda stores, c: stores.runbook.verbs_in(c, entry_id, kind)))
    await driver.both(driver.within(lambda stores, c: stores.runbook.first_in(c, entry_id, kind)))


@operation
async def park(driver: Driver) -> None:
    token = driver.token(driver.place())
    if token.kind is Wait.INCIDENT:
        return
    real, fake = await driver.both(driver.within(lambda stores, c: stores.runbook.park_in(c, token)))
    if token.kind is Wait.HUMAN_GATE:
        driver.tokens.append((real[0], fake[0]))


@operation
async def unpark(driver: Driver) -> None:
    token = driver.token(driver.place())
    where = token.element_instance_key
    await driver.both(driver.within(lambda s, c: in_order(s.runbook.unpark_in(c, ENGINE, where, closed_as="resumed"))))
    places = [token.element_id]
    if driver.dice.random() < 0.2:
        await driver.both(
            driver.within(
                lambda s, c: in_order(
                    s.runbook.unpark_elements_in(c, ENGINE, token.instance_key, places, closed_as="fired")
                )
            )
        )


@operation
async def hold_up(driver: Driver) -> None:
    token = replace(driver.token(driver.place()), kind=Wait.INCIDENT, gate=None, job_key=driver.key())
    once = str(driver.dice.random())
    act = driver.dice.choice(("hold_up_in", "let_go_in"))
    await driver.both(driver.within(lambda s, c: getattr(s.runbook, act)(c, token, once, {"verb": "sim.a"})))


@operation
async def cancel(driver: Driver) -> None:
    entry_id, longer = driver.entries[driver.place()], driver.pause()
    if driver.dice.random() < 0.3:
        await driver.both(driver.within(lambda s, c: s.runbook.request_cancel_in(c, entry_id, "ann", "reason")))
    await driver.both(driver.within(lambda s, c: s.runbook.is_cancelling_in(c, entry_id)))
    await driver.both(driver.within(lambda s, c: s.runbook.under_way_in(c, entry_id)))
    await driver.both(lambda stores: stores.runbook.find_cancelling(ENGINE, longer_than=longer, limit=5))


@operation
async def end(driver: Driver) -> None:
    if driver.dice.random() < 0.15:
        entry_id = driver.entries[driver.place()]
        kind = driver.dice.choice((Kind.RESULT, Kind.CANCELLED))
        detail = {"result": driver.dice.choice(("ok", "err"))}
        await driver.both(
            driver.within(lambda s, c: s.runbook.end_in(c, entry_id, outcome=b"{}", detail=detail, kind=kind))
        )


@operation
async def look_at_gates(driver: Driver) -> None:
    entry_id, closed = driver.dice.choice((None, driver.entries[driver.place()])), driver.dice.random() < 0.5
    await driver.both(lambda stores: stores.gates.gates(TENANT, entry_id=entry_id, closed=closed))
    await driver.of_gate(lambda stores, token_id: stores.gates.get(token_id))
    await driver.both(lambda stores: stores.gates.take_claims(ENGINE, 10, retry_after=30 * SECOND))


@operation
async def decide(driver: Driver) -> None:
    send_within = driver.dice.choice((None, 30 * SECOND))

    async def decide(stores: Stores, token_id: UUID) -> Any:
        async with stores.database.transaction() as connection:
            held = await stores.gates.hold_in(connection, token_id, TENANT)
            involved = None if held is None else await stores.gates.involved_in(connection, held)
            at = await stores.gates.decide_in(connection, token_id, "yes", "why", "ann", send_within=send_within)
            closed = await stores.gates.close_in(connection, token_id, closed_as="decided")
            return held, involved, at, closed

    await driver.of_gate(decide)


@operation
async def move_gate(driver: Driver) -> None:
    token = replace(driver.token(driver.place()), kind=Wait.HUMAN_GATE)

    async def move(stores: Stores) -> Any:
        earlier = await stores.gates.earlier(token)
        if earlier is None:
            return None
        async with stores.database.transaction() as connection:
            return earlier.element_instance_key, await stores.gates.move_in(connection, earlier, token)

    await driver.both(move)

    async def reopen(stores: Stores, token_id: UUID) -> Any:
        async with stores.database.transaction() as connection:
            return await stores.gates.reopen_in(connection, token_id), await stores.gates.get_in(connection, token_id)

    if driver.dice.random() < 0.3:
        await driver.of_gate(reopen)


@operation
async def tell_gate(driver: Driver) -> None:
    gone, pause, reason = driver.dice.random() < 0.5, driver.pause(), driver.dice.choice((None, "no permission"))
    await driver.of_gate(lambda stores, token_id: stores.gates.count_attempt(token_id, retry_after=pause))
    await driver.of_gate(lambda stores, token_id: stores.gates.postpone(token_id, by=pause, reason=reason))
    await driver.both(lambda stores: stores.gates.backlog(ENGINE))
    if driver.dice.random() < 0.3:
        await driver.of_gate(lambda stores, token_id: stores.gates.record_answer(token_id, gone=gone))
    await driver.of_gate(lambda stores, token_id: stores.gates.record_sighting(token_id))
    await driver.both(lambda stores: stores.gates.due(ENGINE, 5, retry_after=pause))
    await driver.both(lambda stores: stores.gates.silent(ENGINE, longer_than=pause, limit=5))


@operation
async def hear(driver: Driver) -> None:
    uid = driver.uids[driver.place()]
    await driver.both(lambda stores: stores.gates.heard(uid, decisions=True, messages=True))


@operation
async def receive_message(driver: Driver) -> None:
    number, boot = driver.dice.randint(0, 3), driver.boot()
    message = Message(
        message_name="paper",
        message_id=f"message-{number}",
        correlation_key=f"case-{number % 3}",
        tenant_id=driver.dice.choice((TENANT, "other")),
        workflow_id=driver.dice.choice((None, "case-1")),
        **payload_field(driver.dice.choice((None, {"a": 1}, b"\x00a"))),
    )
    ttl = driver.dice.choice((20 * SECOND, 3600 * SECOND))
    await driver.both(lambda stores: stores.inboxes[boot].receive(message, sent_by="sender", ttl=ttl))


@operation
async def claim_message(driver: Driver) -> None:
    boot, pause = driver.boot(), driver.pause()
    claimed, _ = await driver.both(
        lambda stores: in_order(stores.inboxes[boot].claim(driver.most, names=("paper",), claim_for=pause))
    )
    driver.claimed += [(boot, one) for one in claimed]
    await driver.both(lambda stores: stores.inboxes[boot].strand())
    await driver.both(lambda stores: stores.inboxes[boot].backlog())


@operation
async def deliver_message(driver: Driver) -> None:
    if not driver.claimed:
        return
    boot, claimed = driver.dice.choice(driver.claimed)
    uid, slack = driver.uids[0], driver.pause()
    declared = {"sim.line": "corr_number"}
    await driver.both(lambda stores: stores.inboxes[boot].candidates(claimed, declared))
    await driver.both(lambda stores: stores.inboxes[boot].fits_workflow(uid, claimed.workflow_id or claimed.message_id))
    await driver.both(lambda stores: stores.inboxes[boot].aim(claimed, uid))
    match driver.dice.choice(("sent", "postpone", "bury", "sent")):
        case "sent":
            await driver.both(lambda stores: stores.inboxes[boot].record_send(claimed, slack=slack))
        case "postpone":
            await driver.both(lambda stores: stores.inboxes[boot].postpone(claimed, by=slack, reason="later"))
        case _:
            why = Undeliverable(UndeliverableCode.NO_CASE, "no case")
            await driver.both(lambda stores: stores.letters.bury(stores.inboxes[boot], claimed, why))


@operation
async def consume_message(driver: Driver) -> None:
    uid, key = driver.uids[0], f"case-{driver.dice.randint(0, 2)}"
    ended = EndedWait(driver.dice.choice(("ask", "first")), driver.dice.choice((None, sha256(b"first").digest())))
    await driver.both(driver.within(lambda s, c: s.inboxes[0].consume_in(c, uid, "paper", key, ended=ended)))


@operation
async def forget_message(driver: Driver) -> None:
    uid, pause, ended = driver.uids[0], driver.pause(), EndedWait("first", sha256(b"first").digest())
    token = replace(driver.token(0), kind=Wait.EXTERNAL_SIGNAL, gate=None, message_name="paper", element_id="first")
    token = replace(token, input_hash=ended.input_hash)
    await driver.both(driver.within(lambda s, c: s.runbook.park_in(c, token)))
    await driver.both(driver.within(lambda s, c: s.inboxes[0].has_ended_in(c, uid, "paper", ended)))
    await driver.both(driver.within(lambda s, c: s.inboxes[0].forget_in(c, uid, "paper", ended)))
    await driver.both(driver.within(lambda s, c: s.runbook.reopen_in(c, token)))
    await driver.both(driver.within(lambda s, c: s.runbook.displace_in(c, token)))
    await driver.both(lambda stores: in_order(stores.inboxes[0].claim_forgotten(9, claim_for=pause)))
    if driver.claimed:
        await driver.both(partial(_resent, driver.dice.choice(driver.claimed)[1]))


async def _resent(claimed: ClaimedMessage, stores: Stores) -> None:
    await stores.inboxes[0].resent(claimed)
