"""Makes the planned faults, one after the other, and notes when each began, when it was over and whom it hit."""

import asyncio
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.faults import faketime
from tests.faults.brokers import Brokers
from tests.faults.plan import Fault, Plan
from tests.faults.service import Service
from tests.faults.site import Site
from tests.faults.world import World

_BACKENDS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND hashint4(pid) % 2 = $1
"""


@dataclass(slots=True)
class Made:
    """A fault as it happened. `since` is the moment from which recovery counts: when its cause was over."""

    fault: Fault
    began: float
    since: float
    affected: list[str]
    note: str = ""


class Nemesis:
    """Works off the faults of a plan; each runs beside those that came before."""

    def __init__(self, plan: Plan, site: Site, world: World) -> None:
        self._plan = plan
        self._site = site
        self._world = world
        self.made: list[Made] = []
        self.skipped: list[str] = []
        # One fault at a time for each kind of server; a database and a broker may be away together.
        self._postgres_turn = asyncio.Lock()
        self._broker_turn = asyncio.Lock()
        self._versions = 1
        self._kinds: dict[str, Callable[[Made], Awaitable[None]]] = {
            "kill": self._kill,
            "kill at start": self._kill_at_start,
            "stop": self._stop,
            "term": self._term,
            "clock": self._clock,
            "postgres fast": self._postgres,
            "postgres immediate": self._postgres,
            "terminate backends": self._terminate_backends,
            "network": self._network,
            "lost answers": self._lost_answers,
            "kill edge": self._kill,
            "redeploy": self._redeploy,
            "kill broker": self._kill_broker,
            "starve raft": self._starve_raft,
            "kill leader": self._kill_broker,
            "freeze leader": self._freeze_leader,
            "cut off leader": self._cut_off_leader,
        }

    async def rage(self) -> None:
        """Make every fault at its time; return when all are over and everything is whole again."""
        begin = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for fault in self._plan.faults:
                await asyncio.sleep(max(0.0, begin + fault.at - time.monotonic()))
                tasks.create_task(self._make(fault))
        for service in self._site.services:
            service.signal(signal.SIGCONT)

    async def _make(self, fault: Fault) -> None:
        if fault.kind == "clock" and faketime.library() is None:
            self.skipped.append("clock: libfaketime is not installed")
            return
        victim = self._service(fault.target)
        affected = await self._world.affected(victim.pid if victim is not None else None)
        now = time.time()
        made = Made(fault, now, now, affected)
        self.made.append(made)
        await self._kinds[fault.kind](made)
        words = f"{fault.target} {fault.seconds:.1f}s {made.note or fault.detail or ''}"
        print(f"{fault.at:6.1f} {fault.kind} {words}", file=sys.stderr, flush=True)

    def _service(self, name: str) -> Service | None:
        return next((service for service in self._site.services if service.name == name), None)

    def _victim(self, made: Made) -> Service:
        found = self._service(made.fault.target)
        assert found is not None, made.fault
        return found

    async def _kill(self, made: Made) -> None:
        self._victim(made).signal(signal.SIGKILL)

    async def _kill_at_start(self, made: Made) -> None:
        victim = self._victim(made)
        victim.signal(signal.SIGKILL)
        await asyncio.sleep(0.3 + made.fault.seconds)
        victim.signal(signal.SIGKILL)

    async def _stop(self, made: Made) -> None:
        victim = self._victim(made)
        victim.signal(signal.SIGSTOP)
        await asyncio.sleep(made.fault.seconds)
        victim.signal(signal.SIGCONT)

    async def _term(self, made: Made) -> None:
        self._victim(made).signal(signal.SIGTERM)

    async def _clock(self, made: Made) -> None:
        clock = self._site.clock_file(made.fault.target)
        faketime.set_offset(clock, int(str(made.fault.detail["offset"])))
        await asyncio.sleep(made.fault.seconds)
        faketime.set_offset(clock, 0)

    async def _postgres(self, made: Made) -> None:
        async with self._postgres_turn:
            how = signal.SIGINT if made.fault.kind == "postgres fast" else signal.SIGQUIT
            with self._site.away():
                await asyncio.to_thread(self._site.postgres.halt, how)
                await asyncio.sleep(made.fault.seconds)
                await asyncio.to_thread(self._site.postgres.resume)
            made.since = time.time()

    async def _terminate_backends(self, made: Made) -> None:
        await self._world.query_once(_BACKENDS, random.Random(made.fault.at).randrange(2))

    async def _network(self, made: Made) -> None:
        links = self._site.links(made.fault.target)
        with self._site.away():
            await self._site.trouble(links, seconds=made.fault.seconds, **made.fault.detail)
        made.since = time.time()

    async def _lost_answers(self, made: Made) -> None:
        """Lose answers, and have a slow database then: what is asked for again races what was asked for before."""
        slow = [link for link in self._site.links("postgres/all") if not link.endswith("edge")]
        lost = self._site.links(made.fault.target)
        with self._site.away():
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._site.trouble(lost, mode="lose answers", seconds=0.8))
                await asyncio.sleep(0.4)
                await self._site.trouble(slow, mode="delay", delay=0.15, seconds=made.fault.seconds)
        made.since = time.time()

    async def _redeploy(self, made: Made) -> None:
        self._versions += 1
        await self._site.deploy(self._versions)
        made.note = f"version {self._versions}"

    async def _kill_broker(self, made: Made) -> None:
        async with self._broker_turn:
            number = self._leader(made)
            with self._site.away():
                await self._brokers.restart(number, made.fault.seconds)
            made.since = time.time()
            made.note = f"broker {number}"

    async def _starve_raft(self, made: Made) -> None:
        async with self._broker_turn:
            number = self._leader(made)
            with self._site.away():
                threads = self._brokers.starve_raft(number)
                await asyncio.sleep(made.fault.seconds)
                await self._brokers.restart(number)
            made.since = time.time()
            made.note = f"broker {number}, {threads} raft threads"

    async def _freeze_leader(self, made: Made) -> None:
        async with self._broker_turn:
            number = self._leader(made)
            with self._site.away():
                self._brokers.freeze(number)
                await asyncio.sleep(made.fault.seconds)
                self._brokers.thaw(number)
            made.since = time.time()
            made.note = f"broker {number}"

    async def _cut_off_leader(self, made: Made) -> None:
        async with self._broker_turn:
            number = self._leader(made)
            with self._site.away():
                await self._site.isolate(number, made.fault.seconds)
            made.since = time.time()
            made.note = f"broker {number}"

    @property
    def _brokers(self) -> Brokers:
        assert self._site.brokers is not None
        return self._site.brokers

    def _leader(self, made: Made) -> int:
        return self._brokers.leader(int(str(made.fault.detail.get("partition", 1)))) or 0
