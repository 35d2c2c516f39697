"""Many workers at one moment: one claim wins, one ending counts, nobody deadlocks, a lost connection is told."""

import asyncio
import random
import subprocess
import sys
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar
from uuid import UUID, uuid4

import pytest

from tests.support.databases import blocked, execute, plain, value
from tests.support.frames import (
    ENGINE,
    FAR,
    INCIDENT,
    RETRY,
    Place,
    claimed,
    make_delivery,
    make_instance,
    make_job,
    open_pinned,
    opened,
    standing,
    working,
)
from verbworker.errors import Fenced, StoreError, StoreUnavailable
from verbworker.job.frame import Claim, FrameState
from verbworker.stores.database import Database
from verbworker.stores.jobs.frames import Frames

ROOT = Path(__file__).parents[2]
CLAIMERS = 8
T = TypeVar("T")


async def workers(stack: AsyncExitStack, dsn: str, count: int) -> list[Frames]:
    """Frames of `count` workers, each with connections of its own."""
    databases = [await stack.enter_async_context(Database(dsn, size=2)) for _ in range(count)]
    return [await stack.enter_async_context(working(database)) for database in databases]


async def at_once(*works: Awaitable[T]) -> list[T | BaseException]:
    return await asyncio.gather(*works, return_exceptions=True)


async def prepare(kind: str, place: Place, frames: Frames, key: int) -> None:
    """Bring a frame to where it may be claimed in this way."""
    if kind == "new":
        return
    claim = await claimed(frames, place.delivery(key))
    match kind:
        case "retry":
            await frames.pop_failed(claim, RETRY)
        case "takeover":
            await place.expire(key)
        case _:
            await frames.pop_incident(claim, INCIDENT)
            await place.change(key, reported_at="clock_timestamp() - interval '1 hour'")


@pytest.mark.req("JOB-01", "JOB-14", "X-23")
@pytest.mark.parametrize("kind", ["new", "retry", "takeover", "release"])
async def test_of_many_claims_at_one_moment_exactly_one_wins(place: Place, frames: Frames, dsn: str, kind: str) -> None:
    async with AsyncExitStack() as stack:
        crowd = await workers(stack, dsn, CLAIMERS)
        for key in range(1, 11):
            await prepare(kind, place, frames, key)

            # Each has an activation of its own: an engine that forgets its clock may have handed out all of them.
            claims = await at_once(*(one.push(place.delivery(key, at=FAR + n)) for n, one in enumerate(crowd)))

            winners = [claim for claim in claims if isinstance(claim, Claim)]
            assert [claim for claim in claims if isinstance(claim, BaseException)] == []
            assert [claim.claimed_from for claim in winners] == [kind]
            assert (await standing(frames, key)).owner == winners[0].owner


@pytest.mark.req("JOB-01", "JOB-14")
@pytest.mark.parametrize("kind", ["new", "takeover"])
def test_of_many_processes_each_job_is_claimed_by_exactly_one(dsn: str, kind: str) -> None:
    count, processes = 150, 4
    instance = make_instance()
    asyncio.run(_stock(dsn, instance.instance_uid, count if kind == "takeover" else 0))
    crowd = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.claimer", dsn, str(instance.instance_uid), str(10 + n), str(count)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(processes)
    ]
    for one in crowd:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in crowd:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    won = [one.communicate(timeout=60)[0].split() for one in crowd]

    assert [one.returncode for one in crowd] == [0] * processes
    assert sorted(int(key) for share in won for key in share) == list(range(1, count + 1))


async def _stock(dsn: str, uid: UUID, count: int) -> None:
    """Open the instance, and frames whose owner vanished."""
    async with Database(dsn, size=2) as database, working(database, lease=timedelta(0)) as frames:
        instance = replace(make_instance(), instance_uid=uid)
        await open_pinned(database, instance)
        for key in range(1, count + 1):
            await claimed(frames, make_delivery(make_job(key), instance))


@pytest.mark.req("X-08", "X-23")
async def test_an_owner_and_its_rival_never_both_have_their_way(place: Place, frames: Frames, rival: Frames) -> None:
    await place.database.execute("CREATE TABLE effect (job_key bigint)")
    endings = {"popped": 0, "taken": 0}
    for key in range(1, 41):
        here = replace(place, instance=await place.open())
        claim = await claimed(frames, here.delivery(key))
        await place.expire(key)

        popped, taken = await at_once(_act(here, frames, claim), rival.push(here.delivery(key, at=2)))

        effects = await place.database.fetch("SELECT job_key FROM effect WHERE job_key = $1", key)
        frame = await standing(frames, key)
        if isinstance(taken, Claim):
            endings["taken"] += 1
            assert isinstance(popped, Fenced)
            assert (frame.state, frame.epoch, len(effects)) == (FrameState.STARTED, 2, 0)
        else:
            endings["popped"] += 1
            assert popped is None
            assert (frame.state, frame.epoch, len(effects)) == (FrameState.COMPLETED, 1, 1)

    assert sum(endings.values()) == 40


async def _act(place: Place, frames: Frames, claim: Claim) -> None:
    async with place.database.transaction() as connection:
        await connection.execute("INSERT INTO effect VALUES ($1)", claim.job_key)
        if random.random() < 0.5:
            await asyncio.sleep(0)
        assert await frames.pop_completed_in(connection, place.verdict(claim))


async def test_a_heartbeat_and_a_rival_never_both_have_the_lease(place: Place, frames: Frames, rival: Frames) -> None:
    for key in range(1, 41):
        claim = await claimed(frames, place.delivery(key))
        await place.expire(key)

        lost, taken = await asyncio.gather(frames.heartbeat({key: claim.epoch}), rival.push(place.delivery(key, at=2)))

        # A heartbeat that met the rival's lock learns of it with the next beat; a claim that lost never runs.
        if taken is not None:
            assert await frames.heartbeat({key: claim.epoch}) == {key}
        else:
            assert lost == set()
            assert (await standing(frames, key)).owner == frames.owner


async def test_two_deliveries_of_one_job_at_one_moment_do_not_share_a_statement(place: Place, frames: Frames) -> None:
    claims = await at_once(*(frames.push(place.delivery(1, at=at)) for at in range(1, 20)))

    assert [isinstance(claim, Claim) for claim in claims] == [True] + [False] * 18
    assert claims[1:] == [None] * 18


async def test_a_bad_delivery_does_not_fail_its_neighbours(place: Place, frames: Frames) -> None:
    deliveries = [place.delivery(key) for key in range(1, 8)]
    deliveries[3] = replace(deliveries[3], job=replace(deliveries[3].job, element_id="nul\0"))

    claims = await at_once(*(frames.push(delivery) for delivery in deliveries))

    assert isinstance(claims.pop(3), StoreError)
    assert [isinstance(claim, Claim) for claim in claims] == [True] * 6


async def test_a_bad_verdict_does_not_fail_its_neighbours(place: Place, frames: Frames) -> None:
    verdicts = []
    for key in range(1, 8):
        here = replace(place, instance=await place.open())
        verdicts.append(here.verdict(await claimed(frames, here.delivery(key))))
    verdicts[3] = replace(verdicts[3], output_hash=b"none of it")

    popped = await at_once(*(frames.pop_completed(verdict) for verdict in verdicts))

    assert isinstance(popped.pop(3), StoreError)
    assert popped == [True] * 6
    assert (await standing(frames, 4)).state is FrameState.STARTED


async def test_a_fenced_verdict_does_not_fail_its_neighbours(place: Place, frames: Frames) -> None:
    verdicts = []
    for key in range(1, 8):
        here = replace(place, instance=await place.open())
        verdicts.append(here.verdict(await claimed(frames, here.delivery(key))))
    await place.change(4, epoch="2")

    popped = await at_once(*(frames.pop_completed(verdict) for verdict in verdicts))

    assert isinstance(popped.pop(3), Fenced)
    assert popped == [True] * 6


async def test_a_connection_lost_under_a_batch_is_told_to_everybody_in_it(
    place: Place, frames: Frames, dsn: str
) -> None:
    for key in (1, 2, 3, 4):
        await claimed(frames, place.delivery(key))
    lock = "SELECT 1 FROM verbworker.job_frame WHERE job_key = $1 FOR UPDATE"
    async with asyncio.TaskGroup() as group, plain(dsn) as one, plain(dsn) as other, other.transaction():
        await other.execute(lock, 2)
        async with one.transaction():
            await one.execute(lock, 1)
            group.create_task(frames.push(place.delivery(1, at=2)))
            await blocked(dsn)
            # These three wait behind the first, so they will be one statement.
            batch = group.create_task(at_once(*(frames.push(place.delivery(key, at=2)) for key in (2, 3, 4))))
            await asyncio.sleep(0)
        await blocked(dsn)
        await execute(
            dsn,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
        told = await batch

    assert [type(one) for one in told] == [StoreUnavailable] * 3
    assert [await place.column("epoch", key) for key in (3, 4)] == [1, 1]
    await place.expire(3)
    assert isinstance(await frames.push(place.delivery(3, at=3)), Claim)


async def test_a_statement_that_waits_for_several_frames_takes_them_in_key_order(dsn: str) -> None:
    # A plan must not bring the order by luck: it reads the pages as they lie, unless the statement says otherwise.
    plans = dict.fromkeys(("enable_mergejoin", "enable_hashjoin", "enable_indexscan", "enable_bitmapscan"), "off")
    async with Database(dsn, size=4, settings=plans) as database:
        place = Place(database, make_instance())
        frames = Frames(database, engine_id=ENGINE, owner=uuid4())
        places = {key: replace(place, instance=await place.open()) for key in range(1, 10)}
        pushed = await frames._push_many([places[key].delivery(key) for key in places])
        claims = {claim.job_key: claim for claim in pushed if claim is not None}
        for key in (9, 7, 8):  # neither the arguments nor the pages are in key order
            await frames._pop_many([places[key].verdict(claims[key])])
            frames.acknowledge(key, "ok")

        push = frames._push_many([places[key].delivery(key, at=2) for key in (3, 1, 2)])
        pop = frames._pop_many([places[key].verdict(claims[key]) for key in (6, 4, 5)])
        free = [await _free_around(dsn, middle, work) for middle, work in ((2, push), (5, pop), (8, frames.flush()))]

    assert free == [[3], [6], [9]]


async def _free_around(dsn: str, middle: int, statement: Awaitable[object]) -> list[int]:
    """Which neighbours of a locked frame nobody has, while the statement waits for that frame."""
    neighbours = "SELECT job_key FROM verbworker.job_frame WHERE job_key BETWEEN $1 - 1 AND $1 + 1"
    async with asyncio.TaskGroup() as group, plain(dsn) as holder, holder.transaction():
        await holder.execute("SELECT 1 FROM verbworker.job_frame WHERE job_key = $1 FOR UPDATE", middle)
        group.create_task(_finish(statement))
        await blocked(dsn)
        async with plain(dsn) as other:
            rows = await other.fetch(f"{neighbours} ORDER BY job_key FOR UPDATE SKIP LOCKED", middle)
    return [row["job_key"] for row in rows]


async def _finish(work: Awaitable[object]) -> None:
    await work


async def test_overlapping_batches_of_many_workers_never_deadlock(dsn: str) -> None:
    keys = list(range(1, 65))
    async with opened(dsn) as place, AsyncExitStack() as stack:
        crowd = await workers(stack, dsn, 4)
        places = {key: replace(place, instance=await place.open()) for key in keys}
        claims = {key: await claimed(crowd[key % 4], places[key].delivery(key)) for key in keys}
        for key in keys[::2]:
            await crowd[key % 4].pop_completed(places[key].verdict(claims[key]))

        async def churn(frames: Frames, seed: int) -> None:
            dice = random.Random(seed)
            for beat in range(12):
                dice.shuffle(keys)
                await frames._push_many([places[key].delivery(key, at=100 + beat) for key in keys])
                for key in keys:
                    frames.acknowledge(key, "ok")
                await asyncio.gather(
                    frames.flush(),
                    frames.heartbeat(dict.fromkeys(keys, 1)),
                    frames.claim_unsent(older_than=timedelta(0), hold=timedelta(0), limit=10),
                    frames.archive(older_than=timedelta(hours=1)),
                )

        async with asyncio.timeout(60):
            await asyncio.gather(*(churn(frames, seed) for seed, frames in enumerate(crowd)))

    # The sessions are closed now, so their counters are in.
    assert await value(dsn, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0
