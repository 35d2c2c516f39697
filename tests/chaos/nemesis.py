"""The nemesis: faults drawn from a seed, each written down with its time and counted."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.chaos.workers import WorkerGroup, WorkerPlace
from tests.support.databases import plain
from tests.support.postgres import Postgres
from tests.support.zeebe import Broker

_BACKENDS = """
SELECT pid
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name <> 'harness'
  AND backend_type = 'client backend'
"""
_BUSY = """
SELECT boot.name
FROM verbworker.job_frame AS frame
JOIN verbworker.worker_boot AS boot ON boot.owner = frame.owner
WHERE frame.state = 'started'
GROUP BY boot.name
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much goes wrong: pauses between faults, lengths of freezes, and at which share of the work servers crash."""

    pause: tuple[float, float]
    freeze: tuple[float, float]
    postgres_crashes: tuple[float, ...] = ()
    broker_crashes: tuple[float, ...] = ()
    until: float = 0.8  # the share after which it rests, so that the tail is not the longest part
    least: int = 2  # of kills, freezes and cut connections each, before it rests
    longest: float = 240.0  # it rests then whatever is left; what stands still by then is for the stuck detector


class Nemesis:
    """Harms a group of workers, its database and its broker until told to rest."""

    def __init__(
        self,
        plan: Plan,
        workers: WorkerGroup,
        calm: asyncio.Lock,
        server: Postgres,
        broker: Broker | None,
        dsn: str,
        seed: int,
    ) -> None:
        self._plan = plan
        self._workers = workers
        self._calm = calm  # a server crashes only while nobody else holds it
        self._server = server
        self._broker = broker
        self._dsn = dsn
        self._dice = random.Random(seed)
        self._began = asyncio.get_running_loop().time()
        self.counts: Counter[str] = Counter()
        self.log: list[str] = []
        self._write(f"seed {seed}")

    async def run(self, done: Callable[[], float]) -> None:
        """Strike until most of the work is done and every kind of fault has struck often enough.

        `done` tells the share of the work that is done, from 0 to 1.
        """
        crashes = [(share, self._crash_postgres) for share in self._plan.postgres_crashes]
        crashes += [(share, self._crash_broker) for share in self._plan.broker_crashes]
        crashes.sort(key=lambda crash: crash[0])
        async with asyncio.TaskGroup() as freezes:
            while crashes or done() < self._plan.until or self._is_missing_something():
                await asyncio.sleep(self._dice.uniform(*self._plan.pause))
                if self._elapsed() > self._plan.longest:
                    return
                if crashes and done() >= crashes[0][0]:
                    await crashes.pop(0)[1]()
                else:
                    await self._strike(freezes)

    def _is_missing_something(self) -> bool:
        return any(self.counts[kind] < self._plan.least for kind in ("kill", "freeze", "cut"))

    async def _strike(self, freezes: asyncio.TaskGroup) -> None:
        kind = self._dice.choice(("kill", "freeze", "cut", "cut"))
        if kind == "cut":
            await self._cut_connections()
            return
        place = await self._victim()
        if place is None:
            return
        if kind == "kill":
            self._note("kill", f"{place.name}, pid {self._workers.kill(place)}")
            self._workers.start(place)
        else:
            seconds = self._dice.uniform(*self._plan.freeze)
            self._note("freeze", f"{place.name} for {seconds:.1f} s")
            place.is_spared = True
            freezes.create_task(self._workers.freeze(place, seconds))

    async def _victim(self) -> WorkerPlace | None:
        """One of the workers that hold a frame right now; else anybody who is not frozen."""
        able = [place for place in self._workers.places if place.is_running() and not place.is_spared]
        if len(able) < 2:
            return None  # somebody must be left to take over
        async with plain(self._dsn) as connection:
            busy = {row["name"] for row in await connection.fetch(_BUSY)}
        return self._dice.choice([place for place in able if place.name in busy] or able)

    async def _cut_connections(self) -> None:
        async with plain(self._dsn) as connection:
            pids = [row["pid"] for row in await connection.fetch(_BACKENDS)]
            chosen = self._dice.sample(pids, min(3, len(pids)))
            cut = [pid for pid in chosen if await _terminate(connection, pid)]
        if cut:
            self._note("cut", f"{len(cut)} of {len(pids)} database connections")
            self.counts["connections"] += len(cut)

    async def _crash_postgres(self) -> None:
        async with self._calm:
            self._note("postgres", "immediate shutdown")
            await asyncio.to_thread(self._server.restart_immediate)
            self._write("postgres is back")

    async def _crash_broker(self) -> None:
        async with self._calm:
            self._note("broker", "kill -9")
            assert self._broker is not None, "there is no broker to crash"
            await asyncio.to_thread(self._broker.restart)
            self._write("broker is back")

    def _note(self, kind: str, words: str) -> None:
        self.counts[kind] += 1
        self._write(f"{kind}: {words}")

    def _write(self, words: str) -> None:
        # Printed at once, so that a run which breaks off has told its seed and its faults.
        self.log.append(f"{self._elapsed():6.1f} s {words}")
        print(self.log[-1], flush=True)

    def _elapsed(self) -> float:
        return asyncio.get_running_loop().time() - self._began


async def _terminate(connection: Any, pid: int) -> bool:
    return bool(await connection.fetchval("SELECT pg_terminate_backend($1)", pid))
