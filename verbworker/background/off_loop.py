"""Keeps long computations off the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

OFF_LOOP_BYTES: Final = 32 * 1024
"""Reading this much JSON takes a millisecond or two; more of it must not hold up the other requests of a process."""


# One thread for all: each that computes keeps the interpreter from the event loop for several milliseconds at a time,
# so two of them would stall every other request twice as long, and finish no sooner.
_LANE: Final = ThreadPoolExecutor(1, thread_name_prefix="off-loop")


async def read_off_loop(read: Callable[P, R], content: bytes, /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `read(*args)` here for short `content`, in a thread for long."""
    if len(content) <= OFF_LOOP_BYTES:
        return read(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_LANE, partial(read, *args, **kwargs))
