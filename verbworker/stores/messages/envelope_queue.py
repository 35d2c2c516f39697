"""The queue table: envelopes that programs of this database leave in their own transactions."""

from asyncio import sleep
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from verbworker.contract.consumer import Delivery
from verbworker.stores.database import Database
from verbworker.stores.sql import query

_LOOK_EVERY = 0.5  # seconds, while the queue is empty


class EnvelopeQueue:
    """A consumer of the queue table. Any number of them may run: each envelope is one's at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def consume(self) -> AsyncIterator[Delivery]:
        """Yield envelopes, oldest first. One that is acknowledged is deleted; any other is back in its place."""
        while True:
            async with AsyncExitStack() as taken:
                connection = await taken.enter_async_context(self._database.transaction())
                row = await connection.fetchrow(query("envelope_queue", "take"))
                if row is not None:
                    acknowledgements: list[None] = []

                    async def acknowledge(
                        taken: AsyncExitStack = taken, acknowledgements: list[None] = acknowledgements
                    ) -> None:
                        await taken.aclose()  # commits
                        acknowledgements.append(None)

                    yield Delivery(row["envelope"], acknowledge, row["tenant_id"])
                    if not acknowledgements:
                        raise RuntimeError("the next envelope was asked for before this one was acknowledged")
            if row is None:
                await sleep(_LOOK_EVERY)
