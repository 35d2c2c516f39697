"""Who we are, as the header each call carries: nobody, a user with a password, or a bearer token."""

import asyncio
import base64
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from verbworker.engine.zeebe.connection import Basic, GatewayAddress, OAuth
from verbworker.engine.zeebe.oauth import AccessToken, fetch
from verbworker.errors import EngineError, EngineUnavailable

Header = tuple[str, str]

_MARGIN_S: Final = 30.0
_YOUNG_S: Final = 5.0
_FETCH_S: Final = 10.0


class Access(Protocol):
    """Where the header of a call comes from.

    It is sent as metadata of each call, not as gRPC call credentials: those are refused on a plain
    channel, and they ask for the token in a thread of gRPC that would wait for the token server.
    """

    async def header(self) -> Header | None:
        """The header to send now; may wait for a token."""

    def refused(self, header: Header | None) -> bool:
        """Note that the gateway did not accept `header`; true when a new one may help."""


class NoAccess:
    """A gateway without authentication."""

    async def header(self) -> Header | None:
        """Nothing."""
        return None

    def refused(self, header: Header | None) -> bool:
        """Nothing else could be sent."""
        return False


class BasicAccess:
    """The same user and password for ever."""

    def __init__(self, basic: Basic) -> None:
        words = f"{basic.username}:{basic.password}".encode()
        self._header = ("authorization", f"Basic {base64.b64encode(words).decode()}")

    async def header(self) -> Header | None:
        """User and password."""
        return self._header

    def refused(self, header: Header | None) -> bool:
        """The password will not get better."""
        return False


@dataclass(frozen=True, slots=True)
class _Held:
    header: Header
    since: float
    until: float


class TokenAccess:
    """A bearer token, kept until shortly before it ends; many callers wait for one fetch."""

    def __init__(self, oauth: OAuth, *, ca: Path | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._oauth, self._ca, self._now = oauth, ca, now
        self._held: _Held | None = None
        self._lock = asyncio.Lock()
        self._fetches = 0
        self._failure: EngineError | None = None

    async def header(self) -> Header | None:
        """The token in hand, or a new one; `AccessDenied` or `EngineUnavailable` when there is none."""
        seen = self._fetches
        if (header := self._current()) is not None:
            return header
        async with self._lock:
            if (header := self._current()) is not None:
                return header
            # Whoever waited while a fetch failed shares its failure: a queue of fetches would have no end.
            if self._fetches != seen and self._failure is not None:
                raise type(self._failure)(*self._failure.args) from self._failure
            return await self._fetch()

    def refused(self, header: Header | None) -> bool:
        """Forget the token, unless it is so new that the next would be refused as well."""
        held = self._held
        if held is None or held.header != header:
            return True
        if self._now() - held.since < _YOUNG_S:
            return False
        self._held = None
        return True

    def _current(self) -> Header | None:
        held = self._held
        return held.header if held is not None and self._now() < held.until else None

    async def _fetch(self) -> Header:
        try:
            token = await self._ask()
        except EngineError as error:
            self._failure = error
            self._fetches += 1
            raise
        self._failure = None
        self._fetches += 1
        self._held = self._hold(token)
        return self._held.header

    async def _ask(self) -> AccessToken:
        try:
            # The outer clock is for what urllib's own cannot stop, such as a name server that hangs.
            async with asyncio.timeout(_FETCH_S + 2):
                return await asyncio.to_thread(fetch, self._oauth, self._ca, _FETCH_S)
        except TimeoutError as error:
            raise EngineUnavailable("the token server did not answer in time") from error

    def _hold(self, token: AccessToken) -> _Held:
        now = self._now()
        margin = min(_MARGIN_S, token.lifetime_s / 5)
        return _Held(("authorization", f"Bearer {token.value}"), now, now + token.lifetime_s - margin)


def access(connection: GatewayAddress) -> Access:
    """The access that these settings describe."""
    match connection.credentials:
        case OAuth() as oauth:
            return TokenAccess(oauth, ca=connection.tls.ca if connection.tls else None)
        case Basic() as basic:
            return BasicAccess(basic)
        case None:
            return NoAccess()
