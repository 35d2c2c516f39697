"""The status line at the bottom, updated in the background so that typing never waits for it."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from uuid import UUID

from verbworker.client.client import Client
from verbworker.errors import NotFound, StoreError
from verbworker.repl.formatting import names_of, plain
from verbworker.repl.short_ids import ShortIds

AWAY = "database unavailable"
_EVERY = 1.0  # seconds; the line keeps up with a person who reads it
_LONGEST_READ = 5.0  # seconds; then the line says that the database does not answer
_MOST_COUNTED = 1000  # entries; more are shown as 1000+, so that a large table is not counted each second


class StatusLine:
    """Shows how many entries are parked, and what the last one asked for waits for."""

    def __init__(self, client: Client, numbers: ShortIds) -> None:
        self._client = client
        self._numbers = numbers
        self._last: UUID | None = None
        self._due = asyncio.Event()
        self.line = ""
        self.takes: Mapping[str, tuple[str, ...]] = {}

    def follow(self, entry_id: UUID | None = None) -> None:
        """Refresh immediately, and follow this entry from now on if one is given."""
        self._last = entry_id or self._last
        self._due.set()

    async def run(self, changed: Callable[[], None]) -> None:
        """Refresh every second until cancelled, and call `changed` when the line differs."""
        while True:
            before = self.line
            await self.look()
            if self.line != before:
                changed()
            with suppress(TimeoutError):
                async with asyncio.timeout(_EVERY):
                    await self._due.wait()
            self._due.clear()

    async def look(self) -> None:
        """Refresh the line; it reports a database that does not answer."""
        try:
            async with asyncio.timeout(_LONGEST_READ):
                self.line = plain(await self._status())
        except (StoreError, TimeoutError):
            self.line = AWAY

    async def _status(self) -> str:
        client = self._client
        parked = await client.resources.runbook.count_parked(client.tenant, most=_MOST_COUNTED)
        text = f"parked: {parked}{'+' if parked == _MOST_COUNTED else ''}"
        if self._last is None:
            return text
        try:
            entry = await (await client.entry(self._last)).read()
        except NotFound:
            return text
        waiting = (await client.gates(entry_id=entry.entry_id)).gates
        self.takes = {name: gate.decisions for name, gate in names_of(waiting, self._numbers).items()}
        return f"{text}  |  {self._numbers(entry.entry_id)}: {entry.progress}"
