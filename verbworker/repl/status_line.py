"""The status line at the bottom, updated in the background so that typing never waits for it."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from uuid import UUID

from verbworker.app.entry_view import EntryView
from verbworker.errors import StoreError
from verbworker.repl.formatting import names_of, plain
from verbworker.repl.short_ids import ShortIds
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.work.gates.decide import Gates

AWAY = "database unavailable"
_EVERY = 1.0
_PATIENCE = 5.0
_MOST = 1000


class StatusLine:
    """Shows how many entries are parked, and what the last one asked for waits for."""

    def __init__(self, database: Database, tenant: str, numbers: ShortIds) -> None:
        self._runbook = Runbook(database)
        self._view = EntryView(database)
        self._gates = Gates(database)
        self._tenant = tenant
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
            async with asyncio.timeout(_PATIENCE):
                self.line = plain(await self._status())
        except (StoreError, TimeoutError):
            self.line = AWAY

    async def _status(self) -> str:
        parked = await self._runbook.count_parked(self._tenant, most=_MOST)
        said = f"parked: {parked}{'+' if parked == _MOST else ''}"
        if self._last is None:
            return said
        entry = await self._runbook.entry(self._last, tenant_id=self._tenant)
        if entry is None:
            return said
        waiting = await self._gates.list(self._tenant, entry_id=entry.entry_id)
        self.takes = {name: gate.decisions for name, gate in names_of(waiting, self._numbers).items()}
        far = (await self._view.progress(entry)).detailed
        return f"{said}  |  {self._numbers(entry.entry_id)}: {far}"
