"""Sessions on the server: the browser has a signed id, and what it stands for is looked up at every request."""

import secrets
from collections.abc import Collection
from hashlib import sha256

from verbworker.console.access.live_logins import LiveLogins
from verbworker.console.access.session import LoginSession, Signer
from verbworker.contract.person import Person
from verbworker.stores.people.console_sessions import ConsoleSessions, StoredSession


class SessionStore:
    """Begins, finds and ends the sessions of people who logged in."""

    def __init__(self, signer: Signer, rows: ConsoleSessions, logins: LiveLogins) -> None:
        self._signer = signer
        self._rows = rows
        self._logins = logins

    async def begin(self, person: Person, tenant: str, credential: bytes) -> str:
        """Begin a session and return its cookie."""
        session_id, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(24)
        await self._rows.begin(_hash(session_id), tenant=tenant, person=person, credential=credential)
        return self._signer.sign("login session", {"i": session_id, "c": csrf})

    async def find(self, cookie: str | None, *, is_active: bool) -> LoginSession | None:
        """Return the session of a cookie while it lasts; `is_active` is whether its person did something just now."""
        shown = self._signer.read("login session", cookie)
        if shown is None:
            return None
        found = await self._valid([_hash(shown["i"])])
        if not found:
            return None
        session = found[0]
        if is_active and session.is_due:
            await self._rows.note_use(session.session_hash)
        return LoginSession(
            session.person, session.tenant_id, shown["c"], session.ends_at.timestamp(), session.session_hash
        )

    async def end(self, session: LoginSession) -> None:
        """End a session; no copy of its cookie is worth anything after this."""
        await self._rows.end([session.key])

    async def filter_valid(self, keys: Collection[bytes]) -> set[bytes]:
        """Return which of these sessions still last."""
        return {session.session_hash for session in await self._valid(keys)}

    async def _valid(self, keys: Collection[bytes]) -> list[StoredSession]:
        found = await self._rows.find(keys)
        gone = [session.session_hash for session in found if not self._logins.knows(session.credential)]
        if gone:
            # For good: a key that is configured again must not bring them back.
            await self._rows.end(gone)
        return [session for session in found if session.session_hash not in gone]


def _hash(session_id: str) -> bytes:
    return sha256(session_id.encode()).digest()
