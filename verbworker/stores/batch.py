"""Batches: writes that are already waiting share one statement; a batch never waits for more to arrive."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from verbworker.background.poll_loop import PollLoop
from verbworker.background.service_health import ServiceHealth
from verbworker.errors import StoreConflict, StoreError, StoreUnavailable
from verbworker.retrying import WRITER, is_outage

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Waiting = tuple[Item, asyncio.Future[Answer]]


class Batch(Generic[Item, Answer]):
    """Turns concurrent single-row writes into multi-row statements.

    Items queue up while a statement runs; the next statement takes all of them. A single item is written immediately.
    Two items with the same key never share a statement. The answer for a caller that was cancelled goes to `unread`.
    Callers receive every failure; an outage also counts as a failure of the service.
    """

    def __init__(
        self,
        write: Callable[[list[Item]], Awaitable[list[Answer]]],
        key: Callable[[Item], Hashable],
        *,
        name: str = "batch",
        size: int = 64,
        unread: Callable[[Answer], None] | None = None,
    ) -> None:
        self._write = write
        self._key = key
        self._size = size
        self._unread = unread
        self._waiting: deque[Waiting[Item, Answer]] = deque()
        self._loop = PollLoop(name, self._write_next, every=None, pauses=WRITER)
        self._stopped = False

    @property
    def name(self) -> str:
        """Return the name of its service."""
        return self._loop.name

    @property
    def health(self) -> ServiceHealth:
        """Return the health of its service."""
        return self._loop.health

    async def add(self, item: Item) -> Answer:
        """Write one item and return the database's answer for it."""
        if self._stopped:
            raise StoreUnavailable("stopped before it was written")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        self._loop.poke()
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                self._drop(answer.result())
            raise

    def _drop(self, answer: Answer) -> None:
        """Pass on the answer of a caller that was cancelled."""
        if self._unread is not None:
            self._unread(answer)

    async def run(self) -> None:
        """Write until cancelled, then fail all waiting callers. May be run again."""
        self._stopped = False
        try:
            await self._loop.run()
        finally:
            self._stopped = True
            _fail(list(self._waiting), StoreUnavailable("stopped before it was written"))
            self._waiting.clear()

    async def _write_next(self) -> int:
        batch = self._take()
        if batch:
            await self._flush(batch)
        return len(batch)

    def _take(self) -> list[Waiting[Item, Answer]]:
        taken: dict[Hashable, Waiting[Item, Answer]] = {}
        later: list[Waiting[Item, Answer]] = []
        while self._waiting and len(taken) < self._size:
            waiting = self._waiting.popleft()
            key = self._key(waiting[0])
            if key in taken:
                later.append(waiting)
            elif not waiting[1].cancelled():
                taken[key] = waiting
        self._waiting.extendleft(reversed(later))
        return list(taken.values())

    async def _flush(self, batch: list[Waiting[Item, Answer]]) -> None:
        try:
            await self._answer(batch)
        except StoreUnavailable as error:
            _fail(batch, error)
            raise
        except Exception as error:
            await self._isolate(batch, error)
        finally:
            # Callers are left only after a cancellation. The statement may have run, as after a lost connection.
            _fail(batch, StoreUnavailable("stopped while writing"))

    async def _answer(self, batch: list[Waiting[Item, Answer]]) -> None:
        answers = await self._write([item for item, _ in batch])
        for (_, waiter), answer in zip(batch, answers, strict=True):
            if not waiter.done():
                waiter.set_result(answer)
            elif waiter.cancelled():
                self._drop(answer)

    async def _isolate(self, batch: list[Waiting[Item, Answer]], error: Exception) -> None:
        """Write the rows one by one, so that one bad row does not fail the others."""
        if len(batch) == 1 and not isinstance(error, StoreConflict):
            self._refuse(batch[0], error)
            return
        for waiting in batch:
            try:
                await self._answer([waiting])
            except Exception as own:
                self._refuse(waiting, own)

    def _refuse(self, waiting: Waiting[Item, Answer], error: Exception) -> None:
        if isinstance(error, StoreError):
            _fail([waiting], error)
            return
        if not is_outage(error):
            self.health.note_skip(error)
        # A bug may strike before or after the write, so it is unknown whether the row was written.
        _fail([waiting], StoreUnavailable(f"not written: {type(error).__name__}"))


def _fail(batch: list[Waiting[Item, Answer]], error: StoreError) -> None:
    for _, waiter in batch:
        if not waiter.done():
            waiter.set_exception(error)
