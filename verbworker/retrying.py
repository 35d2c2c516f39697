"""Retry policies: which errors are retried, and how long to pause before the next try."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from verbworker.errors import EngineError, EngineUnavailable, StoreConflict, StoreError, StoreUnavailable, leaves

# TimeoutError is an OSError. Both mean a connection error that was not translated.
_OUTAGES = (StoreError, EngineError, OSError)
_AWAY = (StoreUnavailable, StoreConflict, EngineUnavailable, OSError)


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long to pause after each failure in a row: doubled from `first` to `cap`, half of it random."""

    first: float
    cap: float

    def after(self, failures: int) -> float:
        """Return the seconds to pause after this many failures in a row."""
        return backoff(failures - 1, random.random(), first=self.first, cap=self.cap)

    def within(self, longest: float) -> "Pauses":
        """Return a copy with a cap of at most `longest`."""
        return Pauses(min(self.first, longest), min(self.cap, longest))


SERVICE = Pauses(first=0.05, cap=5.0)
"""For a background service: quick after a dropped connection, gentle with a server that restarts."""

WRITER = Pauses(first=0.01, cap=0.25)
"""For a writer that jobs wait for: each job pauses by itself, so the writer hardly does."""


def is_outage(error: BaseException) -> bool:
    """Return whether an error only means that Postgres or the engine did not do what it was asked.

    A group counts when all its members do, at any depth. Everything else is a bug.
    """
    return all(isinstance(leaf, _OUTAGES) for leaf in leaves(error))


def is_away(error: BaseException) -> bool:
    """Return whether an outage may affect every item, as opposed to a refusal of this item alone."""
    return all(isinstance(leaf, _AWAY) for leaf in leaves(error))


def is_collision(error: BaseException) -> bool:
    """Return whether an error only means that two transactions collided, which is not worth logging."""
    return all(isinstance(leaf, StoreConflict) for leaf in leaves(error))


async def until_no_collision(work: Callable[[], Awaitable[None]], pauses: Pauses = WRITER) -> None:
    """Run a transaction again while it only met others; whoever calls it bounds the time."""

    def pause(state: RetryCallState) -> float:
        return pauses.after(state.attempt_number)

    async for attempt in AsyncRetrying(wait=pause, retry=retry_if_exception(is_collision), reraise=True):
        with attempt:
            await work()


async def wait_out(
    error: Exception,
    work: Callable[[], Awaitable[None]],
    *,
    pauses: Pauses,
    failed: Callable[[BaseException], None],
) -> None:
    """Repeat `work`, which just failed with the outage `error`, until it succeeds.

    `failed` is called before each pause. Any other error is raised.
    """
    earlier = [error]

    async def attempt() -> None:
        # The failure that led here counts as the first attempt. Work that succeeds immediately needs no retry object.
        if earlier:
            raise earlier.pop()
        await work()

    def report(state: RetryCallState) -> None:
        if state.outcome is not None and (reason := state.outcome.exception()) is not None:
            failed(reason)

    retrying = AsyncRetrying(
        retry=retry_if_exception(is_outage),
        wait=lambda state: pauses.after(state.attempt_number),
        before_sleep=report,
        reraise=True,
    )
    await retrying(attempt)


def backoff(failures: int, jitter: float, *, first: float = 0.05, cap: float = 5.0) -> float:
    """Return the seconds to wait after `failures` in a row: doubled each time, capped, spread by `jitter` (0 to 1)."""
    # Half of it is fixed: full jitter would sometimes not wait at all.
    longest = min(cap, first * 2.0 ** min(failures, 30))
    return longest * (0.5 + 0.5 * jitter)
