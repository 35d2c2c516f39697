"""The inbox: messages from outside, stored before their sender gets an answer and kept until a case has read them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from verbworker.contract.message import Candidate, Message
from verbworker.contract.quota import NO_QUOTAS, Quotas
from verbworker.contract.verb import ReceivedMessage
from verbworker.errors import RequestConflict, StoreError
from verbworker.job.trace_context import ambient_traceparent
from verbworker.runbook.event import Kind
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Connection, Database, Row
from verbworker.stores.messages.received_message import read_message
from verbworker.stores.rows import value_of
from verbworker.stores.sql import query
from verbworker.stores.tenants.tenant_use import refuse_excess
from verbworker.stores.tenants.turns import Turns

SLACK = timedelta(minutes=1)
"""How much later than the engine we give up on a message: it may have been read, and we learn of that late."""

_NOW = timedelta(0)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of receiving a message: whether it is new, and its state."""

    is_new: bool
    state: str


@dataclass(frozen=True, slots=True)
class ClaimedMessage:
    """A claimed message to deliver: what the engine will receive, without the payload."""

    tenant_id: str
    message_id: str
    message_name: str
    correlation_key: str
    entry_id: UUID | None
    state: str
    instance_uid: UUID | None
    ttl: timedelta
    generation: int
    attempts: int
    sent_by: str
    traceparent: str | None
    workflow_id: str | None
    correlation_id: str | None
    causation_id: str | None
    is_over: bool


@dataclass(frozen=True, slots=True)
class EndedWait:
    """A wait, by its element and the payload it was reached with, where these identify one visit."""

    element_id: str | None
    input_hash: bytes | None


UNNAMED = EndedWait(None, None)


class Inbox:
    """The messages for one engine. Every write of a delivery applies only while the claim is ours."""

    def __init__(self, database: Database, *, engine_id: str, owner: UUID, quotas: Quotas = NO_QUOTAS) -> None:
        self._database = database
        self._quotas = quotas
        self._engine_id = engine_id
        self._owner = owner
        self._turns = Turns()
        self._runbook = Runbook(database)

    async def receive(
        self, message: Message, *, sent_by: str, ttl: timedelta, keep_for: timedelta | None = None
    ) -> Receipt:
        """Store a message; a repetition is accepted again. `RequestConflict` when its ID has another body.

        With `keep_for`, only this process may deliver it for that long. Raises `QuotaExceeded`, and stores nothing,
        when the tenant has used up a quota.
        """
        body_hash, quota = message.body_hash, self._quotas.of(message.tenant_id)
        given = (
            *(message.tenant_id, message.message_id, message.message_name, message.correlation_key, body_hash),
            *(message.content, message.entry_id, message.correlation_id, message.causation_id),
            # The envelope's own, or of the program that sends it; a repetition may come in another trace.
            message.traceparent or ambient_traceparent(),
            *(sent_by, self._engine_id, ttl, None if keep_for is None else self._owner, keep_for or _NOW),
            *(message.workflow_id, message.is_opaque),
        )
        async with self._database.transaction() as connection:
            if quota.limits_messages:
                limits = quota.messages_per_minute, quota.message_bytes_per_minute, quota.waiting_messages
                made = await connection.fetchrow(query("inbox", "receive_within"), *given, *limits)
                refuse_excess(made, message.tenant_id, quota)
            else:
                made = await connection.fetchrow(query("inbox", "receive"), *given)
            if made is not None and made["message_id"] is not None:
                return Receipt(is_new=True, state="received")
            row = await connection.fetchrow(query("inbox", "read"), message.tenant_id, message.message_id)
        assert row is not None, "an id that conflicts has a message"
        if row["body_hash"] != body_hash:
            raise RequestConflict(
                f"the message id {message.message_id!a} was used before for another message,"
                f" at {row['received_at']:%Y-%m-%d %H:%M:%S} UTC"
            )
        return Receipt(is_new=False, state=row["state"])

    async def claim(self, limit: int, *, names: Collection[str], claim_for: timedelta) -> list[ClaimedMessage]:
        """Claim due messages of these names, and those that no deployed process waits for or whose time is over.

        A backlog of several tenants is served in turn. The claim of a process that dies expires after the timeout.
        """
        turns, given = self._turns, (self._engine_id, self._owner, limit, claim_for, list(names))
        if turns.is_next:
            rows = await self._database.fetch(query("inbox", "claim_in_turn"), *given, turns.served)
        else:
            rows = await self._database.fetch(query("inbox", "claim"), *given)
        turns.note(rows, limit)
        return [value_of(ClaimedMessage, row) for row in rows]

    async def seize(self, tenant_id: str, message_id: str, *, claim_for: timedelta) -> ClaimedMessage | None:
        """Claim one message to deliver it now; None when it is claimed already or needs no delivery."""
        row = await self._database.fetchrow(query("inbox", "seize"), tenant_id, message_id, self._owner, claim_for)
        return None if row is None else ClaimedMessage(**row)

    async def candidates(self, claimed: ClaimedMessage, declared: Mapping[str, str]) -> list[Candidate]:
        """Return the instances a message may be for, given the workflow verbs that take it and their key names."""
        rows = await self._database.fetch(
            query("inbox", "candidates"),
            self._engine_id,
            claimed.correlation_key,
            list(declared),
            list(declared.values()),
        )
        return [Candidate(**row) for row in rows]

    async def fits_workflow(self, instance_uid: UUID, workflow_id: str) -> bool:
        """Return whether a workflow ID is that of this instance: its business key or its entry."""
        row = await self._database.fetchrow(query("inbox", "is_named"), instance_uid, workflow_id)
        return row is not None and bool(row["is_named"])

    async def aim(self, claimed: ClaimedMessage, instance_uid: UUID) -> bool:
        """Record the instance a message is for, before the engine receives it.

        Returns False when the claim is lost, or another message of its name and key is on its way.
        """
        try:
            return await self._run_fenced_query("aim", claimed, instance_uid)
        except StoreError as error:
            if error.is_duplicate:  # that one was a little quicker
                return False
            raise

    async def record_send(self, claimed: ClaimedMessage, *, slack: timedelta = SLACK) -> bool:
        """Record that the engine has it; False when a case has already read it."""
        return await self._run_fenced_query("sent", claimed, slack)

    async def postpone(self, claimed: ClaimedMessage, *, by: timedelta, reason: str) -> None:
        """Retry later, and record why."""
        await self._database.execute(query("inbox", "postpone"), *self._key(claimed), by, reason[:1000])

    async def bury_in(self, connection: Connection, claimed: ClaimedMessage, reason: str) -> bool:
        """Give up on a message, in the transaction that writes its dead letter; False when the claim is lost."""
        return await connection.fetchval(query("inbox", "bury"), *self._key(claimed), reason) is not None

    async def strand(self) -> None:
        """Make messages due that the engine still holds for an ended case."""
        await self._database.execute(query("inbox", "strand"), self._engine_id)

    async def consume_in(
        self,
        connection: Connection,
        instance_uid: UUID,
        message_name: str,
        correlation_key: str,
        *,
        ended: EndedWait = UNNAMED,
    ) -> ReceivedMessage | None:
        """Return the message that ended a wait of an instance, and record it in the entry once.

        None when no message of ours was under way, or when one already ended this very wait. For a wait without a name
        the caller must ensure that it asks only once.
        """
        what = instance_uid, message_name, correlation_key, ended.element_id, ended.input_hash
        row = await connection.fetchrow(query("inbox", "consume"), *what)
        if row is None:
            return None
        if row["was_dead"]:
            # Given up, but read after all: a person has nothing left to do.
            await connection.execute(query("inbox", "lift"), row["tenant_id"], row["message_id"], row["generation"])
        entry_id = await connection.fetchval(query("inbox", "entry_of"), instance_uid)
        if entry_id is not None:
            await self._runbook.append_in(
                connection,
                entry_id,
                Kind.MESSAGE_RECEIVED,
                once=f"message:{row['message_id']}",
                detail=_details_of(row),
            )
        place = row["message_name"], row["message_id"], row["correlation_key"]
        return read_message(*place, row["payload"], row["received_at"], is_opaque=row["is_opaque"])

    async def has_ended_in(
        self, connection: Connection, instance_uid: UUID, message_name: str, ended: EndedWait
    ) -> bool:
        """Return whether a message already ended this very wait."""
        what = instance_uid, message_name, ended.element_id, ended.input_hash
        return bool(await connection.fetchval(query("inbox", "has_ended"), *what))

    async def forget_in(self, connection: Connection, instance_uid: UUID, message_name: str, ended: EndedWait) -> None:
        """Have a message sent again: the engine waits again where it had ended the wait."""
        what = instance_uid, message_name, ended.element_id, ended.input_hash
        await connection.execute(query("inbox", "forget"), *what)

    async def claim_forgotten(self, limit: int, *, claim_for: timedelta) -> list[ClaimedMessage]:
        """Claim messages that the engine forgot and waits for."""
        rows = await self._database.fetch(query("inbox", "claim_forgotten"), self._engine_id, limit, claim_for)
        return [ClaimedMessage(**row) for row in rows if not row["is_over"]]

    async def resent(self, claimed: ClaimedMessage) -> None:
        """Record that the engine again has a message it had forgotten."""
        await self._database.execute(query("inbox", "resent"), claimed.tenant_id, claimed.message_id)

    async def backlog(self) -> tuple[int, float]:
        """Return how many messages wait for delivery, and for how many seconds the oldest has."""
        row = await self._database.fetchrow(query("inbox", "backlog"), self._engine_id)
        assert row is not None
        return row["waiting"], row["oldest"] or 0.0

    async def _run_fenced_query(self, name: str, claimed: ClaimedMessage, value: object) -> bool:
        return await self._database.fetchrow(query("inbox", name), *self._key(claimed), value) is not None

    def _key(self, claimed: ClaimedMessage) -> tuple[object, ...]:
        return claimed.tenant_id, claimed.message_id, self._owner, claimed.generation


def _details_of(row: Row) -> dict[str, Any]:
    """Return a message's details for the runbook: everything needed to find it, nothing of its payload."""
    names = ("message_name", "message_id", "correlation_key", "correlation_id", "causation_id", "traceparent")
    return {name: row[name] for name in names if row[name] is not None} | {
        "received_at": row["received_at"].isoformat()
    }
