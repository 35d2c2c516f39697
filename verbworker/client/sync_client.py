"""The client for programs without asyncio: the same client, on a loop in a thread of its own."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack
from uuid import UUID

from verbworker.app.output import run
from verbworker.client.client import Client, EntryId
from verbworker.client.entry_handle import EntryHandle
from verbworker.client.gate_actions import CLAIM_WAIT_S
from verbworker.client.incident_records import IncidentDetail, IncidentPage, IncidentResolution
from verbworker.client.record_reports import RecordReport
from verbworker.client.records import (
    EntryDetail,
    EntryPage,
    EntryRecord,
    EventRecord,
    GatePage,
    GateRecord,
    MessageReceipt,
    PositionRecord,
)
from verbworker.contract.message import EnvelopeFields, Message
from verbworker.contract.person import Person
from verbworker.errors import CannotRun
from verbworker.runbook.event import Status

if TYPE_CHECKING:
    from verbworker.contract.registry import Registry

T = TypeVar("T")

_NOT_OPEN = "this client is not open: use it inside of `with SyncClient.from_environment(...)`"


class _LoopThread:
    """A thread that runs a loop with one open client, until it is closed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._process = os.getpid()
        self._opened = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._stop = asyncio.Event()
        # A daemon: a program that forgets to close its client must still be able to end.
        self._thread = threading.Thread(target=self._serve, name="verbworker-client", daemon=True)

    def open(self) -> None:
        """Start the thread and return when the client is open; raises what its opening raised."""
        self._thread.start()
        self._opened.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def close(self) -> None:
        """Close the client and end the thread; what other threads wait for is cancelled."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and os.getpid() == self._process:
            loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the loop and return its result; Ctrl-C in the calling thread cancels it."""
        if os.getpid() != self._process:
            raise CannotRun("this client was opened in another process: open one in each process, after the fork")
        # Submitted under the lock: a call that comes before the end of the loop is cancelled by it, and none after.
        with self._lock:
            if self._loop is None:
                raise CannotRun(_NOT_OPEN)
            future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise CannotRun("this client was closed during the call; it is unknown whether it happened") from None
        except BaseException:
            future.cancel()
            raise

    def _serve(self) -> None:
        try:
            run(self._run())
        except BaseException as error:
            self._failure = error
        finally:
            self._loop = None
            self._opened.set()

    async def _run(self) -> None:
        async with self._client:
            self._loop = asyncio.get_running_loop()
            self._opened.set()
            await self._stop.wait()
            # Calls of other threads end before the connections do: they are tasks of this loop.
            calls = asyncio.all_tasks() - {asyncio.current_task()}
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)


class SyncEntryHandle:
    """One entry of the runbook, for programs without asyncio: see `EntryHandle`."""

    def __init__(self, thread: _LoopThread, handle: EntryHandle) -> None:
        self._thread = thread
        self._handle = handle

    def __repr__(self) -> str:
        return f"SyncEntryHandle({str(self.entry_id)!r})"

    @property
    def entry_id(self) -> UUID:
        """The id of the entry."""
        return self._handle.entry_id

    def read(self) -> EntryDetail:
        """Return the entry with its progress and what it waits for."""
        return self._thread.call(self._handle.read)

    def history(self, *, after: int = 0, limit: int | None = None) -> list[EventRecord]:
        """Return the events so far, in order: see `EntryHandle.history`."""
        return self._thread.call(lambda: self._handle.history(after=after, limit=limit))

    def events(self, *, after: int = 0) -> Iterator[EventRecord]:
        """Iterate over the events as they happen, until the entry has ended."""
        for events in self.looks(after=after):
            yield from events

    def looks(self, *, after: int = 0) -> Iterator[list[EventRecord]]:
        """Iterate over the events as they happen, all new ones together: see `EntryHandle.looks`."""
        looks = self._handle.looks(after=after)

        async def advance() -> list[EventRecord] | None:
            return await anext(looks, None)

        while (events := self._thread.call(advance)) is not None:
            yield events

    def positions(self) -> list[PositionRecord]:
        """Return where the entry is in its model: see `EntryHandle.positions`."""
        return self._thread.call(self._handle.positions)

    def wait(self, *, timeout: float | None = None) -> EntryRecord:
        """Return the entry when it has ended, or as it is after `timeout` seconds."""
        return self._thread.call(lambda: self._handle.wait(timeout=timeout))

    def result(self, *, timeout: float | None = None) -> dict[str, Any]:
        """Return the outcome as soon as the entry has ended; raises `EntryFailed` or `EntryNotEnded`."""
        return self._thread.call(lambda: self._handle.result(timeout=timeout))

    def decide(
        self,
        decision: str,
        *,
        reason: str = "",
        gate: str | None = None,
        inputs: Mapping[str, object] | None = None,
        by: str | Person | None = None,
    ) -> GateRecord:
        """Decide at the gate where the entry waits."""
        return self._thread.call(lambda: self._handle.decide(decision, reason=reason, gate=gate, inputs=inputs, by=by))

    def cancel(self, reason: str, *, by: str | Person | None = None) -> EntryRecord:
        """Request the end of the entry."""
        return self._thread.call(lambda: self._handle.cancel(reason, by=by))


class SyncClient:
    """The same as `Client`, for Django and scripts: each method blocks until its answer is there.

    ```python
    from verbworker import SyncClient

    from verbs import registry

    with SyncClient.from_environment(registry) as client:
        entry = client.start("kyc.open-case", {"entity": "Allianz GmbH"}, request_key="order-17")
        print(entry.result(timeout=60))
    ```

    It may be used from several threads. Open one in each process, after it was forked. Without `with`, call `open`
    first and `close` at the end.
    """

    def __init__(self, client: Client, *, thread: _LoopThread | None = None) -> None:
        self._client = client
        self._thread = thread

    @classmethod
    def from_environment(
        cls,
        registry: "Registry | None" = None,
        *,
        by: str | Person | None = None,
        tenant: str | None = None,
        dsn: str | None = None,
        engine_id: str | None = None,
    ) -> Self:
        """Make a client from `VERBWORKER_...` variables and `verbworker.toml`: see `Client.from_environment`."""
        return cls(Client.from_environment(registry, by=by, tenant=tenant, dsn=dsn, engine_id=engine_id))

    def open(self) -> Self:
        """Open the client; raises `StoreUnavailable` or `SchemaMismatch` if the database is away or not migrated."""
        if self._thread is not None:
            raise CannotRun("this client is open already: open it once and share it")
        thread = _LoopThread(self._client)
        thread.open()
        self._thread = thread
        return self

    def close(self) -> None:
        """Close the client; calls that other threads wait for are cancelled."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def tenant(self) -> str:
        """The tenant whose cases this client sees."""
        return self._client.tenant

    @property
    def by(self) -> str:
        """The name that is recorded for what this client does, unless a call names another."""
        return self._client.by

    def act_for(self, by: str | Person | None = None, *, tenant: str | None = None) -> "SyncClient":
        """Return this client in another name, or for another tenant. It shares the connections and is not closed."""
        return SyncClient(self._client.act_for(by, tenant=tenant), thread=self._open_thread)

    def start(
        self,
        verb: str,
        args: Mapping[str, Any] | None = None,
        *,
        request_key: str | None = None,
        by: str | Person | None = None,
        provenance: Mapping[str, Any] | None = None,
        traceparent: str | None = None,
    ) -> SyncEntryHandle:
        """Start a verb and return its entry: see `Client.start`."""
        more: dict[str, Any] = {"by": by, "provenance": provenance, "traceparent": traceparent}
        handle = self._call(lambda client: client.start(verb, args, request_key=request_key, **more))
        return SyncEntryHandle(self._open_thread, handle)

    def entry(self, entry_id: EntryId) -> SyncEntryHandle:
        """Return a handle on one entry; raises `NotFound`."""
        handle = self._call(lambda client: client.entry(entry_id))
        return SyncEntryHandle(self._open_thread, handle)

    def entries(
        self,
        *,
        status: Status | str | None = None,
        verb: str | None = None,
        text: str | None = None,
        entry_id: EntryId | None = None,
        stuck_for: timedelta | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> EntryPage:
        """Return a page of entries, newest first: see `Client.entries`."""
        filters: dict[str, Any] = {"status": status, "verb": verb, "text": text, "entry_id": entry_id}
        return self._call(lambda client: client.entries(**filters, stuck_for=stuck_for, limit=limit, cursor=cursor))

    def cancel(self, entry_id: EntryId, reason: str, *, by: str | Person | None = None) -> EntryRecord:
        """Request the end of an entry: see `Client.cancel`."""
        return self._call(lambda client: client.cancel(entry_id, reason, by=by))

    def gates(
        self,
        *,
        gate: str | None = None,
        entry_id: EntryId | None = None,
        closed: bool = False,
        limit: int = 1000,
        cursor: str | None = None,
    ) -> GatePage:
        """Return a page of the gates that wait for a person: see `Client.gates`."""
        filters: dict[str, Any] = {"gate": gate, "entry_id": entry_id, "closed": closed}
        return self._call(lambda client: client.gates(**filters, limit=limit, cursor=cursor))

    def gate(self, where: EntryId, *, gate: str | None = None) -> GateRecord:
        """Return the gate that a gate id or an entry id names: see `Client.gate`."""
        return self._call(lambda client: client.gate(where, gate=gate))

    def decide(
        self,
        where: EntryId,
        decision: str,
        *,
        reason: str = "",
        gate: str | None = None,
        inputs: Mapping[str, object] | None = None,
        by: str | Person | None = None,
    ) -> GateRecord:
        """Decide at a gate: see `Client.decide`."""
        return self._call(lambda client: client.decide(where, decision, reason=reason, gate=gate, inputs=inputs, by=by))

    def claim(
        self, where: EntryId, *, gate: str | None = None, by: str | Person | None = None, wait: float = CLAIM_WAIT_S
    ) -> GateRecord:
        """Claim a gate: see `Client.claim`."""
        return self._call(lambda client: client.claim(where, gate=gate, by=by, wait=wait))

    def release(
        self, where: EntryId, *, gate: str | None = None, by: str | Person | None = None, wait: float = CLAIM_WAIT_S
    ) -> GateRecord:
        """Release a claimed gate: see `Client.release`."""
        return self._call(lambda client: client.release(where, gate=gate, by=by, wait=wait))

    def send(
        self,
        name: str,
        key: str,
        payload: Mapping[str, Any] | bytes | None = None,
        *,
        message_id: str | None = None,
        entry_id: EntryId | None = None,
        ttl: timedelta | None = None,
        by: str | Person | None = None,
        **envelope: Unpack[EnvelopeFields],
    ) -> MessageReceipt:
        """Send a message to the case that waits for it: see `Client.send`."""
        more: dict[str, Any] = {"message_id": message_id, "entry_id": entry_id, "ttl": ttl, "by": by, **envelope}
        return self._call(lambda client: client.send(name, key, payload, **more))

    def deliver(
        self, message: Message, *, ttl: timedelta | None = None, by: str | Person | None = None
    ) -> MessageReceipt:
        """Send a prepared message: see `Client.deliver`."""
        return self._call(lambda client: client.deliver(message, ttl=ttl, by=by))

    def incidents(self, *, without_entry: bool = False, limit: int = 100, cursor: str | None = None) -> IncidentPage:
        """Return a page of what waits for an operator: see `Client.incidents`."""
        return self._call(lambda client: client.incidents(without_entry=without_entry, limit=limit, cursor=cursor))

    def incident(self, where: EntryId | int, *, without_entry: bool = False) -> IncidentDetail:
        """Return one open incident with the story of its job: see `Client.incident`."""
        return self._call(lambda client: client.incident(where, without_entry=without_entry))

    def resolve(
        self,
        where: EntryId | int,
        reason: str,
        *,
        retries: int = 3,
        as_new: bool = False,
        flags: Mapping[str, str | int] | None = None,
        without_entry: bool = False,
        by: str | Person | None = None,
    ) -> IncidentResolution:
        """Resolve an incident: see `Client.resolve`."""
        more: dict[str, Any] = {"retries": retries, "as_new": as_new, "without_entry": without_entry, "by": by}
        return self._call(lambda client: client.resolve(where, reason, flags=flags, **more))

    def verify(self, entry_id: EntryId | None = None, *, against: str | None = None) -> RecordReport:
        """Verify the record: see `Client.verify`."""
        return self._call(lambda client: client.verify(entry_id, against=against))

    def seal(self) -> str:
        """Seal the record and return a checkpoint: see `Client.seal`."""
        return self._call(lambda client: client.seal())

    @property
    def _open_thread(self) -> _LoopThread:
        if self._thread is None:
            raise CannotRun(_NOT_OPEN)
        return self._thread

    def _call(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        return self._open_thread.call(lambda: work(self._client))
