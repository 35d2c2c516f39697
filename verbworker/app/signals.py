"""Signals: the first asks a worker to drain, the second ends the process immediately."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def drain_on_signal(stop: asyncio.Event) -> Iterator[None]:
    """Set `stop` on the first SIGTERM or SIGINT inside the block. Correctness never depends on a clean end."""
    loop = asyncio.get_running_loop()
    heard = 0

    # Not the loop's own handlers: these run even while a verb blocks the loop.
    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        heard += 1
        if heard > 1:
            os._exit(128 + number)
        loop.call_soon_threadsafe(stop.set)

    before = {number: signal.signal(number, hear) for number in _ENDING}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
