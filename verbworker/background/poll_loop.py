"""The loop behind every background service: wait, work a batch, retry during an outage, report health."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Protocol, TypeVar, runtime_checkable

from verbworker.background.service_health import ServiceHealth
from verbworker.errors import EndedByBug
from verbworker.retrying import SERVICE, Pauses, Retries, is_away, is_outage, spread

Item = TypeVar("Item")
Result = TypeVar("Result")

# A service recovers within its own tick after an outage, but never retries more often than this.
_SHORTEST_CAP = 1.0
_AFTER_A_BUG = 0.5  # a bug that comes at once again must not fill the log


class Service(Protocol):
    """A task that runs beside the jobs until it is cancelled."""

    @property
    def name(self) -> str:
        """Return its name in logs, metrics and probes."""

    @property
    def health(self) -> ServiceHealth:
        """Return its health."""

    async def run(self) -> None:
        """Run until cancelled. Raises `EndedByBug` and nothing else."""


@runtime_checkable
class RunsServices(Protocol):
    """An engine with background services of its own."""

    @property
    def services(self) -> Sequence[Service]:
        """Return its services. They run while the engine is open."""


class PollLoop:
    """Works batches of one kind: immediately when poked, otherwise every few seconds.

    `work` handles one bounded batch and returns how many items it handled; it is called until nothing is left. With
    `every` None it is called only when poked. An outage of Postgres or the engine is waited out, however it is raised.
    Any other exception is a bug and ends the loop.

    Upkeep that reads whole tables starts after `first_after` seconds, and its chore one `chore_every` later: a worker
    that just started has jobs to do.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], Awaitable[int]],
        *,
        every: float | None,
        chore: Callable[[], Awaitable[object]] | None = None,
        chore_every: float | None = None,
        first_after: float = 0.0,
        pauses: Pauses = SERVICE,
    ) -> None:
        self.name = name
        self.health = ServiceHealth(name)
        self._work = work
        self._every = every
        self._chore = chore
        self._chore_every = chore_every or 0.0
        self._chore_at = 0.0
        self._first_after = first_after
        self._retries = Retries(is_outage, pauses if every is None else pauses.within(max(every, _SHORTEST_CAP)))
        self._poked = asyncio.Event()
        self._reported: Exception | None = None

    def poke(self) -> None:
        """Work the next batch now instead of at the next tick."""
        self._poked.set()

    def report(self, outage: Exception) -> None:
        """Note that an item of the batch failed because of an outage.

        The item schedules its own next try. The loop counts the batch as failed, logs that once a minute, and pauses.
        """
        self._reported = self._reported or outage

    async def run(self) -> None:
        """Work until cancelled. Raises `EndedByBug` and nothing else."""
        try:
            if self._first_after:
                self._chore_at = asyncio.get_running_loop().time() + self._chore_every
                await self._rest(self._first_after)
            while True:
                self._poked.clear()
                await self._retries.run(self._work_all, failed=self.health.note_outage)
                await self._rest(self._every)
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            # Raised by the work itself: it must not end the loop silently.
            raise self.health.note_end(error) from error
        except Exception as error:
            raise self.health.note_end(error) from error

    async def _work_all(self) -> None:
        is_more = True
        while is_more:
            self._reported = None
            is_more = await self._work() > 0
            # Between batches too: a service that is never idle must still do its chore.
            if self._chore is not None:
                await self._do_chore(self._chore)
            if self._reported is not None:
                raise self._reported
            self.health.note_success()

    async def _do_chore(self, chore: Callable[[], Awaitable[object]]) -> None:
        clock = asyncio.get_running_loop().time
        if clock() >= self._chore_at:
            await chore()
            self._chore_at = clock() + self._chore_every

    async def _rest(self, seconds: float | None) -> None:
        if seconds is None:
            await self._poked.wait()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(spread(seconds, 0.25)):
                await self._poked.wait()

    async def for_each(
        self, items: Iterable[Item], limit: int, work: Callable[[Item], Awaitable[Result]]
    ) -> list[Result]:
        """Work on items, at most `limit` at a time, and return the results of those that succeeded.

        A failing item neither stops the others nor raises. An outage is reported as by `report`. A refusal or a bug is
        logged and leaves its item to the next batch that finds it: it has no bearing on the other items.
        """
        turn = asyncio.Semaphore(limit)
        results: list[Result] = []

        async def attempt(item: Item) -> None:
            async with turn:
                try:
                    results.append(await work(item))
                except asyncio.CancelledError as error:
                    if is_being_cancelled():
                        raise
                    self.health.note_skip(error)
                except Exception as error:
                    if is_away(error):
                        self.report(error)
                    elif is_outage(error):
                        self.health.note_refusal(error)
                    else:
                        self.health.note_skip(error)

        async with asyncio.TaskGroup() as tasks:
            for item in items:
                tasks.create_task(attempt(item))
        return results


@asynccontextmanager
async def running(services: Iterable[Service], stop: asyncio.Event) -> AsyncIterator[None]:
    """Run services beside the block and cancel them after it.

    A bug in one sets `stop`, so that the block can end in order; then `EndedByBug` is raised. The other services keep
    running until the block has ended.
    """
    bugs: list[EndedByBug] = []
    failure: Exception | None = None

    async def keep(service: Service) -> None:
        try:
            await service.run()
        except EndedByBug as bug:
            bugs.append(bug)
            stop.set()

    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(keep(service), name=service.name) for service in services]
        try:
            yield
        except Exception as error:
            # Raised below: inside the group it would be wrapped in an exception group.
            failure = error
        finally:
            for task in started:
                task.cancel()
    if failure is not None:
        raise failure
    if bugs:
        raise bugs[0]


async def run_all(services: Iterable[Service]) -> None:
    """Run services until cancelled, or until a bug ends one of them."""
    stop = asyncio.Event()
    async with running(services, stop):
        await stop.wait()


async def run_for_ever(service: Service) -> None:
    """Run a service and restart it after a bug: for an engine, which has no jobs to return and no process to end."""
    while True:
        with suppress(EndedByBug):
            await service.run()
        await asyncio.sleep(_AFTER_A_BUG)


def is_being_cancelled() -> bool:
    """Return whether this task was cancelled from outside, as opposed to an error that leaked out of its work."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
