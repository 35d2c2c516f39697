"""Retry policies: which errors are worth another try, how long to pause before it, and when to give up."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from verbworker.errors import (
    Backpressure,
    EngineError,
    EngineUnavailable,
    NotFound,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    leaves,
)

Answer = TypeVar("Answer")

# TimeoutError is an OSError. Both mean a connection error that was not translated.
_OUTAGES = (StoreError, EngineError, OSError)
_AWAY = (StoreUnavailable, StoreConflict, EngineUnavailable, OSError)


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


def is_database_away(error: BaseException) -> bool:
    """Return whether Postgres did not answer, or would answer the same statement if it came again."""
    return isinstance(error, StoreUnavailable | StoreConflict)


def is_engine_away(error: BaseException) -> bool:
    """Return whether the engine did not answer."""
    return isinstance(error, EngineUnavailable)


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long to pause after each failure in a row: doubled from `first` to `cap`, half of it random."""

    first: float = 0.05
    cap: float = 5.0

    def after(self, failures: int) -> float:
        """Return the seconds to pause after this many failures in a row."""
        return backoff(failures - 1, random.random(), first=self.first, cap=self.cap)

    def within(self, longest: float) -> "Pauses":
        """Return a copy with a cap of at most `longest`."""
        return Pauses(min(self.first, longest), min(self.cap, longest))


def spread(seconds: float, by: float) -> float:
    """Return a pause up to the share `by` shorter or longer, so that workers started together do not act together."""
    return seconds * (1 + by * (2 * random.random() - 1))


def backoff(failures: int, jitter: float, *, first: float = 0.05, cap: float = 5.0) -> float:
    """Return the seconds to wait after `failures` in a row: doubled each time, capped, spread by `jitter` (0 to 1)."""
    # Half of it is fixed: full jitter would sometimes not wait at all.
    longest = min(cap, first * 2.0 ** min(failures, 30))
    return longest * (0.5 + 0.5 * jitter)


@dataclass(frozen=True, slots=True)
class Retries:
    """Repeats work while its error is worth it, at most `tries` times; the last error is raised."""

    is_worth: Callable[[BaseException], bool]
    pauses: Pauses
    tries: float = inf

    async def run(
        self,
        work: Callable[[], Awaitable[Answer]],
        *,
        within: float = inf,
        failed: Callable[[BaseException], None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> Answer:
        """Return what `work` returns, once it succeeds. `failed` is called before each pause.

        `within` that many seconds of the loop's clock a failure leads to another try.
        """
        clock = asyncio.get_running_loop().time
        give_up = within if within == inf else clock() + within
        try:
            return await work()  # nearly always: such work needs no retry object
        except Exception as error:
            if not self.is_worth(error):
                raise
            earlier = [error]

        async def attempt() -> Answer:
            if earlier:
                raise earlier.pop()
            return await work()

        def report(state: RetryCallState) -> None:
            if failed is not None and state.outcome is not None and (reason := state.outcome.exception()) is not None:
                failed(reason)

        retrying = AsyncRetrying(
            retry=retry_if_exception(self.is_worth),
            stop=lambda state: state.attempt_number >= self.tries or clock() >= give_up,
            wait=lambda state: self.pauses.after(state.attempt_number),
            before_sleep=report,
            sleep=sleep,
            reraise=True,
        )
        answer: Answer = await retrying(attempt)
        return answer


# ---- pauses without a loop of their own ------------------------------------------------------------------------------

SERVICE = Pauses()
"""For a background service: quick after a dropped connection, gentle with a server that restarts."""

FEED = Pauses(first=0.1)
"""For a feed that the engine refuses: gentler, because every verb has a feed of its own."""

REST_POLLS = Pauses(cap=1.0)
"""For polls over REST while there is no job: a job waits a second at most, an idle verb costs one or two a second."""

WRITER = Pauses(first=0.01, cap=0.25)
"""For a writer that jobs wait for: each job pauses by itself, so the writer hardly does."""

STORED = Pauses(first=1.0, cap=30.0)
"""For an item whose next try is stored as a time: any worker's relay may make it."""

ENTRY_LOOKS = Pauses(cap=1.0)
"""For looks at a running entry: a short case is seen to end soon, a long one costs a statement a second."""

MESSAGE_LOOKS = Pauses(first=0.2, cap=10.0)
"""For a message that came before its case: the cap is how long the case may wait for it."""

MESSAGE_SENDS = Pauses(first=0.2, cap=30.0)
"""For a message that the engine did not take: the cap is how long after an outage it may be late."""

# ---- policies --------------------------------------------------------------------------------------------------------

DATABASE = Retries(is_database_away, Pauses())
"""For a job that can do nothing else until Postgres answers. A deadline, if any, comes from the job's timeout."""

SERVER_START = Retries(lambda error: isinstance(error, StoreUnavailable) and not error.is_wrong, Pauses())
"""For a server that starts before its Postgres."""

ENGINE = Retries(is_engine_away, Pauses())
"""For a command that the engine must get. The caller states how long to insist before a relay takes over."""

BACKPRESSURE = Retries(lambda error: isinstance(error, Backpressure), Pauses(first=0.1, cap=1.0), tries=4)
"""For a request that the cluster rejected unread because it is busy: four tries pause for 0.7 seconds at most."""

DATABASE_OR_ENGINE = Retries(lambda error: is_database_away(error) or is_engine_away(error), Pauses())
"""For a question that either may answer."""

DEPLOYMENT = Retries(lambda error: isinstance(error, NotFound), Pauses())
"""For a definition that its deployer is just about to record."""

ENTRY_READ = Retries(SERVER_START.is_worth, Pauses(cap=1.0))
"""For whoever waits for the end of an entry: the entry goes on after an outage, and so does the wait."""

COLLISION = Retries(is_collision, WRITER)
"""For a transaction that meets others. The caller bounds the time."""

TRANSACTION = Retries(is_collision, Pauses(first=0.01), tries=8)
"""For a transaction that a person or a command waits for: eight tries pause for 1.3 seconds at most."""

VERB_TRANSACTION = Retries(is_database_away, Pauses(first=0.005), tries=5)
"""For a verb's own transaction: each try runs the verb again."""
