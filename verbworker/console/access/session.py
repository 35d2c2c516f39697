"""Sessions: who uses the console, the cookies that only we can sign, and the token of every form. No I/O."""

import base64
import binascii
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from verbworker.contract.person import Person, as_person

_LONGEST = 4096  # browsers need not store longer cookies (RFC 6265)


@dataclass(frozen=True, slots=True)
class LoginSession:
    """A login: the person, the one tenant they see, their form token, when it ends, and its key on the server.

    Without a key it is the session of a console that needs no login; only its cookie has it.
    """

    person: Person
    tenant: str
    csrf: str
    ends_at: float
    key: bytes = b""

    @classmethod
    def of(cls, who: str | Person, tenant: str, *, now: float, lasts: float) -> "LoginSession":
        """Create a session with its own form token."""
        return cls(as_person(who), tenant, secrets.token_urlsafe(24), now + lasts)

    @property
    def name(self) -> str:
        """The name that is recorded for what this person does."""
        return self.person.name


class Signer:
    """Signs what a browser stores for us, each value bound to its kind, and reads only what it signed."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)

    def sign(self, kind: str, value: Mapping[str, Any]) -> str:
        """Return the value as a signed cookie. Its holder can read it but not change it."""
        body = _text(json.dumps(dict(value), separators=(",", ":")).encode())
        return f"{body}.{_text(self._mac(kind, body))}"

    def read(self, kind: str, cookie: str | None) -> Mapping[str, Any] | None:
        """Return what was signed as this kind, or None."""
        if not cookie or len(cookie) > _LONGEST:
            return None
        body, _, shown = cookie.partition(".")
        mac = _bytes(shown)
        if mac is None or not hmac.compare_digest(mac, self._mac(kind, body)):
            return None
        content = _bytes(body)
        found = None if content is None else json.loads(content)
        return found if isinstance(found, dict) else None

    def session(self, cookie: str | None, *, now: float) -> LoginSession | None:
        """Return the session that a cookie holds, unless it has expired."""
        found = self.read("session", cookie)
        if found is None or found["e"] <= now:
            return None
        return LoginSession(Person(found["n"]), found["t"], found["c"], found["e"])

    def cookie(self, session: LoginSession) -> str:
        """Return the cookie that holds a session."""
        return self.sign("session", {"n": session.name, "t": session.tenant, "c": session.csrf, "e": session.ends_at})

    def _mac(self, kind: str, body: str) -> bytes:
        return hmac.new(self._key, f"{kind}.{body}".encode(), sha256).digest()


def fits(session: LoginSession, token: str | None) -> bool:
    """Return whether a form included the session's token."""
    return token is not None and hmac.compare_digest(session.csrf.encode(), token.encode())


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
