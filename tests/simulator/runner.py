"""Runs schedules by seed, and shrinks those that fail."""

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.simulator.decisions import Fault, keys
from tests.simulator.oracle import Violation, judge
from tests.simulator.world import Options, World

_COLLECT_EVERY = 50


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one schedule went."""

    seed: int
    violations: tuple[Violation, ...]
    faults: tuple[Fault, ...]
    trace: tuple[str, ...]
    steps: int
    seconds: float  # of virtual time
    classes: frozenset[str]  # of faults it might have
    has_foreign_verdict: bool  # a job got the verdict of another instance's job

    @property
    def names(self) -> frozenset[str]:
        """The promises it broke."""
        return frozenset(violation.name for violation in self.violations)


def play(seed: int, options: Options) -> Outcome:
    """Run one schedule."""
    world = World(seed, options)
    # What is cut off in the middle complains when it is collected; nobody waits for it any more.
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    collects = gc.isenabled()
    gc.disable()
    try:
        world.run()
        return Outcome(
            seed,
            tuple(judge(world)),
            tuple(world.decisions.faults),
            tuple(world.trace),
            world.loop.steps,
            world.loop.now,
            world.plan.classes,
            world.engine.has_foreign_verdict,
        )
    finally:
        del world
        if seed % _COLLECT_EVERY == 0:
            gc.collect()
        if collects:
            gc.enable()
        sys.unraisablehook = hook


def shrink(seed: int, options: Options, names: frozenset[str], *, most: int = 400) -> Outcome:
    """The fewest faults of a seed that break one of these promises still, traced."""
    tries = 0

    def fails(faults: list[Fault], is_calm: bool) -> bool:
        nonlocal tries
        tries += 1
        if tries > most:
            return False
        tried = play(seed, replace(options, only=keys(faults), is_calm=is_calm))
        return bool(tried.names & names)

    faults = list(play(seed, options).faults)
    is_calm = fails(faults, True)
    faults = _fewer(faults, lambda some: fails(some, is_calm))
    if not is_calm and fails(faults, True):
        is_calm = True
        faults = _fewer(faults, lambda some: fails(some, True))
    return play(seed, replace(options, only=keys(faults), is_calm=is_calm, is_traced=True))


def _fewer(faults: list[Fault], fails: Callable[[list[Fault]], bool]) -> list[Fault]:
    """Delta debugging: leave out ever smaller parts for as long as it still fails."""
    parts = 2
    while len(faults) > 1:
        size = max(1, len(faults) // parts)
        for start in range(0, len(faults), size):
            rest = faults[:start] + faults[start + size :]
            if rest and fails(rest):
                faults, parts = rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(faults), parts * 2)
    return faults
