"""Apply each mutant to a copy of the project and see its marked test go red: `python -m tests.mutants [REQ...]`."""

import argparse
import os
import queue
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path

from tests.mutants.listed import Mutant, listed, read, staleness
from tests.mutants.scratch import Run, Scratch, fits
from tests.support.postgres import Postgres
from tests.support.requirements import known_ids

CAUGHT, SURVIVED, UNUSABLE = "caught", "SURVIVED", "UNUSABLE"


def main(words: Sequence[str] | None = None) -> int:
    """Print what became of each mutant; 1 when one survived, 2 when one is stale or shows nothing."""
    arguments = _arguments(words)
    known = list(read(arguments.list.read_text())) if arguments.list else listed()
    mutants = [one for one in known if not arguments.names or any(_is_named(one, name) for name in arguments.names)]
    stale = [reason for mutant in mutants for reason in staleness(mutant)]
    if stale or not mutants:
        print("\n".join(stale) or "no mutant has such a name", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended on the way out
    with ExitStack() as stack:
        dsn = stack.enter_context(Postgres()).dsn
        copies: queue.SimpleQueue[Scratch] = queue.SimpleQueue()
        for _ in range(arguments.jobs):
            copy = Scratch(dsn)
            stack.callback(copy.remove)
            copy.fill()
            copies.put(copy)
        first = copies.get()
        faults = _faults_unchanged(first, mutants, arguments.jobs)
        copies.put(first)
        if faults:
            print("\n".join(faults), file=sys.stderr)
            return 2
        counts = _try_all(mutants, copies, arguments)
    print(", ".join(f"{counts[word]} {word}" for word in (CAUGHT, SURVIVED, UNUSABLE)), f"of {len(mutants)}")
    return 2 if counts[UNUSABLE] else 1 if counts[SURVIVED] else 0


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="requirements (JOB-05, JOB) or files: all mutants without")
    parser.add_argument("--list", type=Path, help="a list of mutants in place of those beside this module")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--verbose", action="store_true", help="what pytest printed for each that is not caught")
    return parser.parse_args(words)


def _is_named(mutant: Mutant, name: str) -> bool:
    return name in (mutant.req, mutant.req.partition("-")[0], mutant.file)


def _faults_unchanged(copy: Scratch, mutants: Sequence[Mutant], workers: int) -> list[str]:
    """Why the tests show nothing: one that fails without any change too, or a case with other marks than its test."""
    marks = copy.marks(tests := sorted({test for mutant in mutants for test in mutant.tests}))
    faults = [
        f"{mutant.name}: {test} is not marked with {mutant.req}, or does not exist"
        for mutant in mutants
        for test in mutant.tests
        if mutant.req in known_ids() and not any(mutant.req in marks[name] for name in marks if fits(name, test))
    ]
    if faults:
        return faults
    unchanged = copy.run(tests, workers)
    bad = [*unchanged.failed, *unchanged.unusable]
    return [unchanged.output, "without any change:", *bad] if bad or not unchanged.passed else []


def _try_all(
    mutants: Sequence[Mutant], copies: "queue.SimpleQueue[Scratch]", arguments: argparse.Namespace
) -> Counter[str]:
    counts: Counter[str] = Counter()

    def try_one(mutant: Mutant) -> Run:
        copy = copies.get()
        try:
            return copy.try_mutant(mutant)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        try:
            running = {pool.submit(try_one, mutant): mutant for mutant in mutants}
            for future in as_completed(running):
                mutant, run = running[future], future.result()
                word = verdict(run)
                counts[word] += 1
                print(f"{word:<8}  {mutant.name}", flush=True)
                if word != CAUGHT:
                    print(f"          {mutant.old.strip()!r} -> {mutant.new.strip()!r}")
                    print(*(f"          {line}" for line in (*run.passed[:3], *run.unusable[:3])), sep="\n")
                    if arguments.verbose:
                        print(run.output)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return counts


def verdict(run: Run) -> str:
    """What a run says of its mutant: a test that fails catches it, whatever else happened."""
    if run.failed:
        return CAUGHT
    return SURVIVED if run.passed and not run.unusable else UNUSABLE


if __name__ == "__main__":
    sys.exit(main())
