"""Cases, claims and outcomes, steps."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID

from tests.simulator.hands import SECOND, Hands, in_order, operation
from tests.simulator.twins import ENGINE, TENANT, Stores
from verbworker.job.frame import Claim
from verbworker.job.outcome import Incident, Retry, Thrown, Yielded
from verbworker.model.start_variables import StartVariables
from verbworker.runbook.event import EntryMode
from verbworker.stores.cases import payloads
from verbworker.stores.cases.instances import Instance
from verbworker.stores.cases.runbook import Request
from verbworker.stores.database import Connection, plan_by_key
from verbworker.stores.jobs.frames import VerdictRow
from verbworker.stores.jobs.steps import ThrownTwin, Twin
from verbworker.stores.sql import query


@operation
async def open_case(hands: Hands) -> None:
    if len(hands.uids) >= 3:
        return
    uid, entry_id = (UUID(int=hands.dice.getrandbits(128), version=4) for _ in range(2))
    number = hands.dice.randint(0, 2)
    request = Request(
        *(entry_id, TENANT, f"request-{number}", b"hash", "sim.line", "1", EntryMode.DURABLE, "sentence"),
        *("invocation", b"{}", "caller"),
        process_id="line",
    )
    keys = {"corr_number": f"case-{number}"}
    instance = Instance(
        *(uid, TENANT, entry_id, "sim.line", "1", "sim.line/v1", ENGINE, "line", b"first"), correlation=keys
    )
    beginning = StartVariables(uid, entry_id, TENANT, b"first", keys, None, {"a": 1})

    async def open_(stores: Stores, connection: Connection) -> bool:
        if not await stores.runbook.open_in(connection, request):
            return False
        await stores.instances.open_in(connection, instance)
        await stores.dispatches[0].add_in(connection, beginning, "line")
        return True

    made, _ = await hands.both(hands.within(open_))
    if made is True:
        hands.uids.append(uid)
        hands.entries.append(entry_id)


@operation
async def earlier(hands: Hands) -> None:
    key = f"request-{hands.dice.randint(0, 3)}"
    await hands.both(lambda stores: stores.runbook.earlier(TENANT, key))


@operation
async def pin(hands: Hands) -> None:
    uid, key = hands.uids[hands.place()], hands.dice.randint(100, 103)
    await hands.both(lambda stores: stores.instances.pin(uid, instance_key=key, definition_key=7, version=1))


@operation
async def look_at_instance(hands: Hands) -> None:
    uid, entry_id = hands.uids[hands.place()], hands.entries[hands.place()]
    await hands.both(lambda stores: stores.instances.facts(uid))
    await hands.both(lambda stores: stores.instances.key_of(uid))
    await hands.both(lambda stores: stores.instances.of_entry(entry_id))
    await hands.both(hands.within(lambda stores, connection: stores.instances.hold_in(connection, uid)))
    await hands.both(hands.within(lambda stores, connection: stores.instances.hold_carrier_in(connection, entry_id)))
    key = hands.dice.randint(100, 103)
    await hands.both(hands.within(lambda stores, connection: stores.instances.is_made_again_in(connection, uid, key)))


@operation
async def quiet(hands: Hands) -> None:
    longer = hands.pause()
    uid, key, within = hands.uids[hands.place()], hands.dice.randint(100, 103), 30 * SECOND + hands.pause()
    await hands.both(lambda stores: in_order(stores.instances.quiet(ENGINE, longer_than=longer, limit=9)))
    await hands.both(
        lambda stores: in_order(stores.instances.lingering(ENGINE, longer_than=longer, limit=9, within=within))
    )
    if hands.dice.random() < 0.3:
        await hands.both(lambda stores: stores.instances.gone(uid, key))


@operation
async def payload(hands: Hands) -> None:
    uid, content = hands.uids[hands.place()], hands.dice.choice(hands.contents)
    digest = sha256(content).digest()
    await hands.both(hands.within(lambda stores, connection: payloads.head_in(connection, uid)))
    await hands.both(hands.within(lambda stores, connection: payloads.hold_head(connection, uid)))
    await hands.both(hands.within(lambda stores, connection: payloads.is_known_in(connection, uid, digest)))


@operation
async def dispatch(hands: Hands) -> None:
    boot, uid, pause, entry_id = hands.boot(), hands.uids[hands.place()], hands.pause(), hands.entries[hands.place()]
    sure = hands.dice.random() < 0.3
    await hands.both(lambda stores: in_order(stores.dispatches[boot].claim(9, claim_for=pause)))
    await hands.both(
        lambda stores: stores.dispatches[boot].postpone(uid, by=pause, reason="away", surely_unstarted=sure)
    )
    await hands.both(lambda stores: stores.dispatches[boot].is_doubtful(uid))
    await hands.both(lambda stores: stores.dispatches[boot].backlog())
    if hands.dice.random() < 0.1:
        await hands.both(hands.within(lambda stores, connection: stores.dispatches[0].withdraw_in(connection, uid)))
    await hands.both(lambda stores: stores.runbook.entry(entry_id))


@operation
async def adopt(hands: Hands) -> None:
    uid, was, job = hands.uids[hands.place()], hands.dice.randint(100, 103), hands.delivery().job
    await hands.both(lambda stores: stores.instances.adopt(uid, job, instead_of=was))
    await hands.both(lambda stores: stores.instances.miss(uid, was))
    if hands.dice.random() < 0.5:
        await hands.both(lambda stores: stores.instances.find_again(uid, was))
        await hands.both(lambda stores: stores.instances.look_again(uid, was, timedelta(minutes=10)))
    await hands.both(lambda stores: stores.instances.pin_to(uid, job, b"hash"))


@operation
async def claim(hands: Hands) -> None:
    boot = hands.boot()
    some = {delivery.job.key: delivery for delivery in (hands.delivery() for _ in range(hands.dice.randint(1, 2)))}
    kind = hands.dice.choice(("_open_many", "_push_many", "_push_many"))
    claims, _ = await hands.both(lambda stores: getattr(stores.frames[boot], kind)(list(some.values())))
    hands.claims += [(boot, claim) for claim in claims if claim is not None]


@operation
async def resume(hands: Hands) -> None:
    boot, key = hands.boot(), hands.key()
    await hands.both(lambda stores: stores.frames[boot].resume(key))


@operation
async def observe(hands: Hands) -> None:
    key = hands.key()
    frame, _ = await hands.both(lambda stores: stores.frames[0].observe(key))
    await hands.both(lambda stores: stores.frames[0].read(key))
    if frame is not None:
        hands.frames.append(frame)


@operation
async def settle(hands: Hands) -> None:
    await hands.of_claim(lambda stores, boot, claim: stores.frames[boot].settle(claim))


@operation
async def beat(hands: Hands) -> None:
    boot = hands.boot()
    mine = {claim.job_key: claim.epoch for owner, claim in hands.claims if owner == boot}
    if mine:
        await hands.both(lambda stores: stores.frames[boot].heartbeat(mine))


@operation
async def complete(hands: Hands) -> None:
    keys = {"corr_later": "value"} if hands.dice.random() < 0.3 else {}
    is_head, is_own, is_same, is_batch = (hands.dice.random() < share for share in (0.8, 0.9, 0.1, 0.5))
    some, output = hands.dice.choice(hands.contents), f"content {len(hands.contents)}".encode()
    heads = {uid: hands.twins.store.tables["payload_head"][uid,]["content"] for uid in hands.uids}

    async def pop(stores: Stores, boot: int, claim: Claim) -> bool:
        uid = hands.uids[claim.job_key % len(hands.uids) if is_own else 0]
        base = heads[uid] if is_head else some
        content = base if is_same else output
        digests = sha256(base).digest(), content, sha256(content).digest()
        verdict = VerdictRow(claim, uid, *digests, "seal", {"orch_a": True}, keys)
        async with stores.database.transaction() as connection:
            await plan_by_key(connection)
            if not is_batch:
                return await stores.frames[boot].pop_completed_in(connection, verdict)
            (popped,) = await stores.frames[boot]._pop_all_in(connection, [verdict])
            return bool(popped)

    hands.contents.append(output)
    await hands.of_claim(pop)


@operation
async def end_otherwise(hands: Hands) -> None:
    delay = hands.dice.choice((0.0, 5.0))
    ending = hands.dice.choice(("pop_thrown", "pop_failed", "pop_yielded", "pop_incident", "pop_failed"))
    outcome = {
        "pop_thrown": Thrown("CODE", "no"),
        "pop_failed": Retry("TransientExternal", "Busy", "busy", delay),
        "pop_yielded": Yielded("Shutdown", "stops", delay),
        "pop_incident": Incident("PermanentContract", "Wrong", "wrong"),
    }[ending]
    await hands.of_claim(lambda stores, boot, claim: getattr(stores.frames[boot], ending)(claim, outcome))


@operation
async def hold(hands: Hands) -> None:
    if hands.frames:
        boot, frame = hands.boot(), hands.dice.choice(hands.frames)
        at = frame.activated_ms + hands.dice.choice((0, 1, 100_000))
        await hands.both(lambda stores: stores.frames[boot].hold(frame, at, code="CrashLoop", message="too often"))


@operation
async def report(hands: Hands) -> None:
    key, epoch, boot = hands.key(), hands.dice.randint(1, 4), hands.boot()
    await hands.both(lambda stores: stores.frames[boot].record_report(key, epoch))


@operation
async def acknowledge(hands: Hands) -> None:
    acks = {hands.key(): hands.dice.choice(("ok", "gone"))}
    await hands.both(lambda stores: stores.frames[0].acknowledge_in(stores.database, acks))


@operation
async def relay(hands: Hands) -> None:
    older, hold = hands.pause(), hands.pause()
    await hands.both(lambda stores: in_order(stores.frames[0].claim_unsent(older_than=older, hold=hold, limit=10)))


@operation
async def note(hands: Hands) -> None:
    key = hands.key()
    await hands.both(lambda stores: stores.frames[0].note(key, "kind", epoch=1, detail="detail"))
    await hands.both(lambda stores: stores.frames[0].quarantine(key, {"a": 1}))
    await hands.both(lambda stores: stores.frames[0].boot(name="w", host="h", pid=1))


@operation
async def close(hands: Hands) -> None:
    key, epoch, boot = hands.key(), hands.dice.randint(1, 4), hands.boot()
    if hands.dice.random() < 0.3:
        code = hands.dice.choice(("JobGone", "StepMovedOn"))
        await hands.both(lambda stores: stores.frames[boot].close(key, epoch, code=code, message="gone"))


@operation
async def displace(hands: Hands) -> None:
    if hands.frames and hands.dice.random() < 0.5:
        boot, frame, delivery = hands.boot(), hands.dice.choice(hands.frames), hands.delivery()
        delivery = replace(delivery, job=replace(delivery.job, key=frame.job_key))
        await hands.both(lambda stores: stores.frames[boot].displace(frame, delivery))


@operation
async def read_archived(hands: Hands) -> None:
    key = hands.key()
    await hands.both(lambda stores: stores.frames[0].observe(key))

    async def read(stores: Stores) -> list[dict[str, Any]]:
        return [dict(row) for row in await stores.database.fetch(query("frames", "read_archived"), ENGINE, key)]

    await hands.both(read)


@operation
async def twins(hands: Hands) -> None:
    delivery = hands.delivery()
    uid = hands.uids[hands.place()]
    is_once = hands.dice.random() < 0.5
    twins, _ = await hands.both(
        lambda stores: in_order(stores.steps.twins(delivery.job, uid, delivery.input_hash, is_once=is_once))
    )
    for twin in twins:
        act = hands.dice.choice(("repeat", "succeed"))
        await hands.of_claim(partial(_follow, act, twin))
    await hands.both(
        lambda stores: in_order(stores.steps.thrown(delivery.job, uid, delivery.input_hash, is_once=is_once))
    )
    await hands.of_claim(partial(_follow, "follow", ThrownTwin(delivery.job.key, True, False)))
    await hands.of_claim(lambda stores, boot, claim: stores.steps.is_cleared(claim))


async def _follow(act: str, twin: Twin | ThrownTwin, stores: Stores, boot: int, claim: Claim) -> Any:
    return await getattr(stores.steps, act)(claim, twin)


@operation
async def note_worker(hands: Hands) -> None:
    boot = hands.boot()
    await hands.both(lambda stores: stores.frames[boot].note_alive())
    await hands.both(lambda stores: stores.frames[boot].note_end())
