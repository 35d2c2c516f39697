"""Leases that are over, rows of jobs without a frame, standstills."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from tests.simulator.driver import SECOND, Driver, in_order, operation
from tests.simulator.twins import ENGINE, Stores
from verbworker.job.frame import FrameStep
from verbworker.job.outcome import Incident
from verbworker.stores.cases.stalls import Standstill
from verbworker.stores.database import Connection
from verbworker.stores.jobs.deliveries import ExpiredDelivery, _Write
from verbworker.stores.jobs.leases import SweptFrame


@operation
async def sweep(driver: Driver) -> None:
    boot, pause = driver.boot(), driver.pause()
    keys, _ = await driver.both(lambda stores: in_order(stores.leases[boot].open(100)))
    taken, _ = await driver.both(lambda stores: in_order(stores.leases[boot].take(keys, 100)))
    started = [one for one in taken if one.frame.state == "started"]
    some = [one for one in started if driver.dice.random() < 0.5]
    if some:
        await driver.both(lambda stores: stores.leases[boot].run_again(some))
    incident = Incident("PermanentContract", "CrashLoop", "too often")
    for one in taken:
        if one in started and one not in some:
            await driver.both(partial(_hold, boot, one, incident))
        if driver.dice.random() < 0.3:
            await driver.both(partial(_postpone, boot, one, pause))
    if driver.dice.random() < 0.3:
        short = driver.dice.choice((SECOND, 60 * SECOND))
        await driver.both(
            lambda stores: in_order(stores.leases[boot].ask(ended_every=short, held_every=short, limit=100))
        )


@operation
async def deliver_without_frame(driver: Driver) -> None:
    boot, job = driver.boot(), driver.delivery().job
    job = replace(job, type="verbworker.park")
    uid = driver.dice.choice((None, driver.uids[driver.place()]))
    kind = driver.dice.choice(("new", "beat", "end"))
    write = _Write(job, uid, is_new=kind == "new", is_end=kind == "end")

    async def act(stores: Stores) -> Any:
        rows = stores.deliveries[boot]
        rows._handled.clear()
        if kind != "end":
            rows._handled[job.key] = 1
        return await rows._write_many([write])

    await driver.both(act)


@operation
async def sweep_rows(driver: Driver) -> None:
    boot, pause = driver.boot(), driver.pause()
    grace = driver.dice.choice((timedelta(0), 5 * SECOND))
    taken, doubles = await driver.both(lambda s: in_order(s.deliveries[boot].take(grace=grace, limit=100)))
    for real, fake in zip(taken, doubles, strict=True):
        is_removed = driver.dice.random() < 0.5

        async def settle(
            stores: Stores, pair: tuple[ExpiredDelivery, ExpiredDelivery] = (real, fake), gone: bool = is_removed
        ) -> None:
            rows, row = stores.deliveries[boot], pair[stores is driver.twins.fake]
            await (rows.remove(row) if gone else rows.postpone(row, grace=grace, pause=pause))

        await driver.both(settle)


@operation
async def stall(driver: Driver) -> None:
    after, later = driver.pause(), driver.pause()
    found, doubles = await driver.both(
        lambda s: in_order(s.stalls.find(ENGINE, after=after, gates_after=later, limit=100))
    )
    for real, fake in zip(found, doubles, strict=True):

        async def note(
            stores: Stores, connection: Connection, pair: tuple[Standstill, Standstill] = (real, fake)
        ) -> int | None:
            return await stores.stalls.note_in(connection, pair[stores is driver.twins.fake], "reason", "remedy")

        await driver.both(driver.within(note))
    if driver.dice.random() < 0.5:
        await driver.both(lambda stores: stores.stalls.clear(ENGINE))
    await driver.both(lambda stores: stores.stalls.counts(ENGINE))
    entry_id = driver.entries[driver.place()]
    await driver.both(lambda stores: stores.stalls.last_step(entry_id))
    if driver.dice.random() < 0.5:

        async def resend(stores: Stores, connection: Connection) -> None:
            await stores.stalls.resend_messages_in(connection, entry_id)

        await driver.both(driver.within(resend))


async def _hold(boot: int, one: SweptFrame, incident: Incident, stores: Stores) -> bool:
    return await stores.leases[boot].hold(one, FrameStep.HOLD_POISON, incident)


async def _postpone(boot: int, one: SweptFrame, pause: timedelta, stores: Stores) -> None:
    await stores.leases[boot].postpone(one, pause)
