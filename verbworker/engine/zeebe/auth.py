"""Authentication as the header of each call: none, Basic, or a bearer token."""

import asyncio
import base64
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from verbworker.engine.zeebe.connection import Basic, GatewayAddress, OAuth
from verbworker.errors import AccessDenied, EngineError, EngineUnavailable
from verbworker.http.http_client import HttpClient, Reply

Header = tuple[str, str]

_MARGIN_S: Final = 30.0  # longer than a call may take, so that no token expires on the way
_YOUNG_S: Final = 5.0  # a token rejected sooner is not expired: a new one would be rejected as well
_FETCH_S: Final = 10.0  # every call waits for it, so an issuer that hangs must not hold them long
_LARGEST_TOKEN_ANSWER: Final = 64 * 1024  # a token with many claims has a few kilobytes
_DEFAULT_LIFETIME_S: Final = 300.0  # without expires_in: short, so that an expired token is soon replaced


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
class AccessToken:
    """A bearer token and its lifetime."""

    value: str = field(repr=False)
    lifetime_s: float


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


async def fetch(oauth: OAuth, ca: Path | None, timeout_s: float) -> AccessToken:
    """Request a token once. In a private cluster a private `ca` signs both; the public CAs stay trusted."""
    try:
        reply = await HttpClient(timeout_s, _LARGEST_TOKEN_ANSWER, ca=ca).send(
            "POST", oauth.token_url, form=_form(oauth)
        )
    except TimeoutError as error:
        raise EngineUnavailable("the token server did not answer in time; check CAMUNDA_OAUTH_URL") from error
    except OSError as error:
        raise EngineUnavailable(f"the token server cannot be reached: {error}; check CAMUNDA_OAUTH_URL") from error
    except ValueError as error:
        raise AccessDenied("the token URL cannot be used: check the host name in CAMUNDA_OAUTH_URL") from error
    if reply.status >= 300:
        raise _refusal(reply)
    return _token(_object(reply))


def _form(oauth: OAuth) -> dict[str, str]:
    form = {
        "grant_type": "client_credentials",
        "client_id": oauth.client_id,
        "client_secret": oauth.client_secret,
        "audience": oauth.audience,
        "scope": oauth.scope,
    }
    return {name: value for name, value in form.items() if value}


def _token(answer: dict[str, object]) -> AccessToken:
    value, lifetime = answer.get("access_token"), answer.get("expires_in", _DEFAULT_LIFETIME_S)
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable():
        raise AccessDenied("the token server answered without an access_token: check the token URL, CAMUNDA_OAUTH_URL")
    try:
        return AccessToken(value, max(1.0, float(str(lifetime))))
    except ValueError:
        return AccessToken(value, _DEFAULT_LIFETIME_S)


def _refusal(reply: Reply) -> AccessDenied | EngineUnavailable:
    status, said = reply.status, _object(reply).get("error")
    reason = f"{status} {said[:100]}" if isinstance(said, str) else str(status)
    if status == 429 or status >= 500:
        return EngineUnavailable(f"the token server could not answer ({reason})")
    if status in (400, 401, 403):
        return AccessDenied(
            f"the token server refused this client ({reason}): check CAMUNDA_CLIENT_ID, CAMUNDA_CLIENT_SECRET,"
            " audience and scope"
        )
    return AccessDenied(f"the token server answered {reason}: check the token URL, CAMUNDA_OAUTH_URL")


def _object(reply: Reply) -> dict[str, object]:
    answer = reply.json()
    return answer if isinstance(answer, dict) else {}
