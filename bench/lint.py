"""verblint against bpmnlint with its recommended rules: models per second, cold start, memory.

python -m bench.lint [--models N] [--runs N] [--starts N]

Both check the same generated models, in interleaved runs, each as a command of its own. verblint is installed into an
environment of its own, as users have it; bpmnlint comes from npm by name and is kept in the cache folder. Beside the
time on the clock stands the time of the processors, which other work on the machine disturbs much less.
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.model_source import ModelSource

BPMNLINT = "bpmnlint@11"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "verbworker" / "bpmnlint"
ROOT = Path(__file__).parents[1]
SEED = 20261116
MEGABYTE = 1024 * 1024
GOALS = {"models/s": "at least 10 x", "cold start": "below 0.25 x", "memory": "below 100 MB"}


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of a command took: seconds on the clock, seconds of processors, bytes of memory at most."""

    wall: float
    cpu: float
    memory: int


@dataclass
class Tool:
    """A linter as a command, and what was measured of it."""

    name: str
    command: list[str]
    batches: list[Run] = field(default_factory=list)
    starts: list[Run] = field(default_factory=list)


def main() -> None:
    """Prepare both tools, measure them in turns and print medians and ratios."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="bench-lint-") as name:
        folder = Path(name)
        ours, theirs = _verblint(folder), _bpmnlint(folder)
        alone = Tool("one process", [*ours.command, "--jobs", "1"])
        sizes = _write_models(folder, options.models)
        _print_setting(sizes)
        for tool in (ours, alone, theirs):
            _run(tool, folder, "models/*.bpmn")
        for _ in range(options.runs):
            for tool in (ours, alone, theirs):
                tool.batches.append(_run(tool, folder, "models/*.bpmn"))
        for _ in range(options.starts):
            for tool in (ours, theirs):
                tool.starts.append(_run(tool, folder, "one.bpmn"))
        _print_times(ours, alone, theirs, len(sizes))
        _print_memory(ours, theirs, folder)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", type=int, default=600, help="how many models are checked at once")
    parser.add_argument("--runs", type=int, default=5, help="how often each tool checks them all")
    parser.add_argument("--starts", type=int, default=15, help="how often each tool checks one file")
    return parser.parse_args()


def _verblint(folder: Path) -> Tool:
    """The wheel in an environment of its own: an editable install would start slower than what users have."""
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(ROOT / "lint")], check=True)
    return Tool("verblint", [str(environment / "bin" / "verblint"), "check"])


def _bpmnlint(folder: Path) -> Tool:
    """bpmnlint from npm by name, with the rules it recommends."""
    program = CACHE / "node_modules" / "bpmnlint" / "bin" / "bpmnlint.js"
    node = shutil.which("node")
    if node is None:
        raise SystemExit("bench.lint needs node and npm to install bpmnlint")
    if not program.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(CACHE), BPMNLINT]
        subprocess.run(command, check=True)
    (folder / ".bpmnlintrc").write_text('{"extends": "bpmnlint:recommended"}')
    return Tool("bpmnlint", [node, str(program)])


def _write_models(folder: Path, count: int) -> list[int]:
    (folder / "models").mkdir()
    sizes = []
    for number, content in enumerate(ModelSource(SEED).sized(count)):
        (folder / "models" / f"{number:04}.bpmn").write_bytes(content)
        sizes.append(len(content))
    (folder / "one.bpmn").write_bytes(ModelSource(SEED + 1).model(11))
    return sizes


def _run(tool: Tool, folder: Path, words: str) -> Run:
    """One run of a command, with the processes it starts. An exit code of 2 is a run that did not check."""
    begin = time.perf_counter()
    process = subprocess.Popen([*tool.command, words], cwd=folder, env=_environment(), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    taken = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{tool.name} ended with {process.returncode}")
    return Run(taken, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def _environment() -> dict[str, str]:
    # Without byte code, Python would compile everything at each start; nobody runs an installed tool like that.
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def _print_setting(sizes: list[int]) -> None:
    cores = len(os.sched_getaffinity(0))
    print(f"{platform.platform()}, {cores} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
    median, largest = statistics.median(sizes) / 1024, max(sizes) / 1024
    print(f"{len(sizes)} models, {sum(sizes) / MEGABYTE:.1f} MB: median {median:.0f} kB, largest {largest:.0f} kB")


def _print_times(ours: Tool, alone: Tool, theirs: Tool, count: int) -> None:
    print(f"{'':16}{ours.name:>12}{theirs.name:>12}{'ratio':>9}   goal")
    rates = [count / _median(tool.batches).wall for tool in (ours, theirs)]
    _print_row("models/s", [f"{rates[0]:.0f}", f"{rates[1]:.1f}"], f"{rates[0] / rates[1]:.1f}x", GOALS["models/s"])
    _print_costs("cpu/model", [1000 * _median(tool.batches).cpu / count for tool in (ours, theirs)])
    _print_costs("  one process", [1000 * _median(tool.batches).cpu / count for tool in (alone, theirs)])
    _print_costs("cold start", [1000 * _median(tool.starts).wall for tool in (ours, theirs)], GOALS["cold start"])
    _print_costs("  cpu", [1000 * _median(tool.starts).cpu for tool in (ours, theirs)])
    for name, tools in (("all models", (ours, theirs)), ("  one process", (alone, theirs))):
        walls = [[run.wall for run in tool.batches] for tool in tools]
        _print_row(name, [f"{min(wall):.2f}-{max(wall):.2f} s" for wall in walls])
    print(
        f"load {os.getloadavg()[0]:.1f} at the end; medians of {len(ours.batches)} runs and {len(ours.starts)} starts"
    )


def _print_costs(name: str, pair: list[float], goal: str = "") -> None:
    """A row of milliseconds, of which fewer are better."""
    digits = 0 if pair[1] > 100 else 2
    _print_row(name, [f"{cost:.{digits}f} ms" for cost in pair], f"{pair[0] / pair[1]:.2f}x", goal)


def _print_row(name: str, cells: list[str], ratio: str = "", goal: str = "") -> None:
    print(f"{name:16}{cells[0]:>12}{cells[1]:>12}{ratio:>9}   {goal}".rstrip())


def _median(runs: Sequence[Run]) -> Run:
    """The medians of each figure."""
    return Run(
        statistics.median(run.wall for run in runs),
        statistics.median(run.cpu for run in runs),
        int(statistics.median(run.memory for run in runs)),
    )


def _print_memory(ours: Tool, theirs: Tool, folder: Path) -> None:
    """The most memory that a check of one model of 2 MB takes."""
    steps, content = 2_000, b""
    while not 1.9 * MEGABYTE < len(content) <= 2 * MEGABYTE:
        content = ModelSource(SEED + 2).model(steps)
        steps = int(steps * 1.95 * MEGABYTE / len(content))
    (folder / "large.bpmn").write_bytes(content)
    used = [_run(tool, folder, "large.bpmn").memory / MEGABYTE for tool in (ours, theirs)]
    _print_row("memory", [f"{size:.0f} MB" for size in used], f"{used[0] / used[1]:.2f}x", GOALS["memory"])
    print(f"(a model of {len(content) / MEGABYTE:.2f} MB)")


if __name__ == "__main__":
    main()
