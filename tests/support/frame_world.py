"""Where the frame machine lives: a real database, and a loop that a synchronous machine can use."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar
from uuid import uuid4

from tests.support.frames import ENGINE
from verbworker.stores.database import Connection, Database, translate_errors
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.leases import ExpiredLeases

T = TypeVar("T")
HOUR = timedelta(hours=1)


class OneConnection(Database):
    """A database that keeps its one connection: a machine of ten thousand steps need not clean it after each."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, size=1)
        self._kept: Any = None

    async def keep(self) -> None:
        """Open the connection."""
        await self.__aenter__()
        self._kept = await self._pool.acquire()

    async def give_up(self) -> None:
        """Close the connection."""
        await self._pool.release(self._kept)
        await self.__aexit__(None, None, None)

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Connection]:
        """The connection; each statement commits by itself."""
        with translate_errors():
            yield self._kept

    @asynccontextmanager
    async def transaction(self, *, is_snapshot: bool = False) -> AsyncIterator[Connection]:
        """The connection inside one transaction."""
        with translate_errors():
            async with self._kept.transaction():
                yield self._kept


class World:
    """A real database, three worker boots, and a loop that a synchronous machine can use."""

    def __init__(self, dsn: str) -> None:
        self._loop = asyncio.new_event_loop()
        self.database = OneConnection(dsn)
        self.run(self.database.keep())
        self.run(self.database.execute("CREATE TABLE effect (job_key bigint NOT NULL)"))
        self.frames = [Frames(self.database, engine_id=ENGINE, owner=uuid4(), lease=HOUR) for _ in range(3)]
        self.leases = [ExpiredLeases(self.database, frames, grace=timedelta(0)) for frames in self.frames]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do one thing to its end."""
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        """Give everything back."""
        self.run(self.database.give_up())
        self._loop.close()
