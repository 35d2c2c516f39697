"""Jobs per second and CPU per job on one broker: bare pyzeebe, the official SDK, and verbworker with its frames.

`python -m bench.zeebe_jobs [--jobs 2000] [--runs 3] [--only NAME,NAME]`. Runs are interleaved and medians printed;
only ratios within one run mean anything. `--memory 20000` watches one worker over that many jobs instead.
Nothing here asserts a time.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import psutil

from bench.contenders.model import workflow
from tests.support.models import one_task
from tests.support.postgres import Postgres
from tests.support.start import prepare
from tests.support.zeebe import Broker
from verbworker.engine.protocol import Resource, Start
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import EngineUnavailable
from verbworker.stores import migrations
from verbworker.stores.cases.instances import Instances
from verbworker.stores.database import Database

HERE = Path(__file__).parent
OTHERS = Path(".venv-bench")
OFFICIAL = "camunda-orchestration-sdk<10"  # 10 refuses the answers of an 8.6 broker
TIMEOUT = 600.0
PAYLOAD = "x" * 1700  # about 2 KB with its envelope


@dataclass(frozen=True)
class Contender:
    """One client at one setting; `paced` is the jobs per second that arrive while it runs, 0 a backlog."""

    name: str
    script: str
    in_flight: int
    kind: str = ""
    paced: int = 0


@dataclass(frozen=True)
class Figures:
    """What one run of one contender measured, per job where it says so."""

    rate: float
    worker_ms: float
    broker_ms: float
    postgres_ms: float
    p50_ms: float
    p99_ms: float
    duplicates: float
    memory: Sequence[tuple[int, int]] = ()


BACKLOG = (
    Contender("pyzeebe poll 32", "bare", 32, "poll"),
    Contender("pyzeebe poll 128", "bare", 128, "poll"),
    Contender("official SDK 128", "official", 128),
    Contender("official SDK 256", "official", 256),
    Contender("verbworker external 32", "ours", 32, "external"),
    Contender("verbworker external 128", "ours", 128, "external"),
    Contender("verbworker transactional 32", "ours", 32, "transactional"),
)
PACED = (
    Contender("pyzeebe stream, 50/s", "bare", 32, "stream", paced=50),
    Contender("pyzeebe poll, 50/s", "bare", 32, "poll", paced=50),
    Contender("verbworker external, 50/s", "ours", 32, "external", paced=50),
    Contender("verbworker transactional, 50/s", "ours", 32, "transactional", paced=50),
)


MEMORY = Contender("verbworker external 32, memory", "ours", 32, "external")
COLUMNS = ("rate", "worker_ms", "broker_ms", "postgres_ms", "p50_ms", "p99_ms", "duplicates")


class Ground:
    """One broker and one Postgres, both warm, on which everybody runs."""

    def __init__(self, broker: Broker, postgres: Postgres, engine: ZeebeEngine, database: Database, dsn: str) -> None:
        self.broker = broker
        self.postgres = postgres
        self.engine = engine
        self.database = database
        self.dsn = dsn

    async def deploy(self) -> str:
        """A process of its own for every run; returns its domain."""
        domain = f"bench-{uuid4().hex[:8]}"
        model = one_task(workflow(domain).process, f"{domain}.go")
        await self.engine.deploy([Resource(f"{domain}.bpmn", model)])
        return domain

    async def start(self, domain: str, count: int, *, per_second: int = 0) -> None:
        """Start instances, as fast as the broker takes them or at a pace."""
        turn = asyncio.Semaphore(32)

        async def one() -> None:
            async with turn:
                ready = await prepare(self.database, "bench", workflow(domain), {"text": PAYLOAD})
                while True:
                    try:
                        begun = await self.engine.start(Start(workflow(domain).process, ready.variables))
                        break
                    except EngineUnavailable:
                        await asyncio.sleep(0.05)
                await Instances(self.database).pin(
                    ready.instance_uid,
                    instance_key=begun.instance_key,
                    definition_key=begun.definition_key,
                    version=begun.version,
                )

        async with asyncio.TaskGroup() as tasks:
            for _ in range(count):
                tasks.create_task(one())
                if per_second:
                    await asyncio.sleep(1 / per_second)

    async def run(self, contender: Contender, jobs: int) -> Figures:
        """Let one contender complete `jobs` jobs."""
        domain = await self.deploy()
        if not contender.paced:
            await self.start(domain, jobs)
        process = await asyncio.create_subprocess_exec(
            *command(contender, self, domain, jobs), cwd=HERE.parent, stdout=subprocess.PIPE
        )
        try:
            async with asyncio.timeout(TIMEOUT), asyncio.TaskGroup() as tasks:
                await _first_line(process)  # it has begun: importing and connecting is nobody's cost per job
                before = (cpu(self.broker.pid), cpu(self.postgres.pid))
                if contender.paced:
                    await asyncio.sleep(3)
                    tasks.create_task(self.start(domain, jobs, per_second=contender.paced))
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            raise SystemExit(f"{contender.name} did not end within {TIMEOUT:.0f} s") from None
        told = json.loads(output)
        after = (cpu(self.broker.pid), cpu(self.postgres.pid))
        return Figures(
            rate=jobs / told["seconds"],
            worker_ms=told["cpu"] / jobs * 1000,
            broker_ms=(after[0] - before[0]) / jobs * 1000,
            postgres_ms=(after[1] - before[1]) / jobs * 1000,
            p50_ms=told["p50"] * 1000,
            p99_ms=told["p99"] * 1000,
            duplicates=told["duplicates"],
            memory=told["memory"],
        )


async def _first_line(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    return await process.stdout.readline()


def command(contender: Contender, ground: Ground, domain: str, jobs: int) -> list[str]:
    """How to start a contender."""
    script = ["-m", f"bench.contenders.{contender.script}"]
    number = [str(jobs), str(contender.in_flight)]
    match contender.script:
        case "ours":
            return [sys.executable, *script, ground.broker.address, ground.dsn, domain, *number, contender.kind]
        case "official":
            return [str(OTHERS / "bin/python"), *script, ground.broker.rest_address, f"{domain}.go", *number]
        case _:
            return [sys.executable, *script, ground.broker.address, f"{domain}.go", *number, contender.kind]


def cpu(pid: int) -> float:
    """CPU-seconds of a process and everything it ever started."""
    parent = psutil.Process(pid)
    own = parent.cpu_times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in parent.children(recursive=True):
        times = child.cpu_times()
        total += times.user + times.system
    return total


def show(title: str, found: dict[str, list[Figures]]) -> None:
    """Print medians."""
    if not found:
        return
    print(f"\n{title}")
    print(f"{'':34}{'jobs/s':>8}{'worker':>9}{'broker':>9}{'postgres':>9}{'p50 ms':>9}{'p99 ms':>9}{'dup':>5}")
    for name, runs in found.items():
        rate, worker, broker, postgres, p50, p99, duplicates = (median(runs, column) for column in COLUMNS)
        print(f"{name:34}{rate:8.0f}{worker:9.2f}{broker:9.2f}{postgres:9.2f}{p50:9.1f}{p99:9.1f}{duplicates:5.0f}")


def median(runs: Sequence[Figures], column: str) -> float:
    """The median of one column."""
    return float(statistics.median(getattr(run, column) for run in runs))


def ratios(found: dict[str, list[Figures]]) -> None:
    """Print what the goals are stated in: rates against the best setting of a rival, CPU against the same setting."""
    rate = {name: median(runs, "rate") for name, runs in found.items()}
    cost = {name: median(runs, "worker_ms") for name, runs in found.items()}
    for name in (name for name in rate if name.startswith("verbworker")):
        line = name
        for rival in ("pyzeebe", "official SDK"):
            if rates := [rate[other] for other in rate if other.startswith(rival)]:
                line += f", {rate[name] / max(rates):.2f} x the best {rival}"
        if (bare := f"pyzeebe poll {name.split()[-1]}") in cost:
            line += f", worker CPU {cost[name] / cost[bare]:.2f} x {bare}"
        print(line)


def show_memory(found: Figures) -> None:
    """Print resident memory over the run, and its slope once everything is warm."""
    for jobs, resident in found.memory:
        print(f"{jobs:8} jobs {resident / 1024:8.1f} MB")
    warm = found.memory[len(found.memory) // 4 :]
    slope = statistics.linear_regression([jobs for jobs, _ in warm], [kb for _, kb in warm]).slope
    print(f"slope after the first quarter: {slope * 1000:.1f} KB per 1000 jobs")


def official_environment() -> bool:
    """The official SDK in an environment of its own, by name; False when it cannot be had."""
    python = OTHERS / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(OTHERS)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", OFFICIAL]
    return subprocess.run(install, check=False).returncode == 0


@asynccontextmanager
async def ground() -> AsyncIterator[Ground]:
    """One broker and one Postgres, stopped afterwards."""
    postgres, broker = Postgres(settings={"fsync": "on"}), Broker(flags=("-Xmx1g",), controlled_clock=False)
    postgres.start()
    try:
        broker.start()
        await migrations.migrate(postgres.dsn)
        engine = ZeebeEngine(GatewayAddress(address=broker.address), engine_id="bench")
        async with engine, Database(postgres.dsn, size=8) as database:
            yield Ground(broker, postgres, engine, database, postgres.dsn)
    finally:
        broker.stop()
        postgres.stop()


async def measure(contenders: Sequence[Contender], jobs: int, paced_jobs: int, runs: int) -> None:
    """Run everybody in turn, `runs` times, on one broker."""
    async with ground() as place:
        for script in {contender.script: contender for contender in contenders}.values():
            await place.run(replace(script, paced=0), 300)  # warm the broker's compiler, for every way in
        found: dict[str, list[Figures]] = {contender.name: [] for contender in contenders}
        for number in range(runs):
            for contender in contenders:
                count = paced_jobs if contender.paced else jobs
                found[contender.name].append(await place.run(contender, count))
                print(f"run {number + 1}: {contender.name}: {found[contender.name][-1].rate:.0f} jobs/s", flush=True)
        backlog = {name: runs for name, runs in found.items() if "/s" not in name}
        show("A backlog, empty verb, 2 KB payload; CPU in ms per job", backlog)
        ratios(backlog)
        paced = {name: runs for name, runs in found.items() if "/s" in name}
        show("Paced arrivals; broker and Postgres include starting the instances", paced)


async def watch_memory(jobs: int) -> None:
    """Let one worker complete many jobs."""
    async with ground() as place:
        show_memory(await place.run(MEMORY, jobs))


def main() -> None:
    """Parse the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--paced-jobs", type=int, default=500)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="parts of contenders' names, separated by commas")
    parser.add_argument("--memory", type=int, default=0, metavar="JOBS", help="watch one worker's memory instead")
    options = parser.parse_args()
    if options.memory:
        asyncio.run(watch_memory(options.memory))
        return
    names = options.only.split(",")
    chosen = [contender for contender in (*BACKLOG, *PACED) if any(name in contender.name for name in names)]
    if any(contender.script == "official" for contender in chosen) and not official_environment():
        print("the official SDK cannot be installed here; it is left out")
        chosen = [contender for contender in chosen if contender.script != "official"]
    asyncio.run(measure(chosen, options.jobs, options.paced_jobs, options.runs))


if __name__ == "__main__":
    main()
