"""Events as a stream (server-sent events) that a client can resume where it broke off."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable

from verbworker.client.entry_handle import EntryHandle
from verbworker.client.records import EventRecord
from verbworker.errors import StoreError
from verbworker.http.answers import STREAM_KEEPALIVE_S, STREAM_LIFE_S

_READERS = 4  # so many may have all the streams that one may have
_GREETING = b"retry: 2000\n\n"  # milliseconds until a client reconnects: a restart takes about that
_STILL_HERE = b": still here\n\n"


class EventStreams:
    """The open streams of one server. Each ends with its entry, with the server, or after ten minutes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._per_reader = max(most // _READERS, 1)
        self._open: Counter[str] = Counter()
        self._stopped = asyncio.Event()

    def is_full(self, reader: str) -> bool:
        """Return whether another stream would be one too many, of all or of one reader, or the server is stopping."""
        is_full = self._open.total() >= self._most or self._open[reader] >= self._per_reader
        return self._stopped.is_set() or is_full

    def stop(self) -> None:
        """End every stream; their clients reconnect to another server and resume."""
        self._stopped.set()

    async def lines(
        self, entry: EntryHandle, after: int, reader: str, *, may_go_on: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        """Yield the stream of an entry's events from the one behind `after` on; the id of each is its number.

        It ends, before another event, when the credential of its reader is gone.
        """
        clock = asyncio.get_running_loop().time
        ends_at, said_at = clock() + STREAM_LIFE_S, clock()
        self._open[reader] += 1
        try:
            yield _GREETING
            async for events in entry.looks(after=after):
                if not may_go_on():
                    return
                for event in events:
                    yield _line(event)
                if self._stopped.is_set() or clock() >= ends_at:
                    return
                if events:
                    said_at = clock()
                elif clock() - said_at >= STREAM_KEEPALIVE_S:
                    said_at = clock()
                    yield _STILL_HERE
        except StoreError:
            # The database is away: the client reconnects and resumes after its last event.
            return
        finally:
            self._open[reader] -= 1
            self._open += Counter()  # forget readers without a stream


def _line(event: EventRecord) -> bytes:
    return f"id: {event.seq}\nevent: {event.kind}\ndata: {event.model_dump_json()}\n\n".encode()
