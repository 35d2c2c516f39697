"""Dead letters: undeliverable messages, until a person redelivers or discards each."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from verbworker.contract.message import Undeliverable
from verbworker.contract.text import escape_hidden
from verbworker.errors import MessageInvalid, NotFound, Refused, RequestConflict
from verbworker.runbook.event import Kind
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Connection, Database
from verbworker.stores.messages.inbox import ClaimedMessage, Inbox
from verbworker.stores.sql import query

_MOST_OF_A_BODY: Final = 64 * 1024  # bytes kept of a message that could not be read


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter for display: reason, message and resolution. Never the payload."""

    letter_id: UUID
    tenant_id: str
    message_id: str | None
    message_name: str | None
    correlation_key: str | None
    entry_id: UUID | None
    code: str
    reason: str
    sent_by: str
    generation: int
    state: str
    created_at: datetime
    resolved_at: datetime | None
    resolved_by: str | None
    resolved_reason: str | None


class DeadLetters:
    """The dead letters of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._runbook = Runbook(database)

    async def bury(self, inbox: Inbox, claimed: ClaimedMessage, why: Undeliverable) -> UUID | None:
        """Give up on a message and record that in its entry, in one commit; None when the claim is lost."""
        async with self._database.transaction() as connection:
            if not await inbox.bury_in(connection, claimed, why.reason):
                return None
            entry_id: UUID | None = await connection.fetchval(
                query("dead_letters", "entry_of"),
                claimed.entry_id,
                why.entry_id,
                claimed.instance_uid,
                claimed.tenant_id,
            )
            letter_id: UUID = await connection.fetchval(
                query("dead_letters", "write"),
                claimed.tenant_id,
                claimed.message_id,
                claimed.message_name,
                claimed.correlation_key,
                entry_id,
                why.code.value,
                why.reason[:1000],
                claimed.sent_by,
                claimed.generation,
            )
            if entry_id is not None:
                await self._tell(connection, entry_id, letter_id, claimed, why)
            return letter_id

    async def bury_unreadable(self, tenant_id: str, body: bytes, reason: str, *, sent_by: str) -> None:
        """Store the start of a body that could not be parsed, and why, with hidden characters made visible."""
        reason = escape_hidden(reason)
        await self._database.execute(
            query("dead_letters", "write_unreadable"), tenant_id, reason[:1000], body[:_MOST_OF_A_BODY], sent_by
        )

    async def list(self, tenant_id: str, *, resolved: bool = False, limit: int = 100) -> list[DeadLetter]:
        """Return a tenant's letters, oldest first; with `resolved` also those already resolved."""
        rows = await self._database.fetch(query("dead_letters", "list"), tenant_id, resolved, limit)
        return [DeadLetter(**row) for row in rows]

    async def read(self, letter_id: UUID, tenant_id: str) -> DeadLetter:
        """Return one letter; raise `NotFound` when it does not exist or is another tenant's."""
        row = await self._database.fetchrow(query("dead_letters", "read"), letter_id, tenant_id)
        if row is None:
            raise NotFound(f"there is no dead letter {letter_id}")
        return DeadLetter(**row)

    async def open_of(self, tenant_id: str, message_id: str) -> UUID | None:
        """Return the letter of a message that still waits for a decision."""
        row = await self._database.fetchrow(query("dead_letters", "open_of"), tenant_id, message_id)
        return None if row is None else row["letter_id"]

    async def redeliver(
        self, letter_id: UUID, tenant_id: str, *, by: str, reason: str, key: str | None = None
    ) -> DeadLetter:
        """Deliver a message again, once; `RequestConflict` reports who decided otherwise and when."""
        if key is not None and not key.strip():
            raise MessageInvalid("the correlation key is blank: give the one of the case, or none to keep the old one")
        letter = await self.read(letter_id, tenant_id)
        if letter.message_id is None:
            raise Refused("this letter could not be read, so it cannot be redelivered: send it in the right form")
        async with self._database.transaction() as connection:
            args = (letter.tenant_id, letter.message_id, letter.generation, key)
            moved = await connection.fetchval(query("dead_letters", "requeue"), *args)
            if moved is not None:
                resolved = await self._resolve(connection, letter_id, "redelivered", by, reason)
                assert resolved, "a message that is dead has an open letter"
                return letter
        raise await self._conflict(letter_id, tenant_id)

    async def discard(self, letter_id: UUID, tenant_id: str, *, by: str, reason: str) -> DeadLetter:
        """Give up on a message for good, once; `RequestConflict` reports who decided otherwise and when."""
        letter = await self.read(letter_id, tenant_id)
        async with self._database.transaction() as connection:
            if letter.message_id is not None:
                args = (letter.tenant_id, letter.message_id, letter.generation)
                await connection.fetchval(query("dead_letters", "discard"), *args)
            if await self._resolve(connection, letter_id, "discarded", by, reason):
                return letter
        raise await self._conflict(letter_id, tenant_id)

    async def _resolve(self, connection: Connection, letter_id: UUID, state: str, by: str, reason: str) -> bool:
        done = await connection.fetchval(query("dead_letters", "resolve"), letter_id, state, by, reason)
        return done is not None

    async def _conflict(self, letter_id: UUID, tenant_id: str) -> RequestConflict:
        letter = await self.read(letter_id, tenant_id)
        return RequestConflict(
            f"the letter was {letter.state} before, by {letter.resolved_by}"
            f" at {letter.resolved_at:%Y-%m-%d %H:%M:%S} UTC: {letter.resolved_reason}"
        )

    async def _tell(
        self, connection: Connection, entry_id: UUID, letter_id: UUID, claimed: ClaimedMessage, why: Undeliverable
    ) -> None:
        detail = {
            "message_name": claimed.message_name,
            "message_id": claimed.message_id,
            "correlation_key": claimed.correlation_key,
            "code": why.code.value,
            "reason": why.reason,
            "letter_id": letter_id,
        }
        await self._runbook.append_in(
            connection, entry_id, Kind.CORRELATION_FAILED, once=f"dead:{letter_id}", detail=detail
        )
