"""Two checkouts against each other: the same runs in turns, on one broker and one Postgres each; ratios of pairs.

python -m bench.against OTHER [--rounds N] [RUN ...]

OTHER is a checkout with a `.venv` of its own, such as a worktree of the commit before. A run is `kind|contender|count`:
`embedded|embedded external|600`, `zeebe|verbworker transactional 32|1500` or `lint|cold start|20`. Contenders are those
of `bench.engine` and `bench.zeebe_jobs`. A machine drifts by more than a change costs, so the two sides take turns and
each pair gives one ratio; what is printed is their median.
"""

import argparse
import asyncio
import dataclasses
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

ROOT = Path(__file__).resolve().parents[1]
RUNS = (
    "lint|cold start|20",
    "embedded|embedded external|600",
    "embedded|embedded transactional|300",
    "zeebe|verbworker external 32|1500",
    "zeebe|verbworker transactional 32|1500",
)
WARM = 100
"""How much each side runs before anything counts."""

Figures = dict[str, float]


class Side:
    """One checkout: a process of its own with its own Postgres, asked for one run at a time."""

    def __init__(self, tree: Path, broker: Any) -> None:
        address, pid = (broker.address, str(broker.pid)) if broker else ("", "0")
        self._process = subprocess.Popen(
            [tree / ".venv/bin/python", Path(__file__), "--side", address, pid],
            cwd=tree,
            # A side without compiled files would compile the linter anew at each cold start.
            env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def measure(self, run: str) -> Figures:
        """Have one run made; other lines that the benchmark prints are passed over."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(run, file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith("{"):
                return cast(Figures, json.loads(line))
        raise SystemExit(f"the side in {self._process.args!r} ended during {run}")

    def close(self) -> None:
        """Let the process stop its servers and end."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(60)


def main() -> None:
    """Measure both sides in turns and print the median of each figure and of its ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("other", type=Path, help="the checkout that this one is compared with")
    parser.add_argument("runs", nargs="*", default=RUNS, metavar="RUN", help="kind|contender|count")
    parser.add_argument("--rounds", type=int, default=5, help="pairs per run")
    options = parser.parse_intermixed_args()
    with ExitStack() as cleanup:
        broker = None
        if any(run.startswith("zeebe") for run in options.runs):
            from tests.support.zeebe import Broker

            broker = Broker(flags=("-Xmx1g",), controlled_clock=False)
            broker.start()
            cleanup.callback(broker.stop)
        sides = [Side(tree, broker) for tree in (options.other.resolve(), ROOT)]
        for side in sides:
            cleanup.callback(side.close)
        for run in options.runs:
            _print(run, _pairs(sides, run, options.rounds))


def _pairs(sides: list[Side], run: str, rounds: int) -> list[list[Figures]]:
    kind, contender, _ = run.split("|")
    for side in sides:
        side.measure(f"{kind}|{contender}|{WARM if kind != 'lint' else 2}")
    figures: list[list[Figures]] = [[], []]
    for number in range(rounds):
        for index in (0, 1) if number % 2 == 0 else (1, 0):
            figures[index].append(sides[index].measure(run))
    return figures


def _print(run: str, figures: list[list[Figures]]) -> None:
    print(run)
    for name in figures[0][0]:
        before, after = ([figure[name] for figure in side] for side in figures)
        ratios = [new / old for old, new in zip(before, after, strict=True) if old]
        if ratios:
            medians = f"{statistics.median(before):10.3f} -> {statistics.median(after):10.3f}"
            print(f"  {name:12} {medians}   pairs {statistics.median(ratios):.3f}")


async def _serve(address: str, pid: int) -> None:
    """Make the runs that the other process asks for on standard input, with the modules of the working directory."""
    sys.path[0] = os.getcwd()
    async with AsyncExitStack() as stack:
        grounds: dict[str, Any] = {}
        loop = asyncio.get_running_loop()
        while line := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
            kind, contender, count = line.split("|")
            if kind == "lint":
                figures = _cold_starts(int(count))
            else:
                if kind not in grounds:
                    grounds[kind] = await _ground(kind, address, pid, stack)
                module, ground = grounds[kind]
                chosen = next(one for one in _contenders(module) if one.name == contender)
                alone = {"alone": 0} if kind == "embedded" else {}
                made = dataclasses.asdict(await ground.run(chosen, int(count), **alone))
                figures = {name: value for name, value in made.items() if isinstance(value, (int, float))}
            print(json.dumps(figures), flush=True)


def _contenders(module: Any) -> tuple[Any, ...]:
    return module.CONTENDERS if hasattr(module, "CONTENDERS") else (*module.BACKLOG, *module.PACED)


async def _ground(kind: str, address: str, pid: int, stack: AsyncExitStack) -> tuple[Any, Any]:
    from tests.support.postgres import Postgres

    postgres = stack.enter_context(Postgres(settings={"fsync": "on", "synchronous_commit": "on"}))
    migrate = [str(Path(sys.executable).with_name("verbworker")), "db", "migrate"]
    process = await asyncio.create_subprocess_exec(*migrate, env=os.environ | {"VERBWORKER_DSN": postgres.dsn})
    assert await process.wait() == 0
    if kind == "embedded":
        engines: Any = importlib.import_module("bench.engine")
        return engines, engines.Ground(postgres, None)
    jobs: Any = importlib.import_module("bench.zeebe_jobs")
    gateway = getattr(jobs, "GatewayAddress", None) or jobs.Connection  # older checkouts have the other name
    engine = await stack.enter_async_context(jobs.ZeebeEngine(gateway(address=address), engine_id="bench"))
    database = await stack.enter_async_context(jobs.Database(postgres.dsn, size=8))
    broker: Any = SimpleNamespace(address=address, pid=pid)
    return jobs, jobs.Ground(broker, postgres, engine, database, postgres.dsn)


def _cold_starts(count: int) -> Figures:
    """Check one model `count` times, each in a new process."""
    from tests.support.model_source import ModelSource

    with tempfile.TemporaryDirectory(prefix="bench-against-") as folder:
        model = Path(folder) / "one.bpmn"
        model.write_bytes(ModelSource(1).model(11))
        command = [str(Path(sys.executable).with_name("verblint")), "check", str(model)]
        walls, spent = [], resource.getrusage(resource.RUSAGE_CHILDREN)
        for _ in range(count):
            begin = time.perf_counter()
            subprocess.run(command, cwd=folder, capture_output=True, check=True)
            walls.append(time.perf_counter() - begin)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = now.ru_utime + now.ru_stime - spent.ru_utime - spent.ru_stime
    return {"wall_ms": 1000 * statistics.median(walls), "cpu_ms": 1000 * cpu / count}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        asyncio.run(_serve(sys.argv[2], int(sys.argv[3])))
    else:
        main()
