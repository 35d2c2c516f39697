"""Signals: the first asks a server to stop after its work in progress, the second ends the process immediately."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGINT)


async def run_until_signal(work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `work` with an event that the first SIGTERM or SIGINT sets. Correctness never depends on a clean end."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    received = 0

    # Not the loop's own handlers: these run even while a verb blocks the loop.
    def receive(number: int, frame: FrameType | None) -> None:
        nonlocal received
        received += 1
        if received > 1:
            os._exit(128 + number)
        loop.call_soon_threadsafe(stop.set)

    before = {number: signal.signal(number, receive) for number in _ENDING}
    try:
        await work(stop)
    finally:
        for number, old in before.items():
            signal.signal(number, old)
