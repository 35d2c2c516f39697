"""Where the CPU and the milliseconds of a job go: `python -m bench.profile [--jobs 2000] [--top 25] [PATH ...]`.

A path is one of PATHS. Each is run twice: once as it is, for CPU per job and the statements of Postgres, and once under
cProfile, for Python's part by package and by function. cProfile makes Python about twice as slow, so its times are
shares and not costs. Statements need the extension pg_stat_statements, which Debian's Postgres has and the wheel has
not: without it they are left out.
"""

import argparse
import asyncio
import os
import pstats
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from bench.contenders.course import STEPS
from bench.engine import Contender, Figures, Ground
from tests.support.postgres import Postgres
from tests.support.zeebe import Broker
from verbworker.stores import migrations, sql

PATHS = {
    "embedded-external": Contender("embedded external", "embedded", "external", 64),
    "embedded-transactional": Contender("embedded transactional", "embedded", "transactional", 8),
    "zeebe-external": Contender("zeebe external", "zeebe", "external", 32),
    "zeebe-transactional": Contender("zeebe transactional", "zeebe", "transactional", 32),
}
_STATEMENTS = """
SELECT query, calls, total_exec_time + total_plan_time AS ms, rows
FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
ORDER BY ms DESC
"""


@dataclass(frozen=True)
class Statement:
    """One kind of statement: its name in sql/queries, or its own beginning, with its calls and milliseconds."""

    name: str
    calls: int
    ms: float


async def main(arguments: list[str]) -> None:
    """Profile the paths that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="*", choices=[[], *PATHS], metavar="PATH", help=", ".join(PATHS))
    parser.add_argument("--jobs", type=int, default=2000, help="jobs of each run (default: 2000)")
    parser.add_argument("--top", type=int, default=25, help="functions to print (default: 25)")
    options = parser.parse_args(arguments)
    paths = options.paths or list(PATHS)
    async with AsyncExitStack() as stack:
        binaries = _debian()
        loaded = {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_planning": "on"}
        postgres = stack.enter_context(Postgres(loaded if binaries else None, binaries=binaries))
        await migrations.migrate(postgres.dsn)
        broker = None
        if any(PATHS[path].kind == "zeebe" for path in paths):
            broker = stack.enter_context(Broker(flags=("-Xmx1g",), controlled_clock=False))
        ground = Ground(postgres, broker)
        for path in paths:
            await _profile(ground, path, options.jobs, options.top, has_statements=binaries is not None)


async def _profile(ground: Ground, path: str, jobs: int, top: int, *, has_statements: bool) -> None:
    contender, instances = PATHS[path], max(20, jobs // STEPS)
    figures: Figures = await ground.run(contender, 100, alone=0)  # warms the servers up
    if has_statements:
        await _ask(ground.postgres.dsn, "SELECT pg_stat_statements_reset()")
    figures = await ground.run(contender, instances, alone=0)
    done = instances * STEPS
    print(f"\n== {path}: {done} jobs, {figures.rate * STEPS:.0f} jobs/s, CPU in ms per job:", end="")
    print(f" worker {figures.worker_ms:.3f}, Postgres {figures.postgres_ms:.3f}, broker {figures.broker_ms:.3f}")
    if has_statements:
        _print_statements(await _statements(ground.postgres.dsn), done)
    with tempfile.TemporaryDirectory(prefix="bench-profile-") as folder, _profiled(Path(folder) / "worker") as file:
        await ground.run(contender, instances, alone=0)
        _print_functions(pstats.Stats(str(file)), done, top)


@contextmanager
def _profiled(file: Path) -> Iterator[Path]:
    os.environ["BENCH_PROFILE"] = str(file)
    try:
        yield file
    finally:
        del os.environ["BENCH_PROFILE"]


async def _ask(dsn: str, text: str) -> list[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        rows: list[Any] = await connection.fetch(text)
        return rows
    finally:
        await connection.close()


async def _statements(dsn: str) -> list[Statement]:
    names = {_beginning(text): f"{store}.{name}" for store in sql.stores() for name, text in sql.queries(store).items()}
    spent: dict[str, Statement] = {}
    for row in await _ask(dsn, _STATEMENTS):
        name = names.get(_beginning(row["query"]), " ".join(row["query"].split())[:60])
        before = spent.get(name, Statement(name, 0, 0.0))
        spent[name] = Statement(name, before.calls + row["calls"], before.ms + row["ms"])
    return list(spent.values())


def _beginning(text: str) -> str:
    """Return the comment that a named query begins with; Postgres keeps it."""
    return text.lstrip().splitlines()[0]


def _print_statements(statements: list[Statement], jobs: int) -> None:
    print(f"  {'ms/job':>8} {'calls/job':>10} {'ms/call':>8}  statement")
    for one in sorted(statements, key=lambda one: -one.ms)[:16]:
        print(f"  {one.ms / jobs:8.3f} {one.calls / jobs:10.3f} {one.ms / max(one.calls, 1):8.3f}  {one.name}")
    print(f"  {sum(one.ms for one in statements) / jobs:8.3f} {sum(one.calls for one in statements) / jobs:10.3f}")


def _print_functions(stats: pstats.Stats, jobs: int, top: int) -> None:
    rows = [
        (own, calls, whole, _package(file), f"{_short(file)}:{line} {name}")
        for (file, line, name), (_, calls, own, whole, _) in stats.stats.items()  # type: ignore[attr-defined]
        if "epoll" not in name
    ]
    packages, numbers = Counter[str](), Counter[str]()
    for own, calls, _, package, _ in rows:
        packages[package] += own
        numbers[package] += calls
    total = sum(row[0] for row in rows)
    print(f"  {sum(row[1] for row in rows) / jobs:.0f} calls per job; by package:")
    for package, own in packages.most_common(14):
        print(f"  {100 * own / total:6.1f} %  {numbers[package] / jobs:7.1f} calls  {package}")
    print("  own and whole time in us per job under the profiler, calls per job:")
    for own, calls, whole, _, name in sorted(rows, reverse=True)[:top]:
        print(f"  {own / jobs * 1e6:7.1f} {whole / jobs * 1e6:8.1f} {calls / jobs:7.2f}  {name}")


def _package(file: str) -> str:
    if file == "~":
        return "built in"
    if "/verbworker/" in file:
        return "verbworker." + ".".join(file.split("/verbworker/")[-1].split("/")[:-1])
    if "/site-packages/" in file:
        return file.split("/site-packages/")[-1].split("/")[0]
    return "python." + Path(file).parent.name.replace("python3.11", "lib")


def _short(file: str) -> str:
    for root in ("/site-packages/", "/verbworker/", "/lib/python3"):
        if root in file:
            return file.split(root)[-1]
    return file


def _debian() -> Path | None:
    """Return the newest Postgres of the system that has pg_stat_statements, or None."""
    found = [
        place
        for place in Path("/usr/lib/postgresql").glob("*/bin")
        if (Path("/usr/share/postgresql") / place.parent.name / "extension/pg_stat_statements.control").exists()
    ]
    return max(found, key=lambda place: int(place.parent.name), default=None)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
