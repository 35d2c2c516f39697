"""Cases, claims and outcomes, steps."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID

from tests.simulator.driver import SECOND, Driver, in_order, operation
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
async def open_case(driver: Driver) -> None:
    if len(driver.uids) >= 3:
        return
    uid, entry_id = (UUID(int=driver.dice.getrandbits(128), version=4) for _ in range(2))
    number = driver.dice.randint(0, 2)
    request = Request(
        *(entry_id, TENANT, f"request-{number}", b"hash", "sim.line", "1", EntryMode.DURABLE, "sentence"),
        *("invocation", b"{}", "caller"),
        process_id="line",
    )
    keys = {"corr_number": f"case-{number}"}
    instance = Instance(
        *(uid, TENANT, entry_id, "sim.line", "1", "sim.line/v1", ENGINE, "line", b"first"),
        correlation=keys,
        seal="first",
        flags={"orch_a": False} if driver.dice.random() < 0.5 else None,
    )
    beginning = StartVariables(uid, entry_id, f"{TENANT}-{number}", b"first", "first", {}, keys, None, {"a": 1})

    async def open_(stores: Stores, connection: Connection) -> bool:
        if not await stores.runbook.open_in(connection, request):
            return False
        await stores.instances.open_in(connection, instance)
        await stores.dispatches[0].add_in(connection, beginning, "line")
        return True

    made, _ = await driver.both(driver.within(open_))
    if made is True:
        driver.uids.append(uid)
        driver.entries.append(entry_id)


@operation
async def earlier(driver: Driver) -> None:
    key = f"request-{driver.dice.randint(0, 3)}"
    await driver.both(lambda stores: stores.runbook.earlier(TENANT, key))


@operation
async def pin(driver: Driver) -> None:
    uid, key = driver.uids[driver.place()], driver.dice.randint(100, 103)
    await driver.both(lambda stores: stores.instances.pin(uid, instance_key=key, definition_key=7, version=1))


@operation
async def look_at_instance(driver: Driver) -> None:
    uid, entry_id = driver.uids[driver.place()], driver.entries[driver.place()]
    await driver.both(lambda stores: stores.instances.facts(uid))
    await driver.both(lambda stores: stores.instances.key_of(uid))
    await driver.both(lambda stores: stores.instances.of_entry(entry_id))
    await driver.both(driver.within(lambda stores, connection: stores.instances.hold_in(connection, uid)))
    await driver.both(driver.within(lambda stores, connection: stores.instances.hold_carrier_in(connection, entry_id)))
    key = driver.dice.randint(100, 103)
    await driver.both(driver.within(lambda stores, connection: stores.instances.is_made_again_in(connection, uid, key)))


@operation
async def quiet(driver: Driver) -> None:
    longer = driver.pause()
    uid, key, within = driver.uids[driver.place()], driver.dice.randint(100, 103), 30 * SECOND + driver.pause()
    await driver.both(lambda stores: in_order(stores.instances.quiet(ENGINE, longer_than=longer, limit=9)))
    await driver.both(
        lambda stores: in_order(stores.instances.find_lingering(ENGINE, longer_than=longer, limit=9, within=within))
    )
    if driver.dice.random() < 0.3:
        await driver.both(lambda stores: stores.instances.gone(uid, key))


@operation
async def payload(driver: Driver) -> None:
    uid, content = driver.uids[driver.place()], driver.dice.choice(driver.contents)
    digest = sha256(content).digest()
    await driver.both(driver.within(lambda stores, connection: payloads.head_in(connection, uid)))
    await driver.both(driver.within(lambda stores, connection: payloads.hold_head(connection, uid)))
    await driver.both(driver.within(lambda stores, connection: payloads.is_known_in(connection, uid, digest)))
    brought = {"orch_a": driver.dice.random() < 0.5}
    await driver.both(driver.within(lambda stores, connection: payloads.unknown_flags(connection, uid, brought)))


@operation
async def dispatch(driver: Driver) -> None:
    boot, uid, pause, entry_id = (
        driver.boot(),
        driver.uids[driver.place()],
        driver.pause(),
        driver.entries[driver.place()],
    )
    sure = driver.dice.random() < 0.3
    await driver.both(lambda stores: in_order(stores.dispatches[boot].claim(driver.most, claim_for=pause)))
    await driver.both(
        lambda stores: stores.dispatches[boot].postpone(uid, by=pause, reason="away", surely_unstarted=sure)
    )
    await driver.both(lambda stores: stores.dispatches[boot].is_doubtful(uid))
    await driver.both(lambda stores: stores.dispatches[boot].backlog())
    if driver.dice.random() < 0.1:
        await driver.both(driver.within(lambda stores, connection: stores.dispatches[0].withdraw_in(connection, uid)))
    await driver.both(lambda stores: stores.runbook.entry(entry_id))


@operation
async def adopt(driver: Driver) -> None:
    uid, was, job = driver.uids[driver.place()], driver.dice.randint(100, 103), driver.delivery().job
    await driver.both(lambda stores: stores.instances.adopt(uid, job, instead_of=was))
    await driver.both(lambda stores: stores.instances.miss(uid, was))
    if driver.dice.random() < 0.5:
        await driver.both(lambda stores: stores.instances.find_again(uid, was))
        await driver.both(lambda stores: stores.instances.look_again(uid, was, timedelta(minutes=10)))
    await driver.both(lambda stores: stores.instances.pin_to(uid, job, b"hash"))


@operation
async def claim(driver: Driver) -> None:
    boot = driver.boot()
    some = {delivery.job.key: delivery for delivery in (driver.delivery() for _ in range(driver.dice.randint(1, 2)))}
    kind = driver.dice.choice(("_open_many", "_push_many", "_push_many"))
    claims, _ = await driver.both(lambda stores: getattr(stores.frames[boot], kind)(list(some.values())))
    driver.claims += [(boot, claim) for claim in claims if claim is not None]


@operation
async def resume(driver: Driver) -> None:
    boot, key = driver.boot(), driver.key()
    await driver.both(lambda stores: stores.frames[boot].resume(key))


@operation
async def observe(driver: Driver) -> None:
    key = driver.key()
    frame, _ = await driver.both(lambda stores: stores.frames[0].observe(key))
    await driver.both(lambda stores: stores.frames[0].read(key))
    if frame is not None:
        driver.frames.append(frame)


@operation
async def settle(driver: Driver) -> None:
    await driver.of_claim(lambda stores, boot, claim: stores.frames[boot].settle(claim))


@operation
async def beat(driver: Driver) -> None:
    boot = driver.boot()
    mine = {claim.job_key: claim.epoch for owner, claim in driver.claims if owner == boot}
    if mine:
        await driver.both(lambda stores: stores.frames[boot].heartbeat(mine))


@operation
async def complete(driver: Driver) -> None:
    keys = {"corr_later": "value"} if driver.dice.random() < 0.3 else {}
    is_head, is_own, is_same, is_batch = (driver.dice.random() < share for share in (0.8, 0.9, 0.1, 0.5))
    some, output = driver.dice.choice(driver.contents), f"content {len(driver.contents)}".encode()
    seal = driver.dice.choice(("seal", "first", "last"))
    heads = {uid: driver.twins.store.tables["payload_head"][uid,]["content"] for uid in driver.uids}

    async def pop(stores: Stores, boot: int, claim: Claim) -> bool:
        uid = driver.uids[claim.job_key % len(driver.uids) if is_own else 0]
        base = heads[uid] if is_head else some
        content = base if is_same else output
        digests = sha256(base).digest(), content, sha256(content).digest()
        verdict = VerdictRow(claim, uid, *digests, seal, {"orch_a": True}, keys)
        async with stores.database.transaction() as connection:
            await plan_by_key(connection)
            if not is_batch:
                return await stores.frames[boot].pop_completed_in(connection, verdict)
            (popped,) = await stores.frames[boot]._pop_all_in(connection, [verdict])
            return bool(popped)

    driver.contents.append(output)
    await driver.of_claim(pop)


@operation
async def end_otherwise(driver: Driver) -> None:
    delay = driver.dice.choice((0.0, 5.0))
    ending = driver.dice.choice(("pop_thrown", "pop_failed", "pop_yielded", "pop_incident", "pop_failed"))
    outcome = {
        "pop_thrown": Thrown("CODE", "no"),
        "pop_failed": Retry("TransientExternal", "Busy", "busy", delay),
        "pop_yielded": Yielded("Shutdown", "stops", delay),
        "pop_incident": Incident("PermanentContract", "Wrong", "wrong"),
    }[ending]
    await driver.of_claim(lambda stores, boot, claim: getattr(stores.frames[boot], ending)(claim, outcome))


@operation
async def hold(driver: Driver) -> None:
    if driver.frames:
        boot, frame = driver.boot(), driver.dice.choice(driver.frames)
        at = frame.activated_ms + driver.dice.choice((0, 1, 100_000))
        await driver.both(lambda stores: stores.frames[boot].hold(frame, at, code="CrashLoop", message="too often"))


@operation
async def report(driver: Driver) -> None:
    key, epoch, boot = driver.key(), driver.dice.randint(1, 4), driver.boot()
    await driver.both(lambda stores: stores.frames[boot].record_report(key, epoch))


@operation
async def acknowledge(driver: Driver) -> None:
    acks = {driver.key(): driver.dice.choice(("ok", "gone"))}
    await driver.both(lambda stores: stores.frames[0].acknowledge_in(stores.database, acks))


@operation
async def relay(driver: Driver) -> None:
    older, hold = driver.pause(), driver.pause()
    await driver.both(lambda stores: in_order(stores.frames[0].claim_unsent(older_than=older, hold=hold, limit=10)))


@operation
async def note(driver: Driver) -> None:
    key = driver.key()
    await driver.both(lambda stores: stores.frames[0].note(key, "kind", epoch=1, detail="detail"))
    await driver.both(lambda stores: stores.frames[0].quarantine(key, {"a": 1}))
    await driver.both(lambda stores: stores.frames[0].boot(name="w", host="h", pid=1))


@operation
async def close(driver: Driver) -> None:
    key, epoch, boot = driver.key(), driver.dice.randint(1, 4), driver.boot()
    if driver.dice.random() < 0.3:
        code = driver.dice.choice(("JobGone", "StepMovedOn"))
        await driver.both(lambda stores: stores.frames[boot].close(key, epoch, code=code, message="gone"))


@operation
async def displace(driver: Driver) -> None:
    if driver.frames and driver.dice.random() < 0.5:
        boot, frame, delivery = driver.boot(), driver.dice.choice(driver.frames), driver.delivery()
        delivery = replace(delivery, job=replace(delivery.job, key=frame.job_key))
        await driver.both(lambda stores: stores.frames[boot].displace(frame, delivery))


@operation
async def read_archived(driver: Driver) -> None:
    key = driver.key()
    await driver.both(lambda stores: stores.frames[0].observe(key))

    async def read(stores: Stores) -> list[dict[str, Any]]:
        return [dict(row) for row in await stores.database.fetch(query("frames", "read_archived"), ENGINE, key)]

    await driver.both(read)


@operation
async def twins(driver: Driver) -> None:
    delivery = driver.delivery()
    uid = driver.uids[driver.place()]
    is_once = driver.dice.random() < 0.5
    twins, _ = await driver.both(
        lambda stores: in_order(stores.steps.twins(delivery.job, uid, delivery.input_hash, is_once=is_once))
    )
    for twin in twins:
        act = driver.dice.choice(("repeat", "succeed"))
        await driver.of_claim(partial(_follow, act, twin))
    await driver.both(
        lambda stores: in_order(stores.steps.thrown(delivery.job, uid, delivery.input_hash, is_once=is_once))
    )
    await driver.of_claim(partial(_follow, "follow", ThrownTwin(delivery.job.key, True, False)))
    await driver.of_claim(lambda stores, boot, claim: stores.steps.is_cleared(claim))


async def _follow(act: str, twin: Twin | ThrownTwin, stores: Stores, boot: int, claim: Claim) -> Any:
    return await getattr(stores.steps, act)(claim, twin)


@operation
async def note_worker(driver: Driver) -> None:
    boot = driver.boot()
    await driver.both(lambda stores: stores.frames[boot].note_alive())
    await driver.both(lambda stores: stores.frames[boot].note_end())
