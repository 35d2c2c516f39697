"""Which faults a schedule may have: every seed draws some classes of them, and how many."""

from dataclasses import dataclass, field
from random import Random

Kinds = tuple[tuple[str, float, float], ...]

ALL = frozenset(
    {
        "kill",  # a worker dies before or after a call
        "freeze",  # a worker stands still before or after a call
        "store lost",  # a statement or its answer is lost
        "store down",  # the database is away for a while
        "store slow",
        "control away",  # one worker's claims and heartbeats do not reach the database, its verbs do
        "engine lost",  # a command or its answer is lost
        "engine slow",
        "engine down",
        "start lost",  # the answer to a start is lost
        "timeout lost",  # the engine forgets when a job's time is over
        "timeout early",  # the engine hands a job out again while a worker has it
        "late",  # a delivery lies about before its worker sees it
        "crash",  # the engine restarts
        "records lost",  # and does its last commands again under other keys
        "commands lost",  # and forgets its last commands
        "restored",  # and comes back from a backup
        "keys reused",  # and gives old keys to other things
        "verb fails",
        "cancel",
        "twice",  # people and callers do everything twice
    }
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The faults of one schedule: chances by call, and what happens at which time."""

    classes: frozenset[str]
    store: Kinds = ()
    engine: Kinds = ()
    start: Kinds = ()
    timeout: Kinds = ()
    late: Kinds = ()
    verb: Kinds = ()
    timed: tuple[tuple[float, str, float], ...] = ()  # when, what, how much


@dataclass(slots=True)
class _Draw:
    dice: Random
    classes: frozenset[str]
    store: list[tuple[str, float, float]] = field(default_factory=list)
    engine: list[tuple[str, float, float]] = field(default_factory=list)

    def chance(self) -> float:
        """A few percent of calls, in some schedules fewer."""
        return self.dice.choice((0.004, 0.012, 0.03, 0.08))

    def both(self, kind: str, most: float) -> None:
        """A fault that may happen at any call, before or after it took effect."""
        for place in ("before", "after"):
            chance = self.chance() / 2
            self.store.append((f"{kind} {place}", chance, most))
            self.engine.append((f"{kind} {place}", chance, most))


def draw(dice: Random, allowed: frozenset[str]) -> Plan:
    """The plan of a schedule. Few classes at a time: faults that come together hide one another."""
    wanted = dice.choice((1, 2, 2, 3, 3, 4, 6))
    classes = frozenset(dice.sample(sorted(allowed), min(wanted, len(allowed))))
    drawing = _Draw(dice, classes)
    if "kill" in classes:
        drawing.both("kill", 0.0)
    if "freeze" in classes:
        drawing.both("freeze", dice.choice((3.0, 45.0, 100.0)))
    if "store lost" in classes:
        drawing.store += [("refused", drawing.chance(), 0.0), ("lost", drawing.chance(), 0.0)]
    if "store slow" in classes:
        drawing.store.append(("slow", drawing.chance(), 25.0))
    if "engine lost" in classes:
        drawing.engine += [("refused", drawing.chance(), 0.0), ("lost", drawing.chance() * 2, 0.0)]
    if "engine slow" in classes:
        drawing.engine.append(("slow", drawing.chance(), 40.0))
    lost = dice.choice((0.3, 0.7)) if "start lost" in classes else 0.0
    return Plan(
        classes,
        store=tuple(drawing.store),
        engine=tuple(drawing.engine),
        start=(("lost", lost, 0.0),) if lost else (),
        timeout=_timeouts(dice, classes),
        late=(("late", drawing.chance() * 3, 70.0),) if "late" in classes else (),
        verb=(("fails", 0.2, 0.0),) if "verb fails" in classes else (),
        timed=_timed(dice, classes),
    )


def _timeouts(dice: Random, classes: frozenset[str]) -> Kinds:
    kinds = []
    if "timeout lost" in classes:
        kinds.append(("timeout lost", dice.choice((0.1, 0.3)), 0.0))
    if "timeout early" in classes:
        kinds.append(("timeout early", dice.choice((0.1, 0.3)), dice.choice((0.05, 2.0, 40.0))))
    return tuple(kinds)


def _timed(dice: Random, classes: frozenset[str]) -> tuple[tuple[float, str, float], ...]:
    """Outages and crashes, most of them while the first steps run."""
    away = [name for name in ("store down", "engine down") if name in classes]
    timed: list[tuple[float, str, float]] = [(_moment(dice), name, dice.uniform(0.1, 12.0)) for name in away]
    if "control away" in classes:
        timed.append((dice.uniform(0.0, 4.0), "control away", dice.uniform(20.0, 60.0)))
    losing = sorted(classes & {"records lost", "commands lost", "restored"})
    if "crash" in classes or losing or "keys reused" in classes:
        for _ in range(dice.choice((1, 1, 2))):
            how = dice.choice(losing) if losing else "records lost" if "keys reused" in classes else "crash"
            reuse = " and keys reused" if "keys reused" in classes and dice.random() < 0.5 else ""
            lost = 0.0 if how == "crash" else float(dice.choice((1, 1, 2, 2, 3, 5, 8)))
            timed.append((_moment(dice), f"{how}{reuse}", lost))
    return tuple(sorted(timed))


def _moment(dice: Random) -> float:
    return dice.choice((dice.uniform(0.0, 0.6), dice.uniform(0.0, 3.0), dice.uniform(0.0, 25.0)))
