"""The worker of a session: a separate process that can be replaced by one with newer verbs."""

import asyncio
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from verbworker.dev.processes import end, end_with_parent
from verbworker.errors import CannotRun

COMMAND = "dev-hand"
# Defaults of a session, which the user may override: short waits, warnings as text, and full tracebacks.
_HABITS = {
    "VERBWORKER_POLL_WAIT": "1",
    "VERBWORKER_GRACE": "5",
    "VERBWORKER_LOG_FORMAT": "text",
    "VERBWORKER_LOG_LEVEL": "warning",
    "VERBWORKER_LOG_TRACEBACKS": "1",
}
# No fixed HTTP port to conflict on. Bytecode is compared by whole seconds, and people save twice within one.
_ALWAYS = {"VERBWORKER_HTTP_PORT": "0", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a worker reports when it is ready: how many verbs and plain tasks it serves, and a command to start one."""

    verbs: int
    tasks: int = 0
    example: str | None = None

    @property
    def words(self) -> str:
        """What it serves: `3 verbs`, `1 plain task`, or both."""
        tasks = f"{self.tasks} plain task{'s' if self.tasks != 1 else ''}"
        if not self.tasks:
            return f"{self.verbs} verbs"
        return f"{self.verbs} verbs and {tasks}" if self.verbs else tasks


class WorkerProcess:
    """A ready worker. It ends when asked to, or when the process that started it is gone."""

    def __init__(self, process: Process, line: asyncio.StreamWriter, greeting: Greeting) -> None:
        self._process = process
        self._line = line
        self.greeting = greeting

    @property
    def code(self) -> int | None:
        """The exit code once it has ended."""
        return self._process.returncode

    async def end(self) -> None:
        """Let it finish its work and end."""
        await end(self._process, signal.SIGTERM, within=30)
        self._line.close()


async def start(words: Sequence[str], settings: Mapping[str, str]) -> WorkerProcess | int:
    """Start a worker. Returns it once its models are deployed, or the exit code if it failed with a message."""
    ours, theirs = socket.socketpair()
    reader, line = await asyncio.open_connection(sock=ours)
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "verbworker", COMMAND, *words),
            stdin=theirs.fileno(),
            env={**_HABITS, **os.environ, **_ALWAYS, **settings},
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
    try:
        greeting = await reader.readline()
        if greeting:
            return WorkerProcess(process, line, Greeting(**json.loads(greeting)))
        line.close()
        return await process.wait() or 2
    except BaseException:
        line.close()
        await end(process, signal.SIGTERM, within=10)
        raise


def line_home() -> socket.socket:
    """Return the worker's end of the connection; `CannotRun` if there is no other end."""
    try:
        line = socket.socket(fileno=os.dup(0))
        line.getpeername()
    except OSError:
        raise CannotRun("this command is part of verbworker dev; run: verbworker dev") from None
    return line


async def serve(
    line: socket.socket, greeting: Greeting, work: Callable[[], Awaitable[None]], stop: asyncio.Event
) -> None:
    """Run the worker's side: greet, work, and set `stop` when the other end closes."""
    reader, writer = await asyncio.open_connection(sock=line)
    writer.write(json.dumps(asdict(greeting)).encode() + b"\n")
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(_watch(reader, stop))
        await work()
        watching.cancel()
    writer.close()


async def _watch(reader: asyncio.StreamReader, stop: asyncio.Event) -> None:
    await reader.read()
    stop.set()
