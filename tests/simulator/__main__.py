"""`python -m tests.simulator --seeds 0:10000`: run schedules, shrink and print those that break a promise."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.simulator.expected import unexplained
from tests.simulator.faults import ALL
from tests.simulator.mutants import MUTANTS, applied
from tests.simulator.runner import Outcome, play, shrink
from tests.simulator.world import Options

_CHUNK = 50


def main() -> int:
    """Run, report, and exit 1 when a promise was broken by more than the known bugs."""
    given = _arguments()
    options = Options(frozenset(given.faults.split(",")) if given.faults else ALL)
    first, _, last = given.seeds.partition(":")
    seeds = range(int(first), int(last) if last else int(first) + 1)
    began = time.perf_counter()
    failed: list[Outcome] = []
    counts: Counter[str] = Counter()
    known, virtual = 0, 0.0
    for outcome in _play_all(seeds, options, given.bug, given.jobs):
        virtual += outcome.seconds
        counts.update(outcome.names)
        if not outcome.violations:
            continue
        if given.bug is None and not given.strict and not unexplained(outcome):
            known += 1
            continue
        failed.append(outcome)
        print(f"seed {outcome.seed}: {outcome.violations[0]}", flush=True)
        if given.first:
            break
    took = time.perf_counter() - began
    for outcome in failed[: given.show]:
        _show(outcome, options, given.bug)
    summary = "".join(f" {name.replace(' ', '_')}={count}" for name, count in sorted(counts.items()))
    print(
        f"schedules={len(seeds)} failed={len(failed)} known={known}{summary}"
        f" virtual_hours={virtual / 3600:.0f} seconds={took:.0f} per_second={len(seeds) / took:.0f}"
    )
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seeds", default="0:1000", help="FIRST:LAST, the last one not included, or one seed")
    parser.add_argument("--bug", choices=sorted(MUTANTS), help="take one fix out")
    parser.add_argument("--faults", default="", help=f"only these classes, with commas: {', '.join(sorted(ALL))}")
    parser.add_argument("--strict", action="store_true", help="known bugs are failures too")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--first", action="store_true", help="stop at the first that fails")
    parser.add_argument("--show", type=int, default=1, help="how many failures to shrink and show")
    return parser.parse_args()


def _play_all(seeds: range, options: Options, bug: str | None, jobs: int) -> Iterable[Outcome]:
    parts = [seeds[start : start + _CHUNK] for start in range(0, len(seeds), _CHUNK)]
    run = partial(_play_some, options=options, bug=bug)
    if jobs == 1:
        for part in parts:
            yield from run(part)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for outcomes in pool.map(run, parts):
            yield from outcomes


def _play_some(seeds: range, options: Options, bug: str | None) -> list[Outcome]:
    with applied(bug):
        return [play(seed, options) for seed in seeds]


def _show(outcome: Outcome, options: Options, bug: str | None) -> None:
    with applied(bug):
        small = shrink(outcome.seed, options, outcome.names)
    print(f"\n== seed {outcome.seed}, {len(outcome.faults)} faults shrunk to {len(small.faults)}")
    for fault in small.faults:
        print(f"   {fault}")
    for violation in small.violations:
        print(f"   -> {violation}")
    print("\n".join(small.trace))


if __name__ == "__main__":
    sys.exit(main())
