"""Coming to rest, and the stuck detector: when nothing moves any more, it tells everything that could say why."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.chaos.load import Load
from tests.chaos.workers import WorkerGroup, last_words
from tests.support.databases import plain, value
from tests.support.zeebe import Broker
from verbworker.errors import EngineError

_LOOK = 0.5
# Of 3,500 cases on a busy broker with many kills 15 were locked; a stream that lost what it was pushed cost 7 of 700.
_MOST_LOCKED = 4
_UNTOLD = """
SELECT count(*)
FROM verbworker.job_frame
WHERE CASE state WHEN 'incident' THEN reported_at ELSE acked_at END IS NULL
"""
_NAMED = "SELECT entry_id FROM verbworker.stall WHERE kind = 'job'"
_FRAMES = """
SELECT job_key, verb, state, epoch, runs, deliveries, claimed_from, lease_until - clock_timestamp() AS lease,
  next_retry_at, fail_class, fail_code, fail_text, reported_at,
  clock_timestamp() - popped_at AS popped, boot.name
FROM verbworker.job_frame AS frame
LEFT JOIN verbworker.worker_boot AS boot ON boot.owner = frame.owner
WHERE acked_at IS NULL
ORDER BY pushed_at
LIMIT 20
"""
_EVENTS = """
SELECT event.at, event.job_key, event.kind, event.epoch, event.detail, boot.name
FROM verbworker.frame_event AS event
LEFT JOIN verbworker.worker_boot AS boot ON boot.owner = event.owner
WHERE event.job_key IN (SELECT job_key FROM verbworker.job_frame WHERE acked_at IS NULL ORDER BY pushed_at LIMIT 5)
ORDER BY event.job_key, event.at
LIMIT 100
"""
_ACTIVITY = """
SELECT pid, application_name, state, wait_event_type, wait_event, clock_timestamp() - xact_start AS transaction_age,
  left(regexp_replace(query, '\\s+', ' ', 'g'), 120) AS query
FROM pg_stat_activity
WHERE datname = current_database()
"""


async def rest(
    progress: Callable[[], Awaitable[tuple[object, ...]]],
    is_over: Callable[[tuple[object, ...]], bool],
    tell: Callable[[], Awaitable[str]],
    *,
    timeout: float = 120.0,
    free: Callable[[tuple[object, ...]], Awaitable[bool]] | None = None,
) -> None:
    """Return when `is_over` says so of the progress; fail with what `tell` says when nothing moves for `timeout` s.

    Before it fails, `free` may free what the engine holds, and says whether it did.
    """
    loop = asyncio.get_running_loop()
    last, moved_at = await progress(), loop.time()
    while not is_over(last):
        await asyncio.sleep(_LOOK)
        now = await progress()
        if now != last:
            last, moved_at = now, loop.time()
        elif loop.time() - moved_at > timeout:
            if free is not None and await free(last):
                moved_at = loop.time()
                continue
            pytest.fail(f"stuck at {last}\n{await tell()}", pytrace=False)


async def at_rest(
    workers: WorkerGroup,
    dsn: str,
    loads: Sequence[Load],
    log: Sequence[str] = (),
    *,
    share: float = 1.0,
    broker: Broker | None = None,
) -> None:
    """Return when every instance of the loads, or a share of them, has come to its audit and no verdict is untold.

    `broker` is restarted once at most, as `free` says; what stands still then is a finding.
    """
    restarts: list[int] = []

    async def free_once(_: tuple[object, ...]) -> bool:
        if broker is None or restarts or await value(dsn, _UNTOLD):
            return False
        restarts.append(await free(dsn, loads, broker))
        return restarts[0] > 0

    async def progress() -> tuple[object, ...]:
        return sum(load.arrived for load in loads), sum(len(load.started) for load in loads), await value(dsn, _UNTOLD)

    async def tell() -> str:
        return "\n".join([await story(workers, dsn, log), *await engines_word(dsn, loads[0])])

    def is_over(now: tuple[object, ...]) -> bool:
        arrived, started, untold = now
        assert isinstance(arrived, int)
        assert isinstance(started, int)
        return arrived >= share * started and untold == 0

    await rest(progress, is_over, tell, free=free_once)


async def free(dsn: str, loads: Sequence[Load], broker: Broker) -> int:
    """Restart the broker for the cases that the product itself reports as stalled; returns for how many.

    Zeebe 8.6.0 can lose the timeout of a job, and only a restart hands such a job out again. Where a worker died
    between delivery and claim, nothing in Postgres knows of the job, so the product can only name the case. One that
    stands still and is not named, or more than a few of them, is a finding of ours: nothing is restarted then.
    """
    missing = [entry for load in loads for entry in load.missing()]
    async with plain(dsn) as connection:
        named = {row["entry_id"] for row in await connection.fetch(_NAMED)}
    unnamed = [str(entry) for entry in missing if entry not in named]
    print(f"{len(missing)} cases stand still, {len(unnamed)} of them not named: {unnamed}", flush=True)
    if unnamed or len(missing) > _MOST_LOCKED:
        return 0
    await asyncio.to_thread(broker.restart)
    print("broker restarted for the named ones", flush=True)
    return len(missing)


async def story(workers: WorkerGroup, dsn: str, log: Sequence[str]) -> str:
    """Frames, events, sessions, tasks of every worker, and the faults so far."""
    for place in workers.places:
        if place.is_running():
            os.kill(place.pid, signal.SIGUSR2)
    await asyncio.sleep(1.0)
    async with plain(dsn) as connection:
        tables = [await connection.fetch(query) for query in (_FRAMES, _EVENTS, _ACTIVITY)]
    parts = ["faults:", *log]
    for name, rows in zip(("frames", "events", "sessions"), tables, strict=True):
        parts += [f"{name}:", *_lines(rows)]
    for place in workers.places:
        parts += [f"{place.name}, running: {place.is_running()}:", last_words(place.log, lines=80)]
    return "\n".join(parts)


async def engines_word(dsn: str, load: Load) -> list[str]:
    """What the engine says of jobs whose frames are open: to have one, to lock it, or to know nothing of it."""
    async with plain(dsn) as connection:
        keys = [row["job_key"] for row in await connection.fetch(_FRAMES)]
    told = ["the engine:"]
    for key in keys:
        try:
            await load.engine.extend(key, 1)
            told.append(f"  {key} is locked there")
        except EngineError as error:
            told.append(f"  {key}: {type(error).__name__}: {error}")
    return told


def _lines(rows: list[Any]) -> Iterator[str]:
    for row in rows:
        yield "  " + ", ".join(f"{name}={value}" for name, value in row.items() if value is not None)
