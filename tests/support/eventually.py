"""Waiting for what happens elsewhere: looked at again and again until it is there, or the time is over."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

TIMEOUT = 30.0


async def eventually(look: Callable[[], Awaitable[T]], *, timeout: float = TIMEOUT) -> T:
    """The first answer of `look` that is not empty."""
    async with asyncio.timeout(timeout):
        while not (found := await look()):  # noqa: ASYNC110  # what is waited for happens in another process
            await asyncio.sleep(0.02)
        return found
