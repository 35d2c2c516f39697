"""Jobs that the gateway pushes over one stream: read one at a time, and drained at the end."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Final, TypeVar

import grpc

# A busy gateway, or one in a Java garbage collection, delays what the broker pushed.
_QUIET_S: Final = 0.25
_DRAIN_S: Final = 1.0  # the gateway may push for ever; a reader must end
# What is in this process already is read without a wait.
_ARRIVED_S: Final = 0.02

_Answer = TypeVar("_Answer")


async def linger(work: Awaitable[_Answer], grace_s: float) -> _Answer:
    """Await `work`; when cancelled, give it `grace_s` more before cancelling it too.

    gRPC ends a call whose reader is cancelled, and jobs in transit would stay locked.
    """
    answers: list[_Answer] = []
    errors: list[Exception] = []

    async def run() -> None:
        try:
            answers.append(await work)
        except Exception as error:  # passed on unchanged: a task group would wrap it
            errors.append(error)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run())
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task}, timeout=grace_s)
            raise
    if errors:
        raise errors[0]
    return answers[0]


class JobStream:
    """An open call. A message is taken from the channel only when requested."""

    def __init__(self, call: Any, ends: float) -> None:
        self._call = call
        self._ends = ends
        self._drained_by: float | None = None
        self._was_quiet = False
        self._taken: list[Any] = []

    async def read(self) -> Any:
        """Return the next message; None if the stream ended, or has expired and is drained.

        The gateway pushes while a stream is open, so messages that arrive while it drains are read too.
        """
        now = asyncio.get_running_loop().time()
        if now >= self._ends:
            # From the first look at its age on, not from its end: this process may have been suspended in between.
            self._drained_by = self._drained_by or now + _DRAIN_S
            if now > self._drained_by:
                return None
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._ends):
                await linger(self._take(), _QUIET_S)
        if self._taken:
            return self._taken.pop()
        self._was_quiet = True
        return None

    async def rest(self) -> list[Any]:
        """End the call and return what was pushed but not read: those jobs are locked for us."""
        # A stream that its reader drained goes on only while the gateway has more: what has arrived is taken, no more.
        quiet = _QUIET_S if self._drained_by is None else _ARRIVED_S
        try:
            with suppress(TimeoutError, grpc.RpcError):
                async with asyncio.timeout(_DRAIN_S):
                    while not self._was_quiet and not self._call.done():
                        async with asyncio.timeout(quiet):
                            await self._take()
        finally:
            self._call.cancel()
        return self._taken

    async def _take(self) -> None:
        told = await self._call.read()
        if told is not grpc.aio.EOF:
            self._taken.append(told)
