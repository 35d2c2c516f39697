"""Sessions of the console: who is logged in by which credential, until when, and when they were last active."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from verbworker.contract.person import Person
from verbworker.stores.database import Database, Row
from verbworker.stores.sql import query

# A person who reads page after page costs one write a minute.
_SHORTEST_STEP = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session that is neither ended nor over, and whether its last use should be written again."""

    session_hash: bytes
    tenant_id: str
    person: Person
    credential: bytes
    ends_at: datetime
    is_due: bool


class ConsoleSessions:
    """All sessions in one database, under the limits of one console. Time is Postgres'."""

    def __init__(self, database: Database, *, absolute: timedelta, idle: timedelta) -> None:
        self._database = database
        self._absolute = absolute
        self._idle = idle

    async def begin(self, session_hash: bytes, *, tenant: str, person: Person, credential: bytes) -> None:
        """Begin a session."""
        roles = None if person.roles is None else sorted(person.roles)
        who = person.name, person.issuer, person.subject, roles
        await self._database.execute(
            query("console_sessions", "begin"), session_hash, tenant, *who, credential, self._absolute
        )

    async def find(self, hashes: Collection[bytes]) -> list[StoredSession]:
        """Return those of the sessions that are neither ended nor over."""
        step = min(_SHORTEST_STEP, self._idle / 4)
        rows = await self._database.fetch(
            query("console_sessions", "find"), list(hashes), self._absolute, self._idle, step
        )
        return [_session(row) for row in rows]

    async def note_use(self, session_hash: bytes) -> None:
        """Record that its person is active."""
        await self._database.execute(query("console_sessions", "note_use"), session_hash)

    async def end(self, hashes: Collection[bytes]) -> None:
        """End sessions for good; ended ones stay as they are."""
        await self._database.execute(query("console_sessions", "end"), list(hashes))


def _session(row: Row) -> StoredSession:
    roles = None if row["roles"] is None else frozenset(row["roles"])
    return StoredSession(
        session_hash=row["session_hash"],
        tenant_id=row["tenant_id"],
        person=Person(row["name"], roles, row["issuer"], row["subject"]),
        credential=row["credential"],
        ends_at=row["ends_at"],
        is_due=row["is_due"],
    )
