"""Login at an OpenID issuer: authorization code with PKCE, and a verified id token."""

import asyncio
import base64
import hmac
import json
import secrets
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError
from urllib.parse import quote, urlencode

from verbworker.console.settings import OidcLogin
from verbworker.errors import CannotRun
from verbworker.http.outside import require_safe
from verbworker.ingress.settings import Oidc

if TYPE_CHECKING:
    from verbworker.ingress.oidc import Issuer

_PATIENCE_S: Final = 5.0
_LARGEST: Final = 1024 * 1024
_PLACES: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class LoginFailed(Exception):
    """The login failed; the message states why."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A login under way, stored in the browser that started it: no other answer matches."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> "Attempt":
        """Create an attempt with unguessable values."""
        return cls(secrets.token_urlsafe(24), secrets.token_urlsafe(24), secrets.token_urlsafe(48))

    @property
    def challenge(self) -> str:
        """The hash of the verifier that the issuer receives before the verifier itself."""
        return base64.urlsafe_b64encode(sha256(self.verifier.encode()).digest()).decode().rstrip("=")

    def fits(self, state: str) -> bool:
        """Return whether an answer belongs to this attempt."""
        return hmac.compare_digest(self.state.encode(), state.encode())


@dataclass(frozen=True, slots=True)
class Identity:
    """Who logged in, and for which tenant."""

    name: str
    tenant: str


class OidcClient:
    """The console as a client of its issuer."""

    def __init__(self, settings: OidcLogin, redirect_uri: str) -> None:
        try:
            # Imported here: its cryptography takes a moment to import, and logins by key do not need it.
            from verbworker.ingress.oidc import Issuer
        except ModuleNotFoundError as error:
            raise CannotRun("login by OIDC is not installed; run: pip install 'verbworker[console]'") from error
        require_safe(settings.issuer)
        self._checks = Issuer
        self._settings = settings
        self._redirect_uri = redirect_uri
        self._lock = asyncio.Lock()
        self._known: Mapping[str, str] | None = None
        self._issuer: Issuer | None = None

    async def address(self, attempt: Attempt) -> str:
        """Return the address to redirect the browser to."""
        known, _ = await self._discover()
        asked = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": self._settings.scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        place = known["authorization_endpoint"]
        return f"{place}{'&' if '?' in place else '?'}{urlencode(asked)}"

    async def identify(self, attempt: Attempt, code: str) -> Identity:
        """Return who logged in with this code; raises `LoginFailed`."""
        known, issuer = await self._discover()
        answer = await asyncio.to_thread(self._redeem, known["token_endpoint"], code, attempt.verifier)
        claims = await issuer.claims(str(answer.get("id_token", "")))
        if claims is None:
            raise LoginFailed("the login service sent a token that does not hold")
        nonce = claims.get("nonce")
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), attempt.nonce.encode()):
            raise LoginFailed("the login service answered another login")
        if claims.get("azp", self._settings.client_id) != self._settings.client_id:
            raise LoginFailed("the login service sent a token for somebody else")
        return self._identity(claims)

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        tenant = self._settings.tenant or claims.get(self._settings.tenant_claim)
        if not isinstance(tenant, str) or not tenant:
            raise LoginFailed("the login service does not say whose entries you may see")
        names = (claims.get(self._settings.name_claim), claims.get("email"), claims["sub"])
        name = next(str(name) for name in names if name)
        return Identity(name[:200], tenant)

    async def _discover(self) -> "tuple[Mapping[str, str], Issuer]":
        async with self._lock:
            if self._known is None or self._issuer is None:
                place = f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration"
                self._known = self._check_places(await asyncio.to_thread(_ask, urllib.request.Request(place)))
                keys = self._known["jwks_uri"]
                self._issuer = self._checks(
                    Oidc(issuer=self._settings.issuer, audience=self._settings.client_id, jwks=keys)
                )
            return self._known, self._issuer

    def _check_places(self, found: Mapping[str, Any]) -> Mapping[str, str]:
        if found.get("issuer") != self._settings.issuer:
            raise LoginFailed("the login service calls itself by another name than the settings do")
        places = {name: found.get(name) for name in _PLACES}
        if not all(isinstance(place, str) and place.startswith(("http://", "https://")) for place in places.values()):
            raise LoginFailed("the login service does not say where to log in")
        for place in places.values():
            try:
                require_safe(str(place))
            except CannotRun:
                raise LoginFailed("the login service wants to be asked without https") from None
        return {name: str(place) for name, place in places.items()}

    def _redeem(self, place: str, code: str, verifier: str) -> Mapping[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "client_id": self._settings.client_id,
            "code_verifier": verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if self._settings.client_secret is not None:
            pair = f"{quote(self._settings.client_id)}:{quote(self._settings.client_secret.get_secret_value())}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return _ask(urllib.request.Request(place, urlencode(form).encode(), headers))


def _ask(request: urllib.request.Request) -> Mapping[str, Any]:
    """Send a request and return the JSON object of the answer. Blocks: run it in a thread."""
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
            found = json.loads(answer.read(_LARGEST))
    except HTTPError as error:
        with error:
            raise LoginFailed(f"the login service refused ({error.code})") from None
    except (OSError, ValueError):
        raise LoginFailed("the login service does not answer") from None
    if not isinstance(found, dict):
        raise LoginFailed("the login service does not answer as one")
    return found
