"""A handle on one entry: read it, follow its events, await its result, decide and cancel."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from verbworker.app.engine_links import EngineLinks
from verbworker.client.entry_view import EntryView
from verbworker.client.records import EntryDetail, EntryRecord, EventRecord, GateRecord, PositionRecord
from verbworker.contract.person import Person
from verbworker.errors import EntryFailed, EntryNotEnded, NotFound
from verbworker.retrying import ENTRY_LOOKS
from verbworker.runbook.event import Entry, Event, Kind, describe
from verbworker.stores.cases.instances import Instances
from verbworker.work.starts.await_end import await_end

if TYPE_CHECKING:
    from verbworker.client.client import Client

_BATCH = 500  # events per statement; the others follow in the next


class EntryHandle:
    """One entry of the runbook, that is, one case. Get it from `Client.start` or `Client.entry`.

    The handle holds no state of the entry: each method asks the database. Its name is not `Entry`, because that is the
    record which `read` returns in full.
    """

    def __init__(self, client: "Client", entry_id: UUID) -> None:
        self._client = client
        self._runbook = client.resources.runbook
        self.entry_id = entry_id
        """The id of the entry."""

    def __repr__(self) -> str:
        return f"EntryHandle({str(self.entry_id)!r})"

    async def read(self) -> EntryDetail:
        """Return the entry with its progress, what it waits for, and why it makes no progress if it does not."""
        view = EntryView(self._client.resources.database)
        links = EngineLinks.of(self._client.resources.settings)
        return EntryDetail.with_waits(await view.find(self.entry_id, self._client.tenant), links)

    async def history(self, *, after: int = 0, limit: int | None = None) -> list[EventRecord]:
        """Return the events so far, in order, from the one behind number `after` on; all, or the first `limit`."""
        await self._entry()
        found: list[EventRecord] = []
        while limit is None or len(found) < limit:
            most = _BATCH if limit is None else min(_BATCH, limit - len(found))
            events = await self._runbook.events(self.entry_id, after=after, limit=most)
            found += [EventRecord.of(event) for event in events]
            if len(events) < most:
                break
            after = events[-1].seq
        return found

    async def events(self, *, after: int = 0) -> AsyncIterator[EventRecord]:
        """Iterate over the events as they happen, from the one behind number `after` on, until the entry has ended.

        ```python
        async for event in entry.events():
            print(event.at, event.sentence)
        ```

        An event has a number, `seq`, counted from 1. After an error, such as `StoreUnavailable`, call it again with
        the number of the last event that you received.
        """
        async for events in self.looks(after=after):
            for event in events:
                yield event

    async def looks(self, *, after: int = 0) -> AsyncIterator[list[EventRecord]]:
        """Iterate over the events as they happen, all new ones together; an empty list about once a second if none is.

        For a caller that has something else to do meanwhile, such as to keep a connection alive.
        """
        has_ended = (await self._entry()).status.is_final
        quiet = 1
        while True:
            events = await self._runbook.events(self.entry_id, after=after, limit=_BATCH)
            if events:
                after, has_ended = events[-1].seq, events[-1].status.is_final
            yield [EventRecord.of(event) for event in events]
            if len(events) == _BATCH:
                continue
            if has_ended:
                return
            quiet = 1 if events else quiet + 1
            await asyncio.sleep(ENTRY_LOOKS.after(quiet))

    async def positions(self) -> list[PositionRecord]:
        """Return where the entry is in its model, as the engine sees it; nothing if the engine does not have it.

        Raises `NotOffered` if the cluster has no search.
        """
        from verbworker.app.wiring import choose_engine  # gRPC takes a third of a second

        resources = self._client.resources
        carrier = await Instances(resources.database).of_entry(self.entry_id)
        if carrier is None or carrier.instance_key is None:
            return []
        async with choose_engine(resources.settings, is_working=False) as engine:
            return [PositionRecord.of(element) for element in await engine.waits(carrier.instance_key)]

    async def wait(self, *, timeout: float | None = None) -> EntryRecord:
        """Return the entry when it has ended, or as it is after `timeout` seconds; None waits without a limit.

        An outage of Postgres meanwhile does not end the wait; `StoreUnavailable` is raised if it outlasts `timeout`.
        """
        limit = None if timeout is None else timedelta(seconds=timeout)
        return EntryRecord.of(await await_end(self._entry, timeout=limit))

    async def result(self, *, timeout: float | None = None) -> dict[str, Any]:
        """Return the outcome of the entry as soon as it has ended.

        Raises `EntryFailed` if it failed or was cancelled, and `EntryNotEnded` after `timeout` seconds; the entry
        continues then.
        """
        entry = await self.wait(timeout=timeout)
        if not entry.is_final:
            raise EntryNotEnded(f"{entry.sentence}: no end within {timeout:g} seconds (entry {self.entry_id})")
        if entry.status == "completed":
            return entry.outcome or {}
        last = await self._find_end()
        reason = "" if last is None else f": {describe(last)}"
        code = None if last is None else last.detail.get("code")
        raise EntryFailed(
            f"{entry.sentence}: it ended as {entry.status}{reason} (entry {self.entry_id})",
            status=entry.status.value,
            code=code,
        )

    async def decide(
        self,
        decision: str,
        *,
        reason: str = "",
        gate: str | None = None,
        inputs: Mapping[str, object] | None = None,
        by: str | Person | None = None,
    ) -> GateRecord:
        """Decide at the gate where the entry waits; name the `gate` if it waits at several. See `Client.decide`."""
        return await self._client.decide(self.entry_id, decision, reason=reason, gate=gate, inputs=inputs, by=by)

    async def cancel(self, reason: str, *, by: str | Person | None = None) -> EntryRecord:
        """Request the end of the entry. See `Client.cancel`."""
        return await self._client.cancel(self.entry_id, reason, by=by)

    async def _find_end(self) -> Event | None:
        """Return the event that ended the entry."""
        events = await self._runbook.events(self.entry_id)
        ends = [event for event in events if event.kind in (Kind.RESULT, Kind.CANCELLED)]
        return ends[-1] if ends else None

    async def _entry(self) -> Entry:
        tenant = self._client.tenant
        entry = await self._runbook.entry(self.entry_id, tenant_id=tenant)
        if entry is None:
            raise NotFound(f"the tenant {tenant} has no entry {self.entry_id}")
        return entry
