"""Wait for the end of an entry, which any process may bring about."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from verbworker.retrying import ENTRY_LOOKS, ENTRY_READ
from verbworker.runbook.event import Entry


async def await_end(read: Callable[[], Awaitable[Entry]], *, timeout: timedelta | None) -> Entry:
    """Read an entry until it has ended, or return its state after `timeout`; None waits without a limit.

    A database that is away meanwhile is waited for, too. `StoreUnavailable` is raised if it still is after `timeout`.
    """
    looks = 0
    try:
        async with asyncio.timeout(None if timeout is None else timeout.total_seconds()):
            while not (entry := await ENTRY_READ.run(read)).status.is_final:
                looks += 1
                await asyncio.sleep(ENTRY_LOOKS.after(looks))
            return entry
    except TimeoutError:
        return await read()
