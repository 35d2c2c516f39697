"""Five tasks in a row with empty verbs: the embedded engine, Zeebe with verbworker, DBOS and SpiffWorkflow in one run.

`python -m bench.engine [--instances 500] [--runs 3] [--only NAME,NAME]`; `--endurance` measures the embedded engine
before and after 200,000 ended instances, and with 10,000 that wait. Runs are interleaved and medians printed; only
ratios within one run mean anything. Nothing here asserts a time.

Postgres runs with fsync and synchronous_commit on for everybody, its data in memory. Zeebe's data is there too, and it
does not flush its log before it answers, which is in its favour. Instances are started before the clock runs, except
where a line says "with starts" and by DBOS, for whom starting is part of running. SpiffWorkflow writes to no database.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.contenders.course import STEPS
from bench.crowding import crowd, settle
from bench.zeebe_jobs import OTHERS, cpu
from tests.support.postgres import Postgres
from tests.support.zeebe import Broker
from verbworker.stores import migrations
from verbworker.stores.database import connect

PEERS = ("dbos==3.3.0", "SpiffWorkflow==3.2.0", "psycopg[binary]")
TIMEOUT = 600.0
ALONE = 50
WARM_UP = 2000
SETTLE = 3.0
ENDED = 200_000
WAITING = 10_000


@dataclass(frozen=True)
class Contender:
    """One engine at one setting; `share` of the instances suffice for a slow one."""

    name: str
    kind: str
    mode: str
    in_flight: int
    way: str = "backlog"
    share: float = 1.0


@dataclass(frozen=True)
class Figures:
    """What one run measured; CPU in ms per step."""

    rate: float
    worker_ms: float
    postgres_ms: float
    broker_ms: float
    p50_ms: float
    p99_ms: float


CONTENDERS = (
    Contender("embedded external", "embedded", "external", 64),
    Contender("embedded external, with starts", "embedded", "external", 64, "starts"),
    Contender("embedded transactional", "embedded", "transactional", 8),
    Contender("zeebe external", "zeebe", "external", 32, share=0.5),
    Contender("dbos threads", "dbos", "threads", 16, share=0.4),
    Contender("dbos async", "dbos", "async", 16, share=0.4),
    Contender("spiff in memory", "spiff", "", 1),
)
ENDURANCE = CONTENDERS[0]
COLUMNS = ("rate", "worker_ms", "postgres_ms", "broker_ms", "p50_ms", "p99_ms")


class Ground:
    """One Postgres and, where it is needed, one broker, on which everybody runs."""

    def __init__(self, postgres: Postgres, broker: Broker | None) -> None:
        self.postgres = postgres
        self.broker = broker

    def spent(self) -> tuple[float, float]:
        """CPU-seconds of Postgres and of the broker."""
        return cpu(self.postgres.pid), 0.0 if self.broker is None else cpu(self.broker.pid)

    async def run(self, contender: Contender, instances: int, alone: int = ALONE) -> Figures:
        """Let one contender run a crowd, then single instances. A broker that is not used stands still meanwhile."""
        with self._standing_still(contender):
            if contender.kind == "zeebe":
                await asyncio.sleep(SETTLE)
            return await self._run(contender, instances, alone)

    @contextmanager
    def _standing_still(self, contender: Contender) -> Iterator[None]:
        is_idle = self.broker is not None and contender.kind != "zeebe"
        if self.broker is not None and is_idle:
            os.kill(self.broker.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            if self.broker is not None and is_idle:
                os.kill(self.broker.pid, signal.SIGCONT)

    async def _run(self, contender: Contender, instances: int, alone: int) -> Figures:
        count = max(20, int(instances * contender.share))
        process = await asyncio.create_subprocess_exec(
            *self._command(contender, count, alone), cwd=Path(__file__).parent.parent, stdout=subprocess.PIPE
        )
        try:
            async with asyncio.timeout(TIMEOUT):
                await _line(process, "began")
                before = self.spent()
                await _line(process, "worked")
                after = self.spent()
                told = await _line(process, "seconds")
                await process.wait()
        except TimeoutError:
            process.kill()
            raise SystemExit(f"{contender.name} did not end within {TIMEOUT:.0f} s") from None
        steps, ordered = count * STEPS, sorted(told["alone"]) or [0.0]
        return Figures(
            rate=count / told["seconds"],
            worker_ms=told["cpu"] / steps * 1000,
            postgres_ms=(after[0] - before[0]) / steps * 1000,
            broker_ms=(after[1] - before[1]) / steps * 1000,
            p50_ms=ordered[len(ordered) // 2] * 1000,
            p99_ms=ordered[int(len(ordered) * 0.99)] * 1000,
        )

    def _command(self, contender: Contender, instances: int, alone: int) -> list[str]:
        many, single, wide = str(instances), str(alone), str(contender.in_flight)
        python = str(OTHERS / "bin/python")
        match contender.kind:
            case "dbos":
                script = [python, "-m", "bench.contenders.dbos_steps", self.postgres.dsn]
                return [*script, many, wide, contender.mode, single]
            case "spiff":
                return [python, "-m", "bench.contenders.spiff_steps", many, single]
            case kind:
                address = "-" if self.broker is None else self.broker.address
                script = [sys.executable, "-m", "bench.contenders.five", kind, address, self.postgres.dsn]
                return [*script, many, wide, contender.mode, single, contender.way]


async def _line(process: asyncio.subprocess.Process, word: str) -> dict[str, Any]:
    """The contender's next line, which must hold this word; it may have ended with an error instead."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    if word not in (told := json.loads(line) if line else {}):
        raise SystemExit("a contender failed; what it said stands above")
    found: dict[str, Any] = told
    return found


def peers() -> bool:
    """DBOS and SpiffWorkflow in the environment of the others, by name; False when they cannot be had."""
    python = OTHERS / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(OTHERS)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", *PEERS]
    return subprocess.run(install, check=False).returncode == 0


@asynccontextmanager
async def ground(*, with_broker: bool) -> AsyncIterator[Ground]:
    """The servers, stopped afterwards."""
    async with AsyncExitStack() as stack:
        postgres = stack.enter_context(Postgres(settings={"fsync": "on", "synchronous_commit": "on"}))
        await migrations.migrate(postgres.dsn)
        broker = None
        if with_broker:
            broker = stack.enter_context(Broker(flags=("-Xmx1g",), controlled_clock=False))
        yield Ground(postgres, broker)


def median(runs: Sequence[Figures], column: str) -> float:
    """The median of one column."""
    return float(statistics.median(getattr(run, column) for run in runs))


def show(found: dict[str, list[Figures]]) -> None:
    """Print medians."""
    print("\nFive empty steps, 2 KB payload, fsync and synchronous_commit on; CPU in ms per step; latency when idle")
    heads = ("inst/s", "steps/s", "worker", "postgres", "broker", "p50 ms", "p99 ms")
    print(f"{'':32}" + "".join(f"{head:>9}" for head in heads))
    for name, runs in found.items():
        rate, *costs, p50, p99 = (median(runs, column) for column in COLUMNS)
        print(f"{name:32}{rate:9.1f}{rate * STEPS:9.0f}" + "".join(f"{cost:9.2f}" for cost in (*costs, p50, p99)))


def ratios(found: dict[str, list[Figures]]) -> None:
    """Print what the goals are stated in: instances and CPU against the best setting of each rival."""
    rate = {name: median(runs, "rate") for name, runs in found.items()}
    cost = {
        name: median(runs, "worker_ms") + median(runs, "postgres_ms") + median(runs, "broker_ms")
        for name, runs in found.items()
    }
    for name in (name for name in rate if name.startswith("embedded")):
        line = name
        for rival in ("zeebe", "dbos", "spiff"):
            others = [other for other in rate if other.startswith(rival)]
            if others:
                best = max(others, key=lambda other: rate[other])
                line += f", {rate[name] / rate[best]:.1f} x {best} ({cost[best] / cost[name]:.1f} x less CPU)"
        print(line)


async def measure(contenders: Sequence[Contender], instances: int, runs: int) -> None:
    """Run everybody in turn, `runs` times."""
    async with ground(with_broker=any(contender.kind == "zeebe" for contender in contenders)) as place:
        for contender in contenders:
            # Compilers, caches and schemas are warm for everybody; Java takes longest.
            await place.run(contender, WARM_UP if contender.kind == "zeebe" else 60, alone=0)
        found: dict[str, list[Figures]] = {contender.name: [] for contender in contenders}
        for number in range(runs):
            for contender in contenders:
                found[contender.name].append(await place.run(contender, instances))
                rate = found[contender.name][-1].rate
                print(f"run {number + 1}: {contender.name}: {rate:.0f} instances/s", flush=True)
        show(found)
        ratios(found)


async def endure(instances: int, runs: int) -> None:
    """Measure on an empty database and on a full one, turn by turn, so that the machine's moods hit both."""
    found: dict[str, list[Figures]] = {"empty": [], f"after {ENDED:,} ended": [], f"and {WAITING:,} waiting": []}
    empty, ended, waiting = found
    async with ground(with_broker=False) as fresh, ground(with_broker=False) as aged, ground(with_broker=False) as full:
        for place, wanted in ((fresh, (0, 0)), (aged, (ENDED, 0)), (full, (ENDED, WAITING))):
            await place.run(ENDURANCE, 60, alone=0)
            await crowd(place.postgres.dsn, ended=wanted[0], waiting=wanted[1])
        for _ in range(runs):
            for place, name in ((fresh, empty), (aged, ended), (full, waiting)):
                found[name].append(await place.run(ENDURANCE, instances))
                async with connect(place.postgres.dsn) as connection:
                    await settle(connection)
    show(found)
    for name in (ended, waiting):
        print(f"{name}: {median(found[name], 'rate') / median(found[empty], 'rate'):.2f} x the empty database's rate")


def main() -> None:
    """Parse the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=500)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="parts of contenders' names, separated by commas")
    parser.add_argument("--endurance", action="store_true", help="an old and a crowded database instead of rivals")
    options = parser.parse_args()
    if options.endurance:
        asyncio.run(endure(options.instances, options.runs))
        return
    names = options.only.split(",")
    chosen = [contender for contender in CONTENDERS if any(name in contender.name for name in names)]
    if any(contender.kind in ("dbos", "spiff") for contender in chosen) and not peers():
        print("DBOS and SpiffWorkflow cannot be installed here; they are left out")
        chosen = [contender for contender in chosen if contender.kind not in ("dbos", "spiff")]
    asyncio.run(measure(chosen, options.instances, options.runs))


if __name__ == "__main__":
    main()
