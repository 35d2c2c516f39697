"""The runbook, gates, messages."""

from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID

from tests.simulator.hands import SECOND, Hands, in_order, operation
from tests.simulator.twins import ENGINE, TENANT, Stores
from verbworker.contract.message import Message, Undeliverable, UndeliverableCode
from verbworker.runbook.event import Kind, Wait
from verbworker.stores.messages.inbox import ClaimedMessage, EndedWait


@operation
async def append(hands: Hands) -> None:
    entry_id, once = hands.entries[hands.place()], hands.dice.choice(("a", "b", "c"))
    kind = hands.dice.choice((Kind.STEP_COMPLETED, Kind.RESUMED, Kind.COMPENSATED))
    await hands.both(lambda stores: stores.runbook.append(entry_id, kind, once=once, detail={"verb": "sim.a"}))
    await hands.both(hands.within(lambda stores, c: stores.runbook.is_told_in(c, entry_id, once)))
    await hands.both(hands.within(lambda stores, c: stores.runbook.verbs_in(c, entry_id, kind)))
    await hands.both(hands.within(lambda stores, c: stores.runbook.first_in(c, entry_id, kind)))


@operation
async def park(hands: Hands) -> None:
    token = hands.token(hands.place())
    if token.kind is Wait.INCIDENT:
        return
    real, fake = await hands.both(hands.within(lambda stores, c: stores.runbook.park_in(c, token)))
    if token.kind is Wait.HUMAN_GATE:
        hands.tokens.append((real[0], fake[0]))


@operation
async def unpark(hands: Hands) -> None:
    token = hands.token(hands.place())
    where = token.element_instance_key
    await hands.both(hands.within(lambda s, c: in_order(s.runbook.unpark_in(c, ENGINE, where, closed_as="resumed"))))
    places = [token.element_id]
    if hands.dice.random() < 0.2:
        await hands.both(
            hands.within(
                lambda s, c: in_order(
                    s.runbook.unpark_elements_in(c, ENGINE, token.instance_key, places, closed_as="fired")
                )
            )
        )


@operation
async def hold_up(hands: Hands) -> None:
    token = replace(hands.token(hands.place()), kind=Wait.INCIDENT, gate=None, job_key=hands.key())
    once = str(hands.dice.random())
    act = hands.dice.choice(("hold_up_in", "let_go_in"))
    await hands.both(hands.within(lambda s, c: getattr(s.runbook, act)(c, token, once, {"verb": "sim.a"})))


@operation
async def cancel(hands: Hands) -> None:
    entry_id, longer = hands.entries[hands.place()], hands.pause()
    if hands.dice.random() < 0.3:
        await hands.both(hands.within(lambda s, c: s.runbook.request_cancel_in(c, entry_id, "ann", "reason")))
    await hands.both(hands.within(lambda s, c: s.runbook.is_cancelling_in(c, entry_id)))
    await hands.both(hands.within(lambda s, c: s.runbook.under_way_in(c, entry_id)))
    await hands.both(lambda stores: stores.runbook.cancelling(ENGINE, longer_than=longer, limit=5))


@operation
async def end(hands: Hands) -> None:
    if hands.dice.random() < 0.15:
        entry_id = hands.entries[hands.place()]
        kind = hands.dice.choice((Kind.RESULT, Kind.CANCELLED))
        detail = {"result": hands.dice.choice(("ok", "err"))}
        await hands.both(
            hands.within(lambda s, c: s.runbook.end_in(c, entry_id, outcome=b"{}", detail=detail, kind=kind))
        )


@operation
async def look_at_gates(hands: Hands) -> None:
    entry_id, closed = hands.dice.choice((None, hands.entries[hands.place()])), hands.dice.random() < 0.5
    await hands.both(lambda stores: stores.gates.gates(TENANT, entry_id=entry_id, closed=closed))
    await hands.of_gate(lambda stores, token_id: stores.gates.get(token_id))
    await hands.both(lambda stores: stores.gates.take_claims(ENGINE, 10, retry_after=30 * SECOND))


@operation
async def decide(hands: Hands) -> None:
    send_within = hands.dice.choice((None, 30 * SECOND))

    async def decide(stores: Stores, token_id: UUID) -> Any:
        async with stores.database.transaction() as connection:
            held = await stores.gates.hold_in(connection, token_id, TENANT)
            involved = None if held is None else await stores.gates.involved_in(connection, held)
            at = await stores.gates.decide_in(connection, token_id, "yes", "why", "ann", send_within=send_within)
            closed = await stores.gates.close_in(connection, token_id, closed_as="decided")
            return held, involved, at, closed

    await hands.of_gate(decide)


@operation
async def move_gate(hands: Hands) -> None:
    token = replace(hands.token(hands.place()), kind=Wait.HUMAN_GATE)

    async def move(stores: Stores) -> Any:
        earlier = await stores.gates.earlier(token)
        if earlier is None:
            return None
        async with stores.database.transaction() as connection:
            return earlier.element_instance_key, await stores.gates.move_in(connection, earlier, token)

    await hands.both(move)

    async def reopen(stores: Stores, token_id: UUID) -> Any:
        async with stores.database.transaction() as connection:
            return await stores.gates.reopen_in(connection, token_id), await stores.gates.get_in(connection, token_id)

    if hands.dice.random() < 0.3:
        await hands.of_gate(reopen)


@operation
async def tell_gate(hands: Hands) -> None:
    gone, pause = hands.dice.random() < 0.5, hands.pause()
    await hands.of_gate(lambda stores, token_id: stores.gates.count_attempt(token_id, retry_after=pause))
    await hands.of_gate(lambda stores, token_id: stores.gates.postpone(token_id, by=pause))
    if hands.dice.random() < 0.3:
        await hands.of_gate(lambda stores, token_id: stores.gates.record_answer(token_id, gone=gone))
    await hands.of_gate(lambda stores, token_id: stores.gates.record_sighting(token_id))
    await hands.both(lambda stores: stores.gates.due(ENGINE, 5, retry_after=pause))
    await hands.both(lambda stores: stores.gates.silent(ENGINE, longer_than=pause, limit=5))


@operation
async def hear(hands: Hands) -> None:
    uid = hands.uids[hands.place()]
    await hands.both(lambda stores: stores.gates.heard(uid, decisions=True, messages=True))


@operation
async def receive_message(hands: Hands) -> None:
    number, boot = hands.dice.randint(0, 3), hands.boot()
    message = Message(
        message_name="paper",
        message_id=f"message-{number}",
        correlation_key=f"case-{number % 3}",
        tenant_id=TENANT,
        payload=hands.dice.choice((None, {"a": 1})),
    )
    ttl = hands.dice.choice((20 * SECOND, 3600 * SECOND))
    await hands.both(lambda stores: stores.inboxes[boot].receive(message, sent_by="sender", ttl=ttl))


@operation
async def claim_message(hands: Hands) -> None:
    boot, pause = hands.boot(), hands.pause()
    claimed, _ = await hands.both(lambda stores: in_order(stores.inboxes[boot].claim(9, claim_for=pause)))
    hands.claimed += [(boot, one) for one in claimed]
    await hands.both(lambda stores: stores.inboxes[boot].strand())
    await hands.both(lambda stores: stores.inboxes[boot].backlog())


@operation
async def deliver_message(hands: Hands) -> None:
    if not hands.claimed:
        return
    boot, claimed = hands.dice.choice(hands.claimed)
    uid, slack = hands.uids[0], hands.pause()
    declared = {"sim.line": "corr_number"}
    await hands.both(lambda stores: stores.inboxes[boot].candidates(claimed, declared))
    await hands.both(lambda stores: stores.inboxes[boot].aim(claimed, uid))
    match hands.dice.choice(("sent", "postpone", "bury", "sent")):
        case "sent":
            await hands.both(lambda stores: stores.inboxes[boot].record_send(claimed, slack=slack))
        case "postpone":
            await hands.both(lambda stores: stores.inboxes[boot].postpone(claimed, by=slack, reason="later"))
        case _:
            why = Undeliverable(UndeliverableCode.NO_CASE, "no case")
            await hands.both(lambda stores: stores.letters.bury(stores.inboxes[boot], claimed, why))


@operation
async def consume_message(hands: Hands) -> None:
    uid, key = hands.uids[0], f"case-{hands.dice.randint(0, 2)}"
    ended = EndedWait(hands.dice.choice(("ask", "first")), hands.dice.choice((None, sha256(b"first").digest())))
    await hands.both(hands.within(lambda s, c: s.inboxes[0].consume_in(c, uid, "paper", key, ended=ended)))


@operation
async def forget_message(hands: Hands) -> None:
    uid, pause, ended = hands.uids[0], hands.pause(), EndedWait("first", sha256(b"first").digest())
    token = replace(hands.token(0), kind=Wait.EXTERNAL_SIGNAL, gate=None, message_name="paper", element_id="first")
    token = replace(token, input_hash=ended.input_hash)
    await hands.both(hands.within(lambda s, c: s.runbook.park_in(c, token)))
    await hands.both(hands.within(lambda s, c: s.inboxes[0].has_ended_in(c, uid, "paper", ended)))
    await hands.both(hands.within(lambda s, c: s.inboxes[0].forget_in(c, uid, "paper", ended)))
    await hands.both(hands.within(lambda s, c: s.runbook.reopen_in(c, token)))
    await hands.both(hands.within(lambda s, c: s.runbook.displace_in(c, token)))
    await hands.both(lambda stores: in_order(stores.inboxes[0].claim_forgotten(9, claim_for=pause)))
    if hands.claimed:
        await hands.both(partial(_resent, hands.dice.choice(hands.claimed)[1]))


async def _resent(claimed: ClaimedMessage, stores: Stores) -> None:
    await stores.inboxes[0].resent(claimed)
