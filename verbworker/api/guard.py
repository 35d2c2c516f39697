"""Authenticates the sender of a request before its content is trusted."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from verbworker.api.settings import Credentials, Scope
from verbworker.api.webhook import Signed, parse_signature, secret_of
from verbworker.contract.person import Person, find_claim, read_roles
from verbworker.contract.text import is_name
from verbworker.http.keys import API_KEY, holder_of
from verbworker.http.oidc import Issuer


@dataclass(frozen=True, slots=True)
class Sender:
    """A sender, what it may do, and the one tenant it acts for; None, any tenant, only without authentication."""

    name: str
    tenant_id: str | None
    scopes: frozenset[Scope] = frozenset({Scope.MESSAGES})
    roles: frozenset[str] | None = None
    issuer: str | None = None
    subject: str | None = None

    @property
    def person(self) -> Person:
        """The sender as a person."""
        return Person(self.name, self.roles, self.issuer, self.subject)


class Guard:
    """Knows every credential. A request must present one of them before any of it is processed."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        tolerance: float,
        issuer: Issuer | None = None,
        open_to_all: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._keys = [
            (bytes.fromhex(key.sha256), Sender(key.name, key.tenant, key.scopes, key.roles))
            for key in credentials.api_keys
        ]
        self._webhooks = [
            ([secret_of(secret.get_secret_value()) for secret in one.secrets], Sender(one.name, one.tenant))
            for one in credentials.webhooks
        ]
        self._issuer = issuer
        self._oidc = credentials.oidc
        self._tolerance = tolerance
        self._open_to_all = open_to_all
        self._now = now

    async def ask(self, headers: Mapping[str, str]) -> Sender | Signed | None:
        """Identify the sender by the headers; a signature is returned unverified, because it also needs the body."""
        if self._open_to_all:
            return Sender("anybody", None, frozenset(Scope))
        if self._webhooks and "webhook-signature" in headers:
            return parse_signature(headers, now=self._now(), tolerance=self._tolerance)
        if API_KEY in headers:
            return holder_of(headers[API_KEY], self._keys)
        kind, _, token = headers.get("authorization", "").partition(" ")
        if self._issuer is not None and kind.lower() == "bearer":
            return self._bearer(await self._issuer.claims(token.strip()))
        return None

    def signer(self, claim: Signed, body: bytes) -> Sender | None:
        """Return the sender whose signature it is."""
        found = None
        for secrets, sender in self._webhooks:
            if claim.fits(body, secrets):
                found = sender
        return found

    def _bearer(self, claims: Mapping[str, Any] | None) -> Sender | None:
        oidc = self._oidc
        tenant = None if claims is None or oidc is None else claims.get(oidc.tenant_claim)
        if not claims or oidc is None or not isinstance(tenant, str) or not tenant:
            return None
        if not is_name(f"{tenant}{claims['sub']}"):
            return None
        roles = None if oidc.roles_claim is None else read_roles(find_claim(claims, oidc.roles_claim), oidc.roles)
        return Sender(f"oidc:{claims['sub']}", tenant, oidc.scopes, roles, oidc.issuer, str(claims["sub"]))
