"""Wait for the end of an entry, which any process may bring about."""

import asyncio
from datetime import timedelta
from uuid import UUID

from verbworker.errors import NotFound
from verbworker.retrying import ENTRY_LOOKS
from verbworker.runbook.event import Entry
from verbworker.stores.cases.runbook import Runbook


async def await_end(runbook: Runbook, entry_id: UUID, *, timeout: timedelta | None) -> Entry:
    """Return the entry when it has ended, or in its current state after `timeout`; None waits without a limit."""
    looks = 0
    try:
        async with asyncio.timeout(None if timeout is None else timeout.total_seconds()):
            while not (entry := await _entry(runbook, entry_id)).status.is_final:
                looks += 1
                await asyncio.sleep(ENTRY_LOOKS.after(looks))
            return entry
    except TimeoutError:
        return await _entry(runbook, entry_id)


async def _entry(runbook: Runbook, entry_id: UUID) -> Entry:
    entry = await runbook.entry(entry_id)
    if entry is None:
        raise NotFound(f"there is no entry {entry_id}")
    return entry
