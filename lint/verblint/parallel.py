"""Many files at once: each process of several takes its share."""

import os
import pickle
import sys
from collections.abc import Sequence

from verblint.linter import Linter, lint_files
from verblint.report.report import Problem, Report


def lint_in_parallel(linter: Linter, paths: Sequence[str], processes: int) -> Report:
    """The same report as one file after another gives; a process that dies leaves problems, never clean files."""
    shares = _shares(paths, processes)
    # The first file makes this process load what the others then have from it; the last of a share is small.
    own = [lint_files(linter, shares[0][-1:])]
    children = [_start(linter, share) for share in shares[1:]]
    own.append(lint_files(linter, shares[0][:-1]))
    reports = {0: Report.of(own)}
    reports |= {number: _finish(*child, shares[number]) for number, child in enumerate(children, start=1)}
    return _in_order([reports[number] for number in range(len(shares))], paths)


def available_processes() -> int:
    """How many processors this process may use; where it cannot be doubled, one."""
    if not hasattr(os, "fork"):
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _shares(paths: Sequence[str], processes: int) -> list[list[str]]:
    """The paths in shares of about the same size, the largest files first to the smallest share."""
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
    """A process that lints some files and writes its report to the pipe whose other end is returned with its id."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        os.close(writing)
        return process, reading
    # The child: whatever happens here, it never returns into the code of its parent.
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
    """One report, as if the files had been looked at in the order they were given."""
    whole = Report.of(reports)
    places = {path: number for number, path in enumerate(paths)}
    return Report(
        files=tuple(sorted(whole.files, key=places.__getitem__)),
        findings=tuple(sorted(whole.findings, key=lambda finding: places[finding.file])),
        suppressed=tuple(sorted(whole.suppressed, key=lambda entry: places[entry.finding.file])),
        problems=tuple(sorted(whole.problems, key=lambda problem: places[problem.subject])),
        sources=whole.sources,
    )
