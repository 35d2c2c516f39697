"""Login at an OpenID issuer: authorization code with PKCE, and a verified id token."""

import base64
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

from verbworker.console.access.live_logins import credential_of_issuer
from verbworker.console.settings import OidcLogin
from verbworker.contract.person import MOST_ROLES, Person, find_claim, read_roles
from verbworker.contract.text import is_name, is_subject, is_tenant
from verbworker.http.oidc import Issuer, IssuerError


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

    person: Person
    tenant: str


class OidcClient:
    """The console as a client of its issuer."""

    def __init__(self, settings: OidcLogin, redirect_uri: str) -> None:
        self._settings = settings
        self._redirect_uri = redirect_uri
        self._issuer = Issuer(settings.issuer, settings.client_id)
        self.credential = credential_of_issuer(settings)

    async def address(self, attempt: Attempt) -> str:
        """Return the address to redirect the browser to; raises `IssuerError`."""
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
        place = await self._issuer.endpoint("authorization_endpoint")
        return f"{place}{'&' if '?' in place else '?'}{urlencode(asked)}"

    async def identify(self, attempt: Attempt, code: str) -> Identity:
        """Return who logged in with this code; raises `IssuerError`."""
        settings = self._settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "client_id": settings.client_id,
            "code_verifier": attempt.verifier,
        }
        secret = None if settings.client_secret is None else settings.client_secret.get_secret_value()
        answer = await self._issuer.redeem(form, settings.client_id, secret)
        claims = await self._issuer.claims(str(answer.get("id_token", "")))
        if claims is None:
            raise IssuerError("the login service sent an invalid token")
        nonce = claims.get("nonce")
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), attempt.nonce.encode()):
            raise IssuerError("the login service answered a different login")
        if claims.get("azp", settings.client_id) != settings.client_id:
            raise IssuerError("the login service sent a token for another client")
        return self._identity(claims)

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        tenant = self._settings.tenant or claims.get(self._settings.tenant_claim)
        if not isinstance(tenant, str) or not is_tenant(tenant):
            raise IssuerError("the login service does not say which tenant you belong to")
        if not is_subject(claims["sub"]):
            raise IssuerError("the login service does not name you by a subject of at most 255 characters")
        names = (claims.get(self._settings.name_claim), claims.get("email"), claims["sub"])
        name = next(str(name) for name in names if name)
        person = Person(name[:200], self._roles(claims), self._settings.issuer, str(claims["sub"]))
        if not is_name(name):
            raise IssuerError("the login service names you with control characters")
        return Identity(person, tenant)

    def _roles(self, claims: Mapping[str, Any]) -> frozenset[str] | None:
        if self._settings.roles_claim is None:
            return None
        roles = read_roles(find_claim(claims, self._settings.roles_claim), self._settings.roles)
        if len(roles) > MOST_ROLES:
            raise IssuerError("the login service names too many roles: set `roles` to those that matter here")
        return roles
