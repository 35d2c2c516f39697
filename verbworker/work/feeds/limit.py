"""The adaptive limit of jobs in flight: it grows by one at a time and is cut when the engine asks for less."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Limit:
    """Additive increase, multiplicative decrease, between 1 and `ceiling`."""

    ceiling: int
    value: float

    @classmethod
    def of(cls, ceiling: int) -> "Limit":
        """Start at the ceiling: a healthy engine needs no warm-up."""
        return cls(ceiling, float(ceiling))

    def whole(self) -> int:
        """Return the limit as a whole number."""
        return max(1, int(self.value))

    def increase(self, jobs: int) -> "Limit":
        """Return the limit after `jobs` were taken without complaint: about one more per full round."""
        return replace(self, value=min(float(self.ceiling), self.value + jobs / max(self.value, 1.0)))

    def cut(self) -> "Limit":
        """Return the limit after the engine asked for less."""
        return replace(self, value=max(1.0, self.value / 2))
