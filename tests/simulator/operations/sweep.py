"""Leases that are over, rows of jobs without a frame, standstills."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from tests.simulator.hands import SECOND, Hands, in_order, operation
from tests.simulator.twins import ENGINE, Stores
from verbworker.job.frame import FrameStep
from verbworker.job.outcome import Incident
from verbworker.stores.cases.stalls import Standstill
from verbworker.stores.database import Connection
from verbworker.stores.jobs.deliveries import ExpiredDelivery, _Write
from verbworker.stores.jobs.leases import SweptFrame


@operation
async def sweep(hands: Hands) -> None:
    boot, pause = hands.boot(), hands.pause()
    keys, _ = await hands.both(lambda stores: in_order(stores.leases[boot].open(100)))
    taken, _ = await hands.both(lambda stores: in_order(stores.leases[boot].take(keys, 100)))
    started = [one for one in taken if one.frame.state == "started"]
    some = [one for one in started if hands.dice.random() < 0.5]
    if some:
        await hands.both(lambda stores: stores.leases[boot].run_again(some))
    incident = Incident("PermanentContract", "CrashLoop", "too often")
    for one in taken:
        if one in started and one not in some:
            await hands.both(partial(_hold, boot, one, incident))
        if hands.dice.random() < 0.3:
            await hands.both(partial(_postpone, boot, one, pause))
    if hands.dice.random() < 0.3:
        short = hands.dice.choice((SECOND, 60 * SECOND))
        await hands.both(
            lambda stores: in_order(stores.leases[boot].ask(ended_every=short, held_every=short, limit=100))
        )


@operation
async def deliver_without_frame(hands: Hands) -> None:
    boot, job = hands.boot(), hands.delivery().job
    job = replace(job, type="verbworker.park")
    uid = hands.dice.choice((None, hands.uids[hands.place()]))
    kind = hands.dice.choice(("new", "beat", "end"))
    write = _Write(job, uid, is_new=kind == "new", is_end=kind == "end")

    async def act(stores: Stores) -> Any:
        rows = stores.deliveries[boot]
        rows._handled.clear()
        if kind != "end":
            rows._handled[job.key] = 1
        return await rows._write_many([write])

    await hands.both(act)


@operation
async def sweep_rows(hands: Hands) -> None:
    boot, pause = hands.boot(), hands.pause()
    grace = hands.dice.choice((timedelta(0), 5 * SECOND))
    taken, doubles = await hands.both(lambda s: in_order(s.deliveries[boot].take(grace=grace, limit=100)))
    for real, fake in zip(taken, doubles, strict=True):
        is_removed = hands.dice.random() < 0.5

        async def settle(
            stores: Stores, pair: tuple[ExpiredDelivery, ExpiredDelivery] = (real, fake), gone: bool = is_removed
        ) -> None:
            rows, row = stores.deliveries[boot], pair[stores is hands.twins.fake]
            await (rows.remove(row) if gone else rows.postpone(row, grace=grace, pause=pause))

        await hands.both(settle)


@operation
async def stall(hands: Hands) -> None:
    after, later = hands.pause(), hands.pause()
    found, doubles = await hands.both(
        lambda s: in_order(s.stalls.find(ENGINE, after=after, gates_after=later, limit=100))
    )
    for real, fake in zip(found, doubles, strict=True):

        async def note(
            stores: Stores, connection: Connection, pair: tuple[Standstill, Standstill] = (real, fake)
        ) -> int | None:
            return await stores.stalls.note_in(connection, pair[stores is hands.twins.fake], "reason", "remedy")

        await hands.both(hands.within(note))
    if hands.dice.random() < 0.5:
        await hands.both(lambda stores: stores.stalls.clear(ENGINE))
    await hands.both(lambda stores: stores.stalls.counts(ENGINE))
    entry_id = hands.entries[hands.place()]
    await hands.both(lambda stores: stores.stalls.last_step(entry_id))
    if hands.dice.random() < 0.5:

        async def resend(stores: Stores, connection: Connection) -> None:
            await stores.stalls.resend_messages_in(connection, entry_id)

        await hands.both(hands.within(resend))


async def _hold(boot: int, one: SweptFrame, incident: Incident, stores: Stores) -> bool:
    return await stores.leases[boot].hold(one, FrameStep.HOLD_POISON, incident)


async def _postpone(boot: int, one: SweptFrame, pause: timedelta, stores: Stores) -> None:
    await stores.leases[boot].postpone(one, pause)
