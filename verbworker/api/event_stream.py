"""Events as a stream (server-sent events) that a client can resume where it broke off."""

import asyncio
from collections.abc import AsyncIterator

from verbworker.client.entry_handle import EntryHandle
from verbworker.client.records import EventRecord
from verbworker.errors import StoreError
from verbworker.http.answers import STREAM_KEEPALIVE_S, STREAM_LIFE_S

_GREETING = b"retry: 2000\n\n"
_STILL_HERE = b": still here\n\n"


class EventStreams:
    """The open streams of one server. Each ends with its entry, with the server, or after ten minutes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open = 0
        self._stopped = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether another stream would be one too many, or the server is stopping."""
        return self._stopped.is_set() or self._open >= self._most

    def stop(self) -> None:
        """End every stream; their clients reconnect to another server and resume."""
        self._stopped.set()

    async def lines(self, entry: EntryHandle, after: int) -> AsyncIterator[bytes]:
        """Yield the stream of an entry's events from the one behind `after` on; the id of each is its number."""
        clock = asyncio.get_running_loop().time
        ends_at, said_at = clock() + STREAM_LIFE_S, clock()
        self._open += 1
        try:
            yield _GREETING
            async for events in entry.looks(after=after):
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
            self._open -= 1


def _line(event: EventRecord) -> bytes:
    return f"id: {event.seq}\nevent: {event.kind}\ndata: {event.model_dump_json()}\n\n".encode()
