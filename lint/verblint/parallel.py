"""Lint many files in several processes."""

import os
import sys
from collections.abc import Sequence

from verblint.linter import Linter
from verblint.report import Problem, Report

# With less work, starting processes costs more than it saves.
_BYTES_WORTH_PROCESSES = 3_000_000


def choose_processes(paths: Sequence[str], jobs: int) -> int:
    """Return how many processes lint these files: `jobs`, or for 0 as many as are worth it."""
    if not jobs and sum(map(_size, paths)) <= _BYTES_WORTH_PROCESSES:
        return 1
    return min(jobs or available_processes(), len(paths))


def lint_in_parallel(linter: Linter, paths: Sequence[str], processes: int) -> Report:
    """Lint in parallel, with the same report as in sequence. A process that dies leaves problems, not clean files."""
    shares = _shares(paths, processes)
    # Linting one file first loads modules that the forked processes then share; the last file of a share is small.
    reports = _lint_each(linter, shares[0][-1:])
    children = [_start(linter, share) for share in shares[1:]]
    reports |= _lint_each(linter, shares[0][:-1])
    for child, share in zip(children, shares[1:], strict=True):
        reports |= _finish(*child, share)
    return Report.of(reports[path] for path in paths)


def available_processes() -> int:
    """Return how many processors this process may use; 1 where `fork` is missing."""
    if not hasattr(os, "fork"):
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _shares(paths: Sequence[str], processes: int) -> list[list[str]]:
    """Split the paths into shares of similar size, assigning the largest files first."""
    sizes = {path: _size(path) for path in paths}
    shares: list[list[str]] = [[] for _ in range(processes)]
    totals = [0] * processes
    for path in sorted(paths, key=lambda path: -sizes[path]):
        least = totals.index(min(totals))
        shares[least].append(path)
        totals[least] += sizes[path] + 1
    return shares


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0


def _lint_each(linter: Linter, paths: Sequence[str]) -> dict[str, Report]:
    """Return one report per path: a problem may be about another file, so the path alone gives the order."""
    return {path: linter.lint_file(path) for path in paths}


def _start(linter: Linter, paths: Sequence[str]) -> tuple[int, int]:
    """Fork a process that lints files, and return its id and the pipe that its reports are read from."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        os.close(writing)
        return process, reading
    # The child must never return into its parent's code, not even after an error.
    try:  # pragma: no cover  # another process than the one that is measured
        from pickle import dump

        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            dump(_lint_each(linter, paths), pipe)
        os._exit(0)
    finally:
        os._exit(1)  # pragma: no cover


def _finish(process: int, reading: int, paths: Sequence[str]) -> dict[str, Report]:
    # Imported here because few runs start processes.
    from pickle import loads

    with os.fdopen(reading, "rb") as pipe:
        written = pipe.read()
    _, status = os.waitpid(process, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        return {path: Report(problems=(Problem(path, "the process that checked it died"),)) for path in paths}
    reports: dict[str, Report] = loads(written)
    return reports
