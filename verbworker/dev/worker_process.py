"""A hand: the worker of a session, as a process of its own that can be exchanged for one with newer verbs."""

import asyncio
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from verbworker.dev.processes import end
from verbworker.errors import CannotRun

COMMAND = "dev-hand"
# What a session sets unless the person did: no port to fight for, short waits, and warnings in words.
_HABITS = {
    "VERBWORKER_POLL_WAIT": "1",
    "VERBWORKER_GRACE": "5",
    "VERBWORKER_LOG_FORMAT": "text",
    "VERBWORKER_LOG_LEVEL": "warning",
}
# Bytecode is told apart by whole seconds, and people save twice within one.
_ALWAYS = {"VERBWORKER_HTTP_PORT": "0", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a hand says when it is ready: how many verbs it knows, and how to ask for one that takes long."""

    verbs: int
    example: str | None = None


class WorkerProcess:
    """A worker that is ready. It ends when it is told to, or when whoever started it is gone."""

    def __init__(self, process: Process, line: asyncio.StreamWriter, greeting: Greeting) -> None:
        self._process = process
        self._line = line
        self.greeting = greeting

    @property
    def code(self) -> int | None:
        """The exit code once it has ended."""
        return self._process.returncode

    async def end(self) -> None:
        """Let it finish what it does and end."""
        await end(self._process, signal.SIGTERM, patience=30)
        self._line.close()


async def start(words: Sequence[str], settings: Mapping[str, str]) -> WorkerProcess | int:
    """A hand that has deployed its models and works, or the exit code of one that has said why it does not."""
    ours, theirs = socket.socketpair()
    reader, line = await asyncio.open_connection(sock=ours)
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "verbworker", COMMAND, *words),
            stdin=theirs.fileno(),
            env={**_HABITS, **os.environ, **_ALWAYS, **settings},
            start_new_session=True,
        )
    try:
        said = await reader.readline()
        if said:
            return WorkerProcess(process, line, Greeting(**json.loads(said)))
        line.close()
        return await process.wait() or 2
    except BaseException:
        line.close()
        await end(process, signal.SIGTERM, patience=10)
        raise


def line_home() -> socket.socket:
    """The hand's own end of the line; `CannotRun` when nobody holds the other."""
    try:
        line = socket.socket(fileno=os.dup(0))
        line.getpeername()
    except OSError:
        raise CannotRun("this command is a part of verbworker dev; run: verbworker dev") from None
    return line


async def serve(
    line: socket.socket, greeting: Greeting, work: Callable[[], Awaitable[None]], stop: asyncio.Event
) -> None:
    """The hand's own side: greet, work, and set `stop` when nobody holds the other end any more."""
    reader, writer = await asyncio.open_connection(sock=line)
    writer.write(json.dumps({"verbs": greeting.verbs, "example": greeting.example}).encode() + b"\n")
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(_watch(reader, stop))
        await work()
        watching.cancel()
    writer.close()


async def _watch(reader: asyncio.StreamReader, stop: asyncio.Event) -> None:
    await reader.read()
    stop.set()
