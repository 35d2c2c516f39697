"""The plan of a run, by its seed alone: what is asked for, how each entry must end, and which faults are made when."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Engine = Literal["embedded", "zeebe", "cluster"]

STEPS = {
    "parcel.send": ("parcel.book", "parcel.pack", "parcel.charge", "parcel.ship"),
    "parcel.claim": ("parcel.open-claim", "parcel.weigh-proof", "parcel.settle"),
    "parcel.customs": ("parcel.declare", "parcel.record-clearance"),
    "parcel.refund": ("parcel.take-back", "parcel.pay-back"),
    "parcel.import": (
        "parcel.book",
        "parcel.weigh-proof",
        "parcel.tick",
        "parcel.record-clearance",
        "parcel.charge",
        "parcel.ship",
    ),
    "parcel.audit": ("parcel.book",),
}
"""What every entry of a verb did that was not cancelled; `Entry.steps` adds what depends on answers."""

EXTERNAL = frozenset({"parcel.charge", "parcel.duty", "parcel.pay-back"})
WITH_PROOF = ("parcel.claim", "parcel.import")
WITH_GATE = ("parcel.customs", "parcel.import")
_SHARES = {
    "parcel.send": 26,
    "parcel.claim": 20,
    "parcel.customs": 20,
    "parcel.refund": 14,
    "parcel.import": 17,
    "parcel.audit": 3,
}


@dataclass(frozen=True, slots=True)
class Proof:
    """The message of an entry: when it is sent, counted from the start, and how often under the same id."""

    after: float
    copies: int


@dataclass(frozen=True, slots=True)
class Answers:
    """What people answer at the gate, all at once; one of them counts."""

    after: float
    given: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """When the entry is cancelled. Certain: what it waits for never comes, so it cannot end otherwise."""

    after: float
    is_certain: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One request and everything the world does about it."""

    number: str
    verb: str
    at: float
    pace: int
    refuse: bool
    starts: int
    asker_dies_after: float | None
    proof: Proof | None
    answers: Answers | None
    cancel: Cancel | None

    def ends(self, decision: str | None) -> frozenset[str]:
        """The states in which it may end, given what was decided at its gate. What was undone counts as failed."""
        if self.verb == "parcel.audit" or (self.cancel is not None and self.cancel.is_certain):
            return frozenset({"cancelled"})
        is_undone = decision == "refuse" if self.verb == "parcel.customs" else self.refuse
        usual = "failed" if is_undone else "completed"
        return frozenset({usual, "cancelled"} if self.cancel is not None else {usual})

    def steps(self, decision: str | None) -> frozenset[str]:
        """The steps of a run that was not cancelled, given what was decided at its gate."""
        more: tuple[str, ...] = ()
        if self.verb == "parcel.customs":
            more = ("parcel.duty",) if decision == "release" else ("parcel.withdraw",)
        if self.verb == "parcel.refund":
            more = ("parcel.hand-out",) if self.refuse else ("parcel.close-refund",)
        return frozenset(STEPS[self.verb] + more)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: when it begins, what it is, whom it hits, how long it lasts."""

    at: float
    kind: str
    target: str = ""
    seconds: float = 0.0
    detail: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run."""

    engine: Engine
    seed: int
    duration: float
    entries: tuple[Entry, ...]
    faults: tuple[Fault, ...]


def make_plan(engine: Engine, count: int, seed: int, *, workers: int, kinds: frozenset[str] | None = None) -> Plan:
    """Throw the dice of a run; with `kinds` there are faults of these kinds alone, as many as else."""
    dice = random.Random(f"{engine}/{seed}")
    duration = max(25.0, count * 0.22)
    faults = [*_worker_faults(dice, duration, workers, kinds), *_other_faults(dice, duration, engine, workers, kinds)]
    moments = [one.at for one in faults if one.kind in _BURSTS]
    entries = tuple(_entry(dice, f"{seed}-{number:04}", _moment(dice, duration, moments)) for number in range(count))
    return Plan(engine, seed, duration, entries, tuple(sorted(faults, key=lambda one: one.at)))


def _moment(dice: random.Random, duration: float, moments: Sequence[float]) -> float:
    """When an entry is asked for: at any time, or with many others just when answers are lost."""
    if moments and dice.random() < 0.35:
        return max(0.0, dice.choice(moments) + dice.uniform(-1.0, 0.6))
    return dice.uniform(0.0, duration * 0.85)


def short_plan(engine: Engine) -> Plan:
    """The run of the gate: few entries, and each kind of fault once."""
    count, duration = 44, 16.0
    dice = random.Random(f"short/{engine}")
    entries = [_entry(dice, f"short-{number:04}", _moment(dice, duration, (3.5, 6.0))) for number in range(count)]
    # Short faults first: what each of them holds up must be over soon after the last.
    faults = [
        Fault(2.0, "kill", "worker-0"),
        Fault(3.5, "network", "postgres/all", 0.6, {"mode": "lose answers"}),
        Fault(4.5, "stop", "worker-1", 7.0),
        Fault(5.5, "kill at start", "worker-2", 0.6),
        Fault(7.0, "redeploy"),
        Fault(8.0, "postgres immediate", "", 0.3),
        Fault(9.5, "term", "worker-0"),
        Fault(11.0, "terminate backends"),
        Fault(12.0, "kill edge", "console"),
        Fault(12.5, "network", "postgres/2", 2.0, {"mode": "hole", "then": "cut"}),
        Fault(14.0, "kill", "worker-1"),
    ]
    if engine == "zeebe":
        faults += [
            Fault(6.0, "network", "gateway/all", 0.6, {"mode": "lose answers"}),
            Fault(10.0, "kill broker", "", 0.0, {"partition": 1}),
        ]
    return Plan(engine, 0, duration, tuple(entries), tuple(sorted(faults, key=lambda one: one.at)))


def _entry(dice: random.Random, number: str, at: float) -> Entry:
    verb = dice.choices(list(_SHARES), list(_SHARES.values()))[0]
    wants_cancel = dice.random() < 0.15 and verb != "parcel.audit"
    is_certain = wants_cancel and verb in WITH_PROOF + WITH_GATE and dice.random() < 0.5
    proof = Proof(dice.choice((-2.0, 0.0, 0.5, 4.0)), dice.choice((1, 1, 2, 3)))
    given = dice.choice((("release",), ("refuse",), ("release", "refuse"), ("release", "release")))
    answers = Answers(dice.uniform(0.0, 5.0), given)
    return Entry(
        number=number,
        verb=verb,
        at=at,
        pace=6500 if dice.random() < 0.03 else dice.randrange(0, 300),
        refuse=verb == "parcel.refund" and dice.random() < 0.5,
        starts=2 if dice.random() < 0.2 else 1,
        asker_dies_after=dice.uniform(0.0, 0.15) if dice.random() < 0.05 else None,
        # Of an entry that waits for both and is surely cancelled, one never comes.
        proof=proof if verb in WITH_PROOF and not (is_certain and verb == "parcel.claim") else None,
        answers=answers if verb in WITH_GATE and not is_certain else None,
        cancel=Cancel(dice.uniform(0.0, 6.0), is_certain) if wants_cancel else None,
    )


_WORKER_FAULTS = {"kill": 40, "kill at start": 15, "stop": 25, "term": 12, "clock": 8}
_OTHER_FAULTS = {
    "postgres fast": 10,
    "postgres immediate": 10,
    "terminate backends": 14,
    "network": 28,
    "lost answers": 12,
    "kill edge": 8,
    "redeploy": 10,
}
# Many entries are asked for just then: a start whose answer is lost is sent again, and may race the first.
_BURSTS = frozenset({"lost answers", "starve raft", "kill broker"})
_BROKER_FAULTS = {"kill broker": 12, "starve raft": 8}
_CLUSTER_FAULTS = {"kill leader": 12, "cut off leader": 12, "freeze leader": 6, "starve raft": 4}


def _kept(weights: dict[str, int], kinds: frozenset[str] | None) -> dict[str, int]:
    return {kind: weight for kind, weight in weights.items() if kinds is None or kind in kinds}


def _worker_faults(dice: random.Random, duration: float, workers: int, kinds: frozenset[str] | None) -> list[Fault]:
    weights = _kept(_WORKER_FAULTS, kinds)
    faults: list[Fault] = []
    at = dice.uniform(3.0, 5.0)
    while weights and at < duration:
        target = f"worker-{dice.randrange(workers)}"
        kind = dice.choices(list(weights), list(weights.values()))[0]
        seconds = dice.choice((0.7, 1.5, 9.0)) if kind == "stop" else dice.uniform(0.3, 1.5)
        if kind == "clock":
            faults.append(Fault(at, kind, target, 4.0, {"offset": dice.choice((-3600, -30, 30, 3600))}))
        else:
            faults.append(Fault(at, kind, target, seconds))
        at += dice.uniform(1.2, 3.6)
    return faults


def _other_faults(
    dice: random.Random, duration: float, engine: Engine, workers: int, kinds: frozenset[str] | None
) -> list[Fault]:
    of_engine = {"embedded": {}, "zeebe": _BROKER_FAULTS, "cluster": _CLUSTER_FAULTS}[engine]
    weights = _kept({**_OTHER_FAULTS, **of_engine}, kinds)
    faults: list[Fault] = []
    at = dice.uniform(4.0, 7.0)
    while weights and at < duration:
        kind = dice.choices(list(weights), list(weights.values()))[0]
        seconds = dice.uniform(0.0, 2.5)
        detail: dict[str, object] = {}
        target = ""
        if kind == "network":
            target, seconds, detail = _network(dice, engine, workers)
        if kind == "lost answers":
            whom = dice.choice(("all", str(dice.randrange(workers))))
            target = f"{'postgres' if engine == 'embedded' else 'gateway'}/{whom}"
            seconds = 3.0
        if kind == "kill edge":
            target = dice.choice(("console", "ingress"))
        if kind in ("cut off leader", "freeze leader"):
            seconds = dice.uniform(3.0, 8.0)
        if kind in ("kill leader", "cut off leader", "freeze leader", "starve raft"):
            detail = {"partition": dice.randrange(1, 4) if engine == "cluster" else 1}
        faults.append(Fault(at, kind, target, seconds, detail))
        at += dice.uniform(2.5, 6.0)
    return faults


def _network(dice: random.Random, engine: Engine, workers: int) -> tuple[str, float, dict[str, object]]:
    side = "postgres" if engine == "embedded" else dice.choice(("postgres", "gateway"))
    whom = dice.choice(("all", *(str(number) for number in range(workers)), "edge"))
    # Lost answers are the meanest: what was asked for happened, and is asked for again.
    mode = dice.choice(("cut", "delay", "lossy", "hole", "lose answers", "lose answers"))
    seconds = {"cut": 0.0, "delay": 3.0, "lossy": 3.0, "hole": dice.uniform(1.0, 7.0), "lose answers": 1.0}[mode]
    return f"{side}/{whom}", seconds, {"mode": mode, "delay": 0.15, "then": dice.choice(("resume", "cut"))}
