"""An event loop on virtual time, whose processes can be killed at any await, frozen and thawed.

A process is everything that runs in a context where `PROCESS` is set: its tasks, their timers and callbacks. A dead
process is never scheduled again, so nothing of it runs on, not even a `finally`: that is kill -9.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

PROCESS: "ContextVar[Process | None]" = ContextVar("simulated_process", default=None)


class Process:
    """One operating system process, as the loop sees it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_frozen = False
        self.parked: list[Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.context = copy_context()
        self.context.run(PROCESS.set, self)


class Handle:
    """A callback that is due at once or at a time."""

    __slots__ = ("args", "callback", "context", "due", "is_cancelled", "process")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None, due: float = 0.0
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.due = due
        self.is_cancelled = False
        self.process = PROCESS.get() if context is None else context.get(PROCESS)

    def cancel(self) -> None:
        """Never call it."""
        self.is_cancelled = True

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self.is_cancelled

    def when(self) -> float:
        """The time at which it is due."""
        return self.due


class Loop(asyncio.AbstractEventLoop):
    """Runs what is due in the order of its time; the clock jumps to the next timer when nothing is ready."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._count = 0
        self._outside = Context()
        self._all: list[asyncio.Task[Any]] = []

    # ---- what asyncio asks of a loop ------------------------------------------------------------------------------

    def time(self) -> float:
        """The virtual time in seconds."""
        return self.now

    def get_debug(self) -> bool:
        """Never."""
        return False

    def is_running(self) -> bool:
        """Always, as far as tasks can tell."""
        return True

    def is_closed(self) -> bool:
        """Never, as far as tasks can tell."""
        return False

    def create_future(self) -> "asyncio.Future[Any]":
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]  # the stubs of 3.11 spell the coroutine's type out
        self, coro: Coroutine[Any, Any, T], *, name: object = None, context: Context | None = None
    ) -> "asyncio.Task[T]":
        """A task, which belongs to the process that makes it."""
        context = copy_context() if context is None else context
        task = asyncio.Task(coro, loop=self, context=context, name=None if name is None else str(name))
        self._all.append(task)
        return task

    def call_soon(  # type: ignore[override]  # a light handle: nothing here reads more of one
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """Call when everything before it was called."""
        handle = Handle(callback, args, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """Call at a time."""
        handle = Handle(callback, args, context, when)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def call_later(  # type: ignore[override]  # as above
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """Call after so many seconds."""
        return self.call_at(self.now + max(delay, 0.0), callback, *args, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Whoever runs services looks at how they end; what else asyncio complains of is noise here."""

    # ---- processes ------------------------------------------------------------------------------------------------

    def spawn(self, process: Process, coro: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run something as part of a process."""
        task: asyncio.Task[T] = process.context.run(self.create_task, coro)
        process.tasks.append(task)
        return task

    def after(self, delay: float, callback: Callable[..., object], *args: Any) -> None:
        """Call something after so many seconds that belongs to no process, whoever asks for it."""
        self.call_later(delay, callback, *args, context=self._outside)

    def call_in(self, process: Process, delay: float, callback: Callable[..., object], *args: Any) -> None:
        """Call something in a process after so many seconds; a dead one does not hear it."""
        self.call_later(delay, callback, *args, context=process.context)

    def kill(self, process: Process) -> None:
        """End a process between two instructions: nothing of it runs any more."""
        process.is_dead = True
        process.parked.clear()

    def freeze(self, process: Process) -> None:
        """Stop scheduling a process; time goes on without it."""
        process.is_frozen = True

    def thaw(self, process: Process) -> None:
        """Go on where it stopped."""
        process.is_frozen = False
        self._ready.extend(process.parked)
        process.parked = []

    # ---- running --------------------------------------------------------------------------------------------------

    def run(self, until: float, is_done: Callable[[], bool]) -> None:
        """Run until something is done, or until a time."""
        asyncio._set_running_loop(self)
        try:
            self._run(until, is_done)
        finally:
            asyncio._set_running_loop(None)

    def _run(self, until: float, is_done: Callable[[], bool]) -> None:
        ready, timers = self._ready, self._timers
        while True:
            while ready:
                handle = ready.popleft()
                if handle.is_cancelled:
                    continue
                process = handle.process
                if process is not None and (process.is_dead or process.is_frozen):
                    if not process.is_dead:
                        process.parked.append(handle)
                    continue
                self.steps += 1
                if handle.context is None:
                    handle.callback(*handle.args)
                else:
                    handle.context.run(handle.callback, *handle.args)
            if is_done():
                return
            while timers and timers[0][2].is_cancelled:
                heapq.heappop(timers)
            if not timers or timers[0][0] > until:
                self.now = until
                return
            due, _, handle = heapq.heappop(timers)
            self.now = max(self.now, due)
            ready.append(handle)

    def close(self) -> None:
        """Drop everything that has not ended. Nothing of it may matter any more: its `finally`s run now."""
        self._ready.clear()
        self._timers.clear()
        for task in self._all:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own gather does this
                coro: Any = task.get_coro()
                try:
                    coro.close()
                except KeyboardInterrupt:
                    raise
                except BaseException:
                    continue  # whatever it says while it is being closed, nobody listens
        self._ready.clear()
        self._timers.clear()
        self._all.clear()


def new_loop() -> Loop:
    """A loop at the beginning of time."""
    return Loop()  # type: ignore[abstract]  # sockets, signals and subprocesses do not exist here
