"""The consumer of standard input: one envelope a line; the number of each acknowledged line is printed."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import Final

from verbworker.contract.consumer import Delivery
from verbworker.contract.message import LARGEST

_READ_AT_ONCE: Final = 64 * 1024

_Line = tuple[int, bytes]


async def consume_lines(file: int = 0) -> AsyncIterator[Delivery]:
    """Yield the lines of a file until it ends; blank ones are left out. Of a line that is too long, the beginning."""
    lines: asyncio.Queue[_Line | OSError | None] = asyncio.Queue(1)
    loop = asyncio.get_running_loop()

    def put(found: _Line | OSError | None) -> None:
        asyncio.run_coroutine_threadsafe(lines.put(found), loop).result()

    # A thread of its own, which the end of the process does not wait for: nothing else interrupts a read of a terminal,
    # and the event loop cannot read from a file.
    threading.Thread(target=_read, args=(file, put), name="standard-input", daemon=True).start()
    while (found := await lines.get()) is not None:
        if isinstance(found, OSError):
            raise found
        number, line = found
        yield Delivery(line, partial(_print, number))


async def _print(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def split(chunks: Iterator[bytes], limit: int = LARGEST) -> Iterator[bytes]:
    """Yield lines, and of each at most one byte more than `limit`: enough to see that it is too long."""
    line = bytearray()
    for chunk in chunks:
        first, *rest = chunk.split(b"\n")
        line += first[: limit + 1 - len(line)]
        for piece in rest:
            yield bytes(line)
            line = bytearray(piece[: limit + 1])
    yield bytes(line)


def _read(file: int, put: Callable[[_Line | OSError | None], None]) -> None:
    # Not through `sys.stdin`: whoever reads there holds a lock that the interpreter takes when it ends.
    with suppress(RuntimeError, CancelledError):  # the loop has ended, and with it everybody who reads here
        try:
            for number, line in enumerate(split(iter(partial(os.read, file, _READ_AT_ONCE), b"")), 1):
                if line.strip():
                    put((number, line))
        except OSError as error:
            put(error)
        put(None)
