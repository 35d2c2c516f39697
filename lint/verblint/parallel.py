"""Lint many files in several processes."""

import os
import pickle
import sys
from collections.abc import Sequence

from verblint.linter import Linter, lint_files
from verblint.report.report import Problem, Report


def lint_in_parallel(linter: Linter, paths: Sequence[str], processes: int) -> Report:
    """Lint in parallel, with the same report as in sequence. A process that dies leaves problems, not clean files."""
    shares = _shares(paths, processes)
    # Linting one file first loads modules that the forked processes then share; the last file of a share is small.
    own = [lint_files(linter, shares[0][-1:])]
    children = [_start(linter, share) for share in shares[1:]]
    own.append(lint_files(linter, shares[0][:-1]))
    reports = {0: Report.of(own)}
    reports |= {number: _finish(*child, shares[number]) for number, child in enumerate(children, start=1)}
    return _in_order([reports[number] for number in range(len(shares))], paths)


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


def _start(linter: Linter, paths: Sequence[str]) -> tuple[int, int]:
    """Fork a process that lints files, and return its id and the pipe that its report is read from."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        os.close(writing)
        return process, reading
    # The child must never return into its parent's code, not even after an error.
    try:
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(lint_files(linter, paths), pipe)
        os._exit(0)
    finally:
        os._exit(1)


def _finish(process: int, reading: int, paths: Sequence[str]) -> Report:
    with os.fdopen(reading, "rb") as pipe:
        written = pipe.read()
    _, status = os.waitpid(process, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        return Report(problems=tuple(Problem(path, "the process that checked it died") for path in paths))
    report: Report = pickle.loads(written)
    return report


def _in_order(reports: Sequence[Report], paths: Sequence[str]) -> Report:
    """Merge reports, ordered as if the files were linted in the given order."""
    whole = Report.of(reports)
    places = {path: number for number, path in enumerate(paths)}
    return Report(
        files=tuple(sorted(whole.files, key=places.__getitem__)),
        findings=tuple(sorted(whole.findings, key=lambda finding: places[finding.file])),
        suppressed=tuple(sorted(whole.suppressed, key=lambda entry: places[entry.finding.file])),
        problems=tuple(sorted(whole.problems, key=lambda problem: places[problem.subject])),
        sources=whole.sources,
    )
