"""Authenticates the sender of a request before its content is trusted."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from verbworker.api.settings import ApiScope, Credentials, Oidc, ScopedKey
from verbworker.api.webhook import Signed, parse_signature, secret_of
from verbworker.contract.person import Person, find_claim, read_roles
from verbworker.contract.text import is_subject, is_tenant
from verbworker.http.keys import API_KEY, holder_of
from verbworker.http.live_credentials import LiveCredentials
from verbworker.http.oidc import Issuer


@dataclass(frozen=True, slots=True)
class Sender:
    """A sender, what it may do, and the one tenant it acts for; None, any tenant, only without authentication."""

    name: str
    tenant_id: str | None
    scopes: frozenset[ApiScope] = frozenset({ApiScope.MESSAGES})
    roles: frozenset[str] | None = None
    issuer: str | None = None
    subject: str | None = None
    credential: str = field(default="", compare=False)  # the digest of a key

    @property
    def person(self) -> Person:
        """The sender as a person."""
        return Person(self.name, self.roles, self.issuer, self.subject)


def make_issuer(oidc: Oidc) -> Issuer:
    """Return the issuer that the settings name."""
    return Issuer(oidc.issuer, oidc.audience, oidc.jwks)


class KnownSenders:
    """The senders of one set of credentials; raises `ContractInvalid` for an issuer or a secret that cannot be used."""

    def __init__(self, credentials: Credentials, make_issuer: Callable[[Oidc], Issuer] = make_issuer) -> None:
        self.keys = [(bytes.fromhex(key.sha256), _sender_of_key(key)) for key in credentials.api_keys]
        self.webhooks = [
            ([secret_of(secret.get_secret_value()) for secret in one.secrets], Sender(one.name, one.tenant))
            for one in credentials.webhooks
        ]
        self.oidc = credentials.oidc
        self.issuer = None if credentials.oidc is None else make_issuer(credentials.oidc)

    def __bool__(self) -> bool:
        return bool(self.keys or self.webhooks or self.oidc)


class Guard:
    """Knows every credential. A request must present one of them before any of it is processed."""

    def __init__(
        self,
        senders: LiveCredentials[KnownSenders],
        *,
        tolerance: float,
        open_to_all: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._senders = senders
        self._tolerance = tolerance
        self._open_to_all = open_to_all
        self._now = now

    async def ask(self, headers: Mapping[str, str]) -> Sender | Signed | None:
        """Identify the sender by the headers; a signature is returned unverified, because it also needs the body."""
        if self._open_to_all:
            return Sender("anybody", None, frozenset(ApiScope))
        known = self._senders.current()
        if known.webhooks and "webhook-signature" in headers:
            return parse_signature(headers, now=self._now(), tolerance=self._tolerance)
        if API_KEY in headers:
            return holder_of(headers[API_KEY], known.keys)
        kind, _, token = headers.get("authorization", "").partition(" ")
        if known.issuer is not None and known.oidc is not None and kind.lower() == "bearer":
            return _bearer(await known.issuer.claims(token.strip()), known.oidc)
        return None

    def signer(self, claim: Signed, body: bytes) -> Sender | None:
        """Return the sender whose signature it is."""
        found = None
        for secrets, sender in self._senders.current().webhooks:
            if claim.fits(body, secrets):
                found = sender
        return found

    def admits(self, sender: Sender) -> bool:
        """Return whether the credential of a sender is still configured as it was, so that a long answer may go on."""
        known = self._senders.current()
        if sender.issuer is not None:
            return known.oidc is not None and (known.oidc.issuer, known.oidc.scopes) == (sender.issuer, sender.scopes)
        same = (holder for _, holder in known.keys if holder == sender and holder.credential == sender.credential)
        return self._open_to_all or any(same)


def _sender_of_key(key: ScopedKey) -> Sender:
    return Sender(key.name, key.tenant, key.scopes, key.roles, credential=key.sha256)


def _bearer(claims: Mapping[str, Any] | None, oidc: Oidc) -> Sender | None:
    tenant = None if claims is None else claims.get(oidc.tenant_claim)
    if not claims or not isinstance(tenant, str) or not is_tenant(tenant) or not is_subject(claims["sub"]):
        return None
    roles = None if oidc.roles_claim is None else read_roles(find_claim(claims, oidc.roles_claim), oidc.roles)
    return Sender(f"oidc:{claims['sub']}", tenant, oidc.scopes, roles, oidc.issuer, str(claims["sub"]))
