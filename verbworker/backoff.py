"""How long to wait before the next try: doubled each time, capped, and spread so that workers do not march in step."""


def backoff(failures: int, jitter: float, *, first: float = 0.05, cap: float = 5.0) -> float:
    """Seconds to wait after `failures` tries in a row; `jitter` between 0 and 1 is the caller's dice."""
    # Half of it is fixed: full jitter would sometimes not wait at all.
    longest = min(cap, first * 2.0 ** min(failures, 30))
    return longest * (0.5 + 0.5 * jitter)
