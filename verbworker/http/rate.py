"""Rate limits per sender, so that one cannot crowd out the others, and a brake for guessed credentials."""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from verbworker.http.connections import Network, client_address

_MOST_SENDERS = 10_000  # names of senders come from tokens too, so their number is not ours to choose


_FAILURES_PER_SECOND, _FAILURES = 0.5, 20  # an office may share an address, and a guesser gains nothing


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


class GuessBrake:
    """Slows down clients that send wrong credentials. A right one is accepted whatever came before it."""

    def __init__(self, proxies: Sequence[Network] = ()) -> None:
        self._proxies = proxies
        self._rates = Rates(_FAILURES_PER_SECOND, _FAILURES)

    def note_failure(self, request: Request) -> float:
        """Count a wrong credential of a client; return 0, or the seconds after which it may send another."""
        return self._rates.wait(self.client_of(request), time.monotonic())

    def client_of(self, request: Request) -> str:
        """Return the address of the client, as the declared proxies tell it."""
        peer = request.client.host if request.client else ""
        return client_address(peer, request.headers.getlist("x-forwarded-for"), self._proxies)
