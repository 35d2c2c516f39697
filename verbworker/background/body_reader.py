"""Reads large bodies in a process of its own: the calls that parse them keep an interpreter for many milliseconds."""

import asyncio
import logging
import os
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, ParamSpec, Self, TypeVar, cast

from verbworker.background.reader_process import LENGTH
from verbworker.errors import ServerBusy

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)

SMALL_BYTES: Final = 32 * 1024
"""Reading this much takes a millisecond or two; more of it must not hold up the other requests of a process."""

_LONGEST_S: Final = 15  # one takes 0.1 s; on a machine that is overloaded, the process may have to start first
_MOST_WAITING: Final = 16  # bodies that are held in memory meanwhile
_ANSWER_BUFFER: Final = 1024 * 1024  # bytes read ahead; answers are as long as the bodies, not as lines
_RETRY_AFTER_S: Final = 5  # a third of the longest time that one body takes
_NEEDED: Final = ("LD_LIBRARY_PATH", "PYTHONHOME")


class BodyReader:
    """Calls functions on bodies: here where they are small, else in one process of lower priority, one at a time.

    The process starts with the first large body and again after it has died. A reader that is not open calls all here.
    """

    def __init__(self, *, longest_s: int = _LONGEST_S, most_waiting: int = _MOST_WAITING) -> None:
        self._longest_s = longest_s
        self._most_waiting = most_waiting
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._is_open = False
        self._process: Process | None = None

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        await self._end()

    @property
    def pid(self) -> int | None:
        """The id of the process, while there is one."""
        return None if self._process is None else self._process.pid

    async def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what `function(*args)` returns, or raise what it raises; it is one that its module's name leads to.

        Raises `ServerBusy` if too many bodies wait, or if this one was not read in time.
        """
        if not self._is_open:
            return function(*args, **kwargs)
        # How long the call is when it is written says how large its parts are, whatever they are.
        call = pickle.dumps((function, args, kwargs), pickle.HIGHEST_PROTOCOL)
        if len(call) <= SMALL_BYTES:
            return function(*args, **kwargs)
        value, error = pickle.loads(await self._read(call))  # noqa: S301  # written by our own process
        if error is not None:
            raise error
        return cast(R, value)

    async def _read(self, call: bytes) -> bytes:
        if self._waiting >= self._most_waiting:
            raise _busy("too many large bodies wait to be read")
        self._waiting += 1
        try:
            try:
                async with asyncio.timeout(self._longest_s):
                    await self._turn.acquire()
            except TimeoutError:
                raise _busy("large bodies are read slowly now") from None
            try:
                return await self._exchange(call)
            finally:
                self._turn.release()
        finally:
            self._waiting -= 1

    async def _exchange(self, call: bytes) -> bytes:
        """Send a call and return its answer. What does not end well ends the process: its pipes are out of step."""
        answer = None
        try:
            async with asyncio.timeout(self._longest_s):
                process = await self._start()
                answer = await _ask(process, call)
                return answer
        except TimeoutError:
            _log.warning("a body was not read in time; its reader starts anew", extra={"bytes": len(call)})
            raise _busy("the body could not be read in time") from None
        except (OSError, asyncio.IncompleteReadError) as error:
            _log.warning("the reader of bodies ended; it starts anew", extra={"bytes": len(call), "reason": str(error)})
            raise _busy("the body could not be read") from None
        finally:
            if answer is None:
                await self._end()

    async def _start(self) -> Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        # Of our own environment what an interpreter needs: it holds passwords, and who reads hostile bodies needs none.
        environment = {name: os.environ[name] for name in _NEEDED if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        command = [sys.executable, "-P", "-m", "verbworker.background.reader_process", str(self._longest_s)]
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, env=environment, limit=_ANSWER_BUFFER
        )
        return self._process

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        if process.stdin is not None:
            process.stdin.close()
        await process.communicate()  # reads its pipe to the end, so that it is closed too


async def _ask(process: Process, call: bytes) -> bytes:
    calls, answers = process.stdin, process.stdout
    assert calls is not None, "it is a pipe"
    assert answers is not None, "it is a pipe"
    calls.writelines((len(call).to_bytes(LENGTH, "big"), call))
    await calls.drain()
    size = int.from_bytes(await answers.readexactly(LENGTH), "big")
    return await answers.readexactly(size)


def _busy(words: str) -> ServerBusy:
    return ServerBusy(f"{words}; send it again later", retry_after=_RETRY_AFTER_S)
