"""What a seed decides: each fault on its own, so that one can be taken out and the others stay as they are.

A decision has a site, where it is asked for, and the number of times that site was asked before. It depends on
these and on the seed only, not on what was decided elsewhere. What was decided against the ordinary is recorded; a
replay is given the list, and everything that is not on it goes well.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from random import Random
from zlib import crc32

_MASK = (1 << 64) - 1
_UNIT = 1.0 / (1 << 32)


@dataclass(frozen=True, slots=True)
class Fault:
    """One decision against the ordinary: where, the how-manieth time there, what, and how much of it."""

    site: str
    number: int
    kind: str
    amount: float

    @property
    def key(self) -> tuple[str, int]:
        """What a replay knows it by."""
        return self.site, self.number

    def __str__(self) -> str:
        amount = f" {self.amount:.3f}" if self.amount else ""
        return f"{self.site}#{self.number}: {self.kind}{amount}"


@dataclass
class Decisions:
    """The decisions of one schedule."""

    seed: int
    only: "frozenset[tuple[str, int]] | None" = None
    is_calm: bool = False  # every call takes the same time
    faults: list[Fault] = field(default_factory=list)
    is_over: bool = False  # no fault begins any more
    _asked: dict[str, int] = field(default_factory=dict)
    _sites: dict[str, int] = field(default_factory=dict)

    def dice(self, name: str) -> Random:
        """Dice for what is decided once, before anything runs."""
        return Random(f"{self.seed}:{name}")

    def _bits(self, site: str, number: int) -> int:
        place = self._sites.get(site)
        if place is None:
            place = self._sites[site] = crc32(site.encode())
        bits = hash((self.seed, place, number)) & _MASK
        bits = ((bits ^ (bits >> 33)) * 0xFF51AFD7ED558CCD) & _MASK
        bits = ((bits ^ (bits >> 33)) * 0xC4CEB9FE1A85EC53) & _MASK
        return bits ^ (bits >> 33)

    def latency(self, site: str, *, least: float = 0.001, spread: float = 0.02) -> float:
        """How long a call takes: most are quick, a few take several times as long."""
        if self.is_calm:
            return least
        number = self._asked[site] = self._asked.get(site, 0) + 1
        share = (self._bits(site, number) & 0xFFFFFFFF) * _UNIT
        return least + spread * share * share * share

    def share(self, site: str) -> float:
        """A number between 0 and 1, for choices among things that are all ordinary."""
        number = self._asked[site] = self._asked.get(site, 0) + 1
        return (self._bits(site, number) & 0xFFFFFFFF) * _UNIT

    def fault(self, site: str, kinds: Sequence[tuple[str, float, float]]) -> Fault | None:
        """What goes wrong here this time, out of (kind, chance, most of it); mostly nothing does."""
        if not kinds:
            return None
        asking = f"!{site}"
        number = self._asked[asking] = self._asked.get(asking, 0) + 1
        if self.is_over or (self.only is not None and (site, number) not in self.only):
            return None
        bits = self._bits(asking, number)
        share = (bits & 0xFFFFFFFF) * _UNIT
        for kind, chance, most in kinds:
            if share < chance:
                fault = Fault(site, number, kind, most * (bits >> 32) * _UNIT)
                self.faults.append(fault)
                return fault
            share -= chance
        return None

    def planned(self, fault: Fault) -> bool:
        """Whether something decided beforehand happens; it is recorded as a fault."""
        if self.only is not None and fault.key not in self.only:
            return False
        self.faults.append(fault)
        return True


def keys(faults: Collection[Fault]) -> "frozenset[tuple[str, int]]":
    """What a replay is given."""
    return frozenset(fault.key for fault in faults)
