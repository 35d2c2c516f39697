"""The load decides between push and pull: pushed jobs arrive soonest, polled jobs cost the engine half as much."""

from dataclasses import dataclass, replace

BUSY_RATE = 100.0
IDLE_RATE = 50.0
_HALF_LIFE = 0.5


@dataclass(frozen=True, slots=True)
class FeedLoad:
    """The smoothed arrival rate of one verb's jobs, and whether it is high enough to poll."""

    rate: float = 0.0
    at: float = 0.0
    is_busy: bool = False

    def after(self, jobs: int, now: float) -> "FeedLoad":
        """Return the load after `jobs` arrived since the last update."""
        elapsed = max(now - self.at, 1e-3)
        weight = 0.5 ** (elapsed / _HALF_LIFE)
        rate = self.rate * weight + (jobs / elapsed) * (1 - weight)
        # Two thresholds, so that a rate between them does not switch back and forth.
        is_busy = rate > BUSY_RATE or (self.is_busy and rate > IDLE_RATE)
        return replace(self, rate=rate, at=now, is_busy=is_busy)
