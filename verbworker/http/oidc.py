"""OpenID issuers: their endpoints and keys, and the verification of their tokens."""

import asyncio
import base64
import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus, urlsplit

from verbworker.errors import CannotRun
from verbworker.http.address import require_safe
from verbworker.http.http_client import HttpClient, Reply

_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Asymmetric only: with a shared secret, every service that checks tokens could also make them."""

_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_LEEWAY_S: Final = 30  # clocks of issuer and server differ
# Tokens from strangers that name unknown keys must not each cause a request to the issuer.
_KEYS_STAY_S: Final = 60.0
# A key that the issuer withdrew is accepted no longer than this.
_KEYS_LAST_S: Final = 600.0
# A person waits for a login: 5 s. Key sets take a few kilobytes, so a megabyte is no answer of an issuer.
_HTTP: Final = HttpClient(timeout_s=5.0, largest_answer=1024 * 1024)


class IssuerError(Exception):
    """The issuer cannot be asked, or its answer is not acceptable; the message states why."""


class Issuer:
    """One issuer: its endpoints, read once, and its keys, read again when they are old or a token names an unknown one.

    `jwks` is where the keys are, a file or a URL; without it the issuer's own configuration names the place.
    """

    def __init__(
        self, url: str, audience: str, jwks: str | None = None, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        try:
            # Imported here and below: its cryptography takes a moment to import, and keys and signatures need none.
            import jwt  # noqa: F401
        except ModuleNotFoundError as error:
            raise CannotRun("OpenID Connect is not installed; run: pip install 'pyjwt[crypto]'") from error
        require_safe(jwks or url)
        self._url = url
        self._audience = audience
        self._jwks = jwks
        self._now = now
        self._endpoints: Mapping[str, str] | None = None
        self._keys: dict[str | None, Any] = {}
        self._read_at = self._asked_at = -math.inf
        self._lock = asyncio.Lock()

    async def endpoint(self, name: str) -> str:
        """Return the address of an endpoint; raises `IssuerError`."""
        async with self._lock:
            return await self._endpoint(name)

    async def redeem(self, form: Mapping[str, str], client_id: str, secret: str | None) -> Mapping[str, Any]:
        """Exchange a code at the token endpoint for the issuer's answer; raises `IssuerError`."""
        headers = {}
        if secret is not None:
            # RFC 6749, section 2.3.1: both are encoded as in a form before they become Basic credentials.
            pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        url = await self.endpoint("token_endpoint")
        return await _ask(_HTTP.send("POST", url, form=form, headers=headers))

    async def claims(self, token: str) -> Mapping[str, Any] | None:
        """Return the claims of the token, or None if its signature, issuer, audience or time is invalid."""
        import jwt

        try:
            key = await self._key(jwt.get_unverified_header(token).get("kid"))
            if key is None:
                return None
            found: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(_ALGORITHMS),
                audience=self._audience,
                issuer=self._url,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError:
            return None
        return found

    async def _key(self, kid: str | None) -> Any:
        if self._is_due(kid):
            async with self._lock:
                if self._is_due(kid):
                    self._asked_at = self._now()
                    keys = _parse_keys(await self._read_keys())
                    # While the issuer cannot be asked, the keys it had still count.
                    if keys is not None:
                        self._keys, self._read_at = keys, self._asked_at
        return self._keys.get(kid)

    def _is_due(self, kid: str | None) -> bool:
        if self._now() - self._asked_at <= _KEYS_STAY_S:
            return False
        return kid not in self._keys or self._now() - self._read_at > _KEYS_LAST_S

    async def _read_keys(self) -> bytes:
        """Return the key set, or nothing while it is unavailable."""
        try:
            place = self._jwks or await self._endpoint("jwks_uri")
            if not _is_url(place):
                return await asyncio.to_thread(Path(place).read_bytes)
            reply = await _HTTP.get(place)
        except (OSError, ValueError, CannotRun, IssuerError):
            return b""
        return reply.body if reply.status < 300 else b""

    async def _endpoint(self, name: str) -> str:
        if self._endpoints is None:
            found = await _ask(_HTTP.get(f"{self._url.rstrip('/')}/.well-known/openid-configuration"))
            self._endpoints = self._check(found)
        return self._endpoints[name]

    def _check(self, found: Mapping[str, Any]) -> Mapping[str, str]:
        if found.get("issuer") != self._url:
            raise IssuerError("the login service names itself differently than the settings do")
        places = {name: str(found.get(name)) for name in _ENDPOINTS}
        for place in places.values():
            if not _is_url(place):
                raise IssuerError("the login service does not name its endpoints")
            try:
                require_safe(place)
            except CannotRun:
                raise IssuerError("the login service has an endpoint without https") from None
        return places


async def _ask(request: Awaitable[Reply]) -> Mapping[str, Any]:
    try:
        reply = await request
    except (OSError, ValueError, CannotRun):
        raise IssuerError("the login service does not answer") from None
    found = reply.json()
    if reply.status >= 300:
        raise IssuerError(f"the login service refused ({reply.status})")
    if not isinstance(found, dict):
        raise IssuerError("the login service did not answer with a JSON object")
    return found


def _is_url(place: str) -> bool:
    return urlsplit(place).scheme in ("http", "https")


def _parse_keys(content: bytes) -> dict[str | None, Any] | None:
    """Return the keys for signatures; None for what is no key set."""
    import jwt

    try:
        document = json.loads(content)
        # An issuer that withdrew all its keys; the library takes an empty set for a mistake.
        found = jwt.PyJWKSet.from_dict(document).keys if document["keys"] else []
    except (jwt.PyJWTError, ValueError, AttributeError, TypeError, LookupError):
        return None
    return {key.key_id: key for key in found if key.public_key_use in (None, "sig")}
