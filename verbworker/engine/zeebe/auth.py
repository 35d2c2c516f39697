"""Authentication as the header of each call: none, Basic, or a bearer token."""

import asyncio
import base64
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from verbworker.engine.zeebe.connection import Basic, GatewayAddress, OAuth
from verbworker.engine.zeebe.oauth import AccessToken, fetch
from verbworker.errors import EngineError

Header = tuple[str, str]

_MARGIN_S: Final = 30.0  # longer than a call may take, so that no token expires on the way
_YOUNG_S: Final = 5.0  # a token rejected sooner is not expired: a new one would be rejected as well
_FETCH_S: Final = 10.0  # every call waits for it, so an issuer that hangs must not hold them long


class Access(Protocol):
    """The source of a call's authentication header.

    Sent as metadata of each call, not as gRPC call credentials: those are refused on a plain channel, and they request
    the token in a gRPC thread that would wait for the token server.
    """

    async def header(self) -> Header | None:
        """Return the header to send now; may wait for a token."""

    def reject(self, header: Header | None) -> bool:
        """Record that the gateway rejected `header`; return True if a new one may help."""


class NoAccess:
    """A gateway without authentication."""

    async def header(self) -> Header | None:
        """Return no header."""
        return None

    def reject(self, header: Header | None) -> bool:
        """Return False: there is no other header to send."""
        return False


class BasicAccess:
    """Basic authentication with a fixed user and password."""

    def __init__(self, basic: Basic) -> None:
        words = f"{basic.username}:{basic.password}".encode()
        self._header = ("authorization", f"Basic {base64.b64encode(words).decode()}")

    async def header(self) -> Header | None:
        """Return the Basic header."""
        return self._header

    def reject(self, header: Header | None) -> bool:
        """Return False: the password will not change."""
        return False


@dataclass(frozen=True, slots=True)
class _Held:
    header: Header
    since: float
    until: float


class TokenAccess:
    """A bearer token, cached until shortly before it expires; concurrent callers share one fetch."""

    def __init__(self, oauth: OAuth, *, ca: Path | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._oauth, self._ca, self._now = oauth, ca, now
        self._held: _Held | None = None
        self._lock = asyncio.Lock()
        self._fetches = 0
        self._failure: EngineError | None = None

    async def header(self) -> Header | None:
        """Return the cached token or a new one; raises `AccessDenied` or `EngineUnavailable` without one."""
        seen = self._fetches
        if (header := self._current()) is not None:
            return header
        async with self._lock:
            if (header := self._current()) is not None:
                return header
            # Callers that waited during a failed fetch share its failure: queued fetches would never end.
            if self._fetches != seen and self._failure is not None:
                raise type(self._failure)(*self._failure.args) from self._failure
            return await self._fetch()

    def reject(self, header: Header | None) -> bool:
        """Discard the token, unless it is so new that the next would be rejected as well."""
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
            token = await fetch(self._oauth, self._ca, _FETCH_S)
        except EngineError as error:
            self._failure = error
            self._fetches += 1
            raise
        self._failure = None
        self._fetches += 1
        self._held = self._hold(token)
        return self._held.header

    def _hold(self, token: AccessToken) -> _Held:
        now = self._now()
        margin = min(_MARGIN_S, token.lifetime_s / 5)
        return _Held(("authorization", f"Bearer {token.value}"), now, now + token.lifetime_s - margin)


def access(connection: GatewayAddress) -> Access:
    """Return the authentication for these settings."""
    match connection.credentials:
        case OAuth() as oauth:
            return TokenAccess(oauth, ca=connection.tls.ca if connection.tls else None)
        case Basic() as basic:
            return BasicAccess(basic)
        case None:
            return NoAccess()
