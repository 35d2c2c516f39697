"""Free connections of a pool, kept for the next statement: the pool's way in and out costs a task each time."""

from collections.abc import Callable
from time import monotonic
from typing import Any

# As long as opening one may take.
_LONGEST_WAIT_S = 10
# The pool closes connections that were idle for a minute, before a proxy drops them.
_STALE_S = 45.0


class SpareConnections:
    """Takes connections from a pool and gives them back, or keeps them as spare ones where nothing has to be reset.

    While a task waits for the pool, none is kept: the pool serves its tasks in their order.
    """

    def __init__(self, pool: Any, is_open: Callable[[Any], bool], *, keeps: bool) -> None:
        self._pool = pool
        self._is_open = is_open
        self._keeps = keeps
        self._spare: list[tuple[Any, float]] = []
        self._waiting = 0

    async def take(self) -> Any:
        """Return a connection that is free; raises what the pool raises."""
        while self._spare:
            connection, since = self._spare.pop()
            if not self._is_open(connection):
                continue  # the pool has it back
            if monotonic() - since < _STALE_S:
                return connection
            connection.terminate()
            await self._pool.release(connection)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=_LONGEST_WAIT_S)
        finally:
            self._waiting -= 1

    async def give_back(self, connection: Any, *, is_clean: bool) -> None:
        """Give a connection back; a clean one has ended its statements and left nothing behind."""
        is_free = is_clean and self._is_open(connection) and not connection.is_in_transaction()
        if not (is_free and self._keeps) or self._waiting:
            await self._pool.release(connection)
            return
        now = monotonic()
        self._spare.append((connection, now))
        # The last one is taken first, so the first one is not needed any more.
        if now - self._spare[0][1] > _STALE_S:
            await self._pool.release(self._spare.pop(0)[0])

    async def close(self) -> None:
        """Give the spare ones back."""
        while self._spare:
            await self._pool.release(self._spare.pop()[0])
