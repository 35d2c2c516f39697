"""Rounds: how a service that works something off comes back to it, until it is cancelled."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from verbworker.errors import StoreError

_log = logging.getLogger(__name__)


class Rounds:
    """Drains what is due: at once when poked, now and then otherwise. A database that is away is waited for."""

    def __init__(self, what: str, *, every: float) -> None:
        self._what = what
        self._every = every
        self._poked = asyncio.Event()

    def poke(self) -> None:
        """There is something new; do not wait for the next look."""
        self._poked.set()

    async def run(
        self, drain: Callable[[], Awaitable[int]], chore: Callable[[], Awaitable[object]], *, chore_every: float
    ) -> None:
        """Drain until nothing is due, and do the chore once in a while."""
        clock = asyncio.get_running_loop().time
        chore_at = clock()
        while True:
            self._poked.clear()
            try:
                while await drain():
                    pass
                if clock() >= chore_at:
                    chore_at = clock() + chore_every
                    await chore()
            except StoreError as error:
                _log.warning("waiting for the database", extra={"what": self._what, "reason": str(error)})
            try:
                await asyncio.wait_for(self._poked.wait(), self._every * (0.5 + random.random()))
            except TimeoutError:
                continue
