"""Rate limits per sender, so that one cannot crowd out the others."""

from collections import OrderedDict
from dataclasses import dataclass

_MOST_SENDERS = 10_000  # names of senders come from tokens too, so their number is not ours to choose


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Rates:
    """A continuously refilled token bucket per sender; when it is empty, the sender learns when to retry."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait(self, sender: str, now: float) -> float:
        """Take a token. Returns 0, or the seconds until there is one."""
        bucket = self._buckets.get(sender)
        if bucket is None:
            bucket = self._buckets[sender] = _Bucket(float(self._burst), now)
            if len(self._buckets) > _MOST_SENDERS:
                # The sender that was quiet longest has a full bucket by now, or nearly.
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(sender)
        elapsed = max(0.0, now - bucket.at)
        bucket.tokens = min(float(self._burst), bucket.tokens + elapsed * self._per_second)
        bucket.at = now
        if bucket.tokens < 1.0:
            return (1.0 - bucket.tokens) / self._per_second
        bucket.tokens -= 1.0
        return 0.0

    def charge(self, sender: str, requests: float) -> None:
        """Charge an admitted request for what it costs beyond one, as a debt if need be: the next one waits."""
        if requests > 1.0 and (bucket := self._buckets.get(sender)) is not None:
            # No deeper than a burst: one large body may delay its sender, not lock it out.
            bucket.tokens = max(bucket.tokens - (requests - 1.0), -float(self._burst))
