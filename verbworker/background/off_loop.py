"""Keeps long computations off the event loop."""

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

OFF_LOOP_BYTES: Final = 32 * 1024
"""Reading this much JSON takes a millisecond or two; more of it must not hold up the other requests of a process."""


async def read_sized(read: Callable[P, R], content: bytes, /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `read(*args)` here for short `content`, in a thread for long."""
    if len(content) <= OFF_LOOP_BYTES:
        return read(*args, **kwargs)
    return await asyncio.to_thread(read, *args, **kwargs)
