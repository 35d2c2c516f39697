"""Reads the events of a runbook as they happen, as lines for people."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from verbworker.runbook.event import describe
from verbworker.stores.cases.runbook import Runbook

# An event may be committed a little after its timestamp.
_OVERLAP = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class EventLine:
    """One event of one entry."""

    at: datetime
    entry_id: UUID
    sentence: str
    words: str

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S}  {self.sentence}: {self.words}"


class EventLog:
    """Reads a tenant's runbook from where it last stopped."""

    def __init__(self, runbook: Runbook, tenant: str) -> None:
        self._runbook = runbook
        self._tenant = tenant
        self._last_seqs: dict[UUID, int] = {}
        self._since: datetime | None = None

    async def skip(self) -> None:
        """Skip everything that happened so far."""
        for moved in await self._runbook.find_moves(self._tenant, since=None):
            self._last_seqs[moved.entry_id] = moved.last_seq
            self._since = moved.at - _OVERLAP

    async def news(self) -> list[EventLine]:
        """Return what happened since the last call, each event once, in order."""
        lines: list[EventLine] = []
        for moved in await self._runbook.find_moves(self._tenant, since=self._since):
            self._since = moved.at - _OVERLAP
            before = self._last_seqs.get(moved.entry_id, 0)
            if moved.last_seq <= before:
                continue
            for event in await self._runbook.events(moved.entry_id, after=before):
                lines.append(EventLine(event.at, event.entry_id, moved.sentence, describe(event)))
                self._last_seqs[moved.entry_id] = event.seq
        return sorted(lines, key=lambda line: line.at)
