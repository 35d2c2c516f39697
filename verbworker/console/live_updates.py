"""Live updates: one listener for changes notifies every open page, however slowly each reads."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from verbworker.background.poll_loop import PollLoop, Service
from verbworker.http.answers import STREAM_KEEPALIVE_S, STREAM_LIFE_S
from verbworker.stores.access.tenancy import served_tenant
from verbworker.stores.cases.overview import Overview
from verbworker.stores.database import Database

_log = logging.getLogger(__name__)

CHANNEL = "verbworker_runbook"
RUNBOOK, GATES, LETTERS = "runbook", "gates", "letters"
_EVERY = 1.0  # notifications come at once; this finds what they miss, before a person wonders
_LISTEN_AGAIN = 5.0  # seconds between attempts to listen after the connection broke
_LOGINS = 3  # so many may have all the streams that one login may have
_REST = 1.0  # a page of a busy case reloads at most once a second

Topic = str | UUID
LivingSessions = Callable[[Collection[bytes]], Awaitable[set[bytes]]]
"""Returns which of these sessions still last."""


class PageReader:
    """One open page. It stores whether something changed, not how often, so a page that does not read cannot grow."""

    def __init__(self, topic: Topic, login: str = "", session: bytes = b"") -> None:
        self.topic = topic
        self.tenant = served_tenant("")
        self.login = login
        self.session = session
        # It missed what changed between loading its page and opening its stream.
        self.is_new = True
        self._changed = asyncio.Event()
        self._over = asyncio.Event()

    def tell(self) -> None:
        """Mark that something changed."""
        self._changed.set()

    def end(self) -> None:
        """End the stream."""
        self._over.set()
        self._changed.set()

    async def lines(
        self, breath: float = STREAM_KEEPALIVE_S, life: float = STREAM_LIFE_S, rest: float = _REST
    ) -> AsyncIterator[bytes]:
        """Yield the event stream: one event per change or several, and keep-alives while nothing happens.

        After an event it pauses, so that a busy page reloads occasionally and not all the time.
        It ends after `life` seconds; the browser reconnects by itself and is authenticated again.
        """
        clock = asyncio.get_running_loop().time
        ends_at = clock() + life
        yield b"retry: 2000\n: hello\n\n"
        while not self._over.is_set() and clock() < ends_at:
            if not await _came(self._changed, breath):
                yield b": still here\n\n"
                continue
            self._changed.clear()
            if not self._over.is_set():
                yield b"event: changed\ndata: \n\n"
                await _came(self._over, rest)


class Stream(StreamingResponse):
    """The event stream of a page that stays up to date."""

    def __init__(self, updates: "LiveUpdates", topic: Topic, login: str, session: bytes = b"") -> None:
        super().__init__((), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._updates = updates
        self._topic = topic
        self._login = login
        self._session = session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the reader leaves or the console ends."""
        with self._updates.reading(self._topic, self._login, self._session) as reader:
            self.body_iterator = reader.lines()
            await super().__call__(scope, receive, send)


class LiveUpdates:
    """All open pages of one console, served by one listening connection and one query, however many there are."""

    def __init__(
        self, database: Database, *, most: int, every: float = _EVERY, living: LivingSessions | None = None
    ) -> None:
        self._database = database
        self._living = living
        self._most = most
        self._readers: set[PageReader] = set()
        self._seen: dict[tuple[str, Topic], object] = {}
        self._is_over = False
        self._listening = PollLoop("console-hints", self._listen, every=_LISTEN_AGAIN)
        self.services: tuple[Service, ...] = (self._listening, PollLoop("console-look", self._look, every=every))

    def is_full(self, login: str) -> bool:
        """Return whether another page would be one too many, of all or of one login."""
        own = sum(reader.login == login for reader in self._readers)
        return self._is_over or len(self._readers) >= self._most or own >= max(self._most // _LOGINS, 1)

    @contextmanager
    def reading(self, topic: Topic, login: str, session: bytes = b"") -> Iterator[PageReader]:
        """Register a page for one topic until the end of the block."""
        reader = PageReader(topic, login, session)
        self._readers.add(reader)
        try:
            yield reader
        finally:
            self._readers.discard(reader)

    def end(self) -> None:
        """End every stream and accept no more."""
        self._is_over = True
        for reader in self._readers:
            reader.end()

    def end_sessions(self, sessions: Collection[bytes]) -> None:
        """End the streams of sessions that are over."""
        for reader in self._readers:
            if reader.session in sessions:
                reader.end()

    def tell(self, *topics: Topic) -> None:
        """Notify the pages that show one of these topics."""
        for reader in self._readers:
            if reader.topic in topics:
                reader.tell()

    async def _listen(self) -> int:
        await self._database.listen(CHANNEL, self._hear, self._begin)
        return 0

    def _begin(self) -> None:
        self._listening.health.note_success()
        # Changes before the subscription were missed.
        for reader in self._readers:
            reader.is_new = True

    def _hear(self, words: str) -> None:
        topics: list[Topic] = [RUNBOOK, GATES]
        try:
            topics.append(UUID(words))
        except ValueError:
            _log.debug("not an entry", extra={"heard": words[:60]})
        self.tell(*topics)

    async def _look(self) -> int:
        if not self._readers:
            self._seen.clear()
            return 0
        await self._end_over()
        new = [reader for reader in self._readers if reader.is_new]
        now = await self._now()
        changed = {place[1] for place, value in now.items() if self._seen.get(place, value) != value}
        self._seen = now
        self.tell(*changed)
        for reader in new:
            reader.is_new = False
            reader.tell()
        return 0

    async def _end_over(self) -> None:
        """End the streams whose session was ended elsewhere, or is over by its limits or its credential."""
        sessions = {reader.session for reader in self._readers if reader.session}
        if sessions and self._living is not None:
            self.end_sessions(sessions - await self._living(sessions))

    async def _now(self) -> dict[tuple[str, Topic], object]:
        """Return values that change even if no notification arrives, as the tenants of the open pages see them."""
        seen: dict[tuple[str, Topic], object] = {}
        for tenant in {reader.tenant for reader in self._readers}:
            overview = Overview(self._database.of(tenant) if tenant else self._database)
            entries = {
                reader.topic for reader in self._readers if isinstance(reader.topic, UUID) and reader.tenant == tenant
            }
            counted = await overview.count_events(entries) if entries else {}
            fingerprints = await overview.fingerprints()
            seen |= {(tenant, entry_id): count for entry_id, count in counted.items()}
            seen[tenant, GATES], seen[tenant, LETTERS] = fingerprints["gates"], fingerprints["letters"]
        return seen


async def _came(event: asyncio.Event, longest: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(longest):
            await event.wait()
    return event.is_set()
