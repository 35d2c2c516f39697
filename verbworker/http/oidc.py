"""Tokens of an OpenID issuer: checks signature, issuer, audience and time, then reads the tenant."""

import asyncio
import json
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import jwt

from verbworker.http.outside import require_safe
from verbworker.ingress.settings import Oidc

_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Asymmetric only: with a shared secret, every service that checks tokens could also make them."""

_LEEWAY_S: Final = 30
_FETCH_S: Final = 5.0
_LARGEST: Final = 1024 * 1024
_YOUNG_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Bearer:
    """The subject and tenant of a token."""

    subject: str
    tenant_id: str


class Issuer:
    """One issuer and its keys, read when first needed and again when a token names an unknown key."""

    def __init__(self, settings: Oidc, *, now: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._now = now
        self._keys: dict[str | None, Any] = {}
        self._read_at: float | None = None
        self._lock = asyncio.Lock()
        require_safe(settings.jwks)

    async def verify(self, token: str) -> Bearer | None:
        """Return the subject and tenant of the token, or None if it is invalid."""
        claims = await self.claims(token)
        tenant = None if claims is None else claims.get(self._settings.tenant_claim)
        return Bearer(str(claims["sub"]), tenant) if claims and isinstance(tenant, str) and tenant else None

    async def claims(self, token: str) -> Mapping[str, Any] | None:
        """Return the claims of the token, or None if its signature, issuer, audience or time is invalid."""
        try:
            kid = jwt.get_unverified_header(token).get("kid")
            key = await self._key(kid)
            if key is None:
                return None
            found: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(_ALGORITHMS),
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError:
            return None
        return found

    async def _key(self, kid: str | None) -> Any:
        if kid not in self._keys:
            async with self._lock:
                if kid not in self._keys and self._may_read():
                    self._read_at = self._now()
                    self._keys = _keys(await asyncio.to_thread(_fetch, self._settings.jwks)) or self._keys
        return self._keys.get(kid)

    def _may_read(self) -> bool:
        # Tokens from strangers that name unknown keys must not each cause a request to the issuer.
        return self._read_at is None or self._now() - self._read_at > _YOUNG_S


def _fetch(place: str) -> bytes:
    """Read a key set from a file or a URL; empty if it is unavailable. Blocks: run it in a thread."""
    try:
        if urlsplit(place).scheme in ("http", "https"):
            with urllib.request.urlopen(place, timeout=_FETCH_S) as answer:
                return bytes(answer.read(_LARGEST))
        return Path(place).read_bytes()
    except (OSError, ValueError):
        return b""


def _keys(content: bytes) -> dict[str | None, Any]:
    try:
        found = jwt.PyJWKSet.from_dict(json.loads(content)).keys
    except (jwt.PyJWTError, ValueError, AttributeError, TypeError):
        return {}
    return {key.key_id: key for key in found if key.public_key_use in (None, "sig")}
