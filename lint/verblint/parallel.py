"""Many files at once, each in one of several processes."""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from verblint.linting import Linter, lint_files
from verblint.report import Problem, Report

_CHUNKS_PER_PROCESS = 8
_linter: list[Linter] = []


def lint_in_parallel(linter: Linter, paths: Sequence[str], processes: int) -> Report:
    """The same report as one file after another gives; a process that dies leaves a problem, never a clean file."""
    size = max(1, -(-len(paths) // (processes * _CHUNKS_PER_PROCESS)))
    chunks = [paths[start : start + size] for start in range(0, len(paths), size)]
    with ProcessPoolExecutor(processes, initializer=_adopt, initargs=(linter,)) as pool:
        futures = [(chunk, pool.submit(_lint_chunk, chunk)) for chunk in chunks]
        return Report.of(_result(chunk, future) for chunk, future in futures)


def available_processes() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _adopt(linter: Linter) -> None:
    _linter[:] = [linter]


def _lint_chunk(paths: Sequence[str]) -> Report:
    return lint_files(_linter[0], paths)


def _result(paths: Sequence[str], future: "Future[Report]") -> Report:
    try:
        return future.result()
    except BrokenProcessPool:
        return Report(problems=tuple(Problem(path, "the process that checked it died") for path in paths))
