"""Human gates: what waits for a person, what people decided, and whether the engine knows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from verbworker.contract.verb import Decision, ReceivedMessage
from verbworker.runbook.event import Kind, ParkedToken
from verbworker.stores.cases.page_key import PageKey
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Connection, Database, Row
from verbworker.stores.messages.received_message import read_message
from verbworker.stores.rows import value_of
from verbworker.stores.sql import query

_LONGEST_REASON = 1000  # characters of an engine's answer, as of starts and messages; the rest is in the log


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The decision at a gate; `answer` is None until the engine has received it, and `trouble` says why it has not."""

    decision: str
    reason: str
    by: str
    at: datetime
    answer: str | None
    trouble: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HumanGate:
    """A gate an entry waits at, or waited at."""

    token_id: UUID
    tenant_id: str
    entry_id: UUID
    instance_uid: UUID
    engine_id: str
    job_key: int | None
    user_task_key: int | None
    engine_assignee: str | None
    claim_trouble: str | None
    instance_key: int
    element_instance_key: int
    gate: str
    reason: str
    detail: Mapping[str, Any]
    claimed_by: str | None
    claimed_at: datetime | None
    opened_at: datetime
    seen_at: datetime
    closed_at: datetime | None
    closed_as: str | None
    sentence: str | None
    verb: str | None
    verdict: GateVerdict | None
    claimed_by_id: UUID | None = None

    @property
    def is_mirrored(self) -> bool:
        """Return whether the engine has the latest claim or release; always for a task that is not native."""
        return self.user_task_key is None or self.claimed_by == self.engine_assignee

    @property
    def key(self) -> PageKey:
        """Return the start of the next page."""
        return PageKey(self.opened_at, self.token_id)

    @property
    def decisions(self) -> tuple[str, ...]:
        """Return the decisions it accepts; empty means any."""
        return tuple(self.detail.get("decisions", ()))

    @property
    def distinct_from(self) -> tuple[str, ...]:
        """Return the gates whose deciders may not decide here."""
        return tuple(self.detail.get("distinct_from", ()))


@dataclass(frozen=True, slots=True)
class EarlierDecider:
    """Who decided at another gate of the same case."""

    gate: str
    by: str
    by_id: UUID | None


@dataclass(frozen=True, slots=True)
class Involved:
    """Who asked for a case, and who decided at the gates that need another person than the one at hand."""

    asked_by: str
    asked_by_id: UUID | None
    decided: tuple[EarlierDecider, ...]


@dataclass(frozen=True, slots=True)
class UnsentDecision:
    """A decision to send to the engine, and how often it was sent. A native task has a key, any other a job."""

    token_id: UUID
    job_key: int | None
    attempts: int
    user_task_key: int | None = None


@dataclass(frozen=True, slots=True)
class WaitingDecision:
    """A decision of an entry that the engine does not have, and why, if an attempt failed."""

    gate: str
    decision: str
    by: str
    at: datetime
    trouble: str | None

    @property
    def words(self) -> str:
        """Where it waits, and why."""
        return f"{self.decision} at {self.gate}: {self.trouble or 'no worker has sent it yet'}"


@dataclass(frozen=True, slots=True)
class Unassigned:
    """A native task whose assignee in the engine is not the person who claimed its gate here."""

    token_id: UUID
    user_task_key: int
    claimed_by: str | None
    engine_assignee: str | None
    instance_key: int


@dataclass(frozen=True, slots=True)
class SilentGate:
    """An open gate the engine has not mentioned for long."""

    token_id: UUID
    entry_id: UUID
    element_instance_key: int
    job_key: int
    gate: str


@dataclass(frozen=True, slots=True)
class EarlierGate:
    """A gate, with the key its task had."""

    token_id: UUID
    element_instance_key: int


class GateStore:
    """The gates of every tenant, and the decisions made at them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._runbook = Runbook(database)

    async def gates(
        self,
        tenant_id: str,
        *,
        gate: str | None = None,
        entry_id: UUID | None = None,
        closed: bool = False,
        after: PageKey | None = None,
        limit: int = 1000,
    ) -> list[HumanGate]:
        """Return a tenant's gates, longest waiting first, or the next ones after a key; `closed` adds closed ones."""
        place = (None, None) if after is None else (after.at, after.row_id)
        rows = await self._database.fetch(query("gates", "list"), tenant_id, gate, entry_id, closed, limit, *place)
        return [_gate(row) for row in rows]

    async def get(self, token_id: UUID, tenant_id: str | None = None) -> HumanGate | None:
        """Return one gate; with a tenant, only if it is that tenant's."""
        row = await self._database.fetchrow(query("gates", "get"), token_id, tenant_id)
        return None if row is None else _gate(row)

    async def hold_in(self, connection: Connection, token_id: UUID, tenant_id: str | None) -> HumanGate | None:
        """Return one gate, locked until the caller's transaction ends."""
        # Lock first, then read: after waiting for the lock we must see what the other transaction wrote.
        await connection.execute(query("gates", "hold"), token_id)
        row = await connection.fetchrow(query("gates", "get"), token_id, tenant_id)
        return None if row is None else _gate(row)

    async def get_in(self, connection: Connection, token_id: UUID) -> HumanGate | None:
        """Return one gate, inside the caller's transaction."""
        row = await connection.fetchrow(query("gates", "get"), token_id, None)
        return None if row is None else _gate(row)

    async def hold_task_in(self, connection: Connection, engine_id: str, element_instance_key: int) -> HumanGate | None:
        """Return the gate of a native user task, locked until the caller's transaction ends."""
        token_id = await connection.fetchval(query("gates", "hold_task"), engine_id, element_instance_key)
        return None if token_id is None else await self.get_in(connection, token_id)

    async def name_task_in(self, connection: Connection, token_id: UUID, user_task_key: int) -> None:
        """Store the engine's key of the task behind a gate."""
        await connection.execute(query("gates", "name_task"), token_id, user_task_key)

    async def take_in(self, connection: Connection, token_id: UUID, job_key: int) -> None:
        """Store which listener job brought the decision of a gate."""
        await connection.execute(query("gates", "take_in"), token_id, job_key)

    async def tell_anew_in(self, connection: Connection, token_id: UUID) -> None:
        """Have a decision sent again, because the engine has its task again."""
        await connection.execute(query("gates", "tell_anew"), token_id)

    async def assign_in(self, connection: Connection, token_id: UUID, assignee: str | None) -> None:
        """Store the assignee that the engine has."""
        await connection.execute(query("gates", "assign"), token_id, assignee)

    async def reopen_in(self, connection: Connection, token_id: UUID) -> bool:
        """Reopen a gate that was closed because its task was gone; False when it is open or closed otherwise."""
        return await connection.fetchval(query("gates", "reopen"), token_id) is not None

    async def earlier(self, token: ParkedToken, on: Connection | None = None) -> EarlierGate | None:
        """Return the gate, decided or open, that a new token's task may have had under another key."""
        fetchrow = self._database.fetchrow if on is None else on.fetchrow
        row = await fetchrow(
            query("gates", "earlier"),
            token.instance_uid,
            token.entry_id,
            token.engine_id,
            token.element_id,
            token.input_hash,
            token.element_instance_key,
        )
        return None if row is None else EarlierGate(row["token_id"], row["element_instance_key"])

    async def move_in(self, connection: Connection, earlier: EarlierGate, token: ParkedToken) -> bool:
        """Move a gate to another task; False when it was moved meanwhile."""
        where = earlier.token_id, earlier.element_instance_key
        to = token.element_instance_key, token.job_key, token.instance_key
        return await connection.fetchval(query("gates", "move"), *where, *to) is not None

    async def involved_in(self, connection: Connection, gate: HumanGate) -> Involved:
        """Return who else had a part in the case of a gate; its entry is locked until the transaction ends."""
        asked = await connection.fetchrow(query("gates", "hold_entry"), gate.entry_id)
        rows = await connection.fetch(query("gates", "deciders"), gate.instance_uid, gate.distinct_from, gate.gate)
        decided = tuple(value_of(EarlierDecider, row) for row in rows)
        if asked is None:
            return Involved("", None, decided)
        return Involved(asked["asked_by"], asked["asked_by_id"], decided)

    async def find_people(self, tenant_id: str, token_ids: Sequence[UUID]) -> dict[UUID, Involved]:
        """Return the same for several gates of a tenant, without a lock."""
        rows = await self._database.fetch(query("gates", "involved"), tenant_id, list(token_ids))
        found: dict[UUID, Involved] = {}
        for row in rows:
            earlier = () if row["gate"] is None else (value_of(EarlierDecider, row),)
            known = found.get(row["token_id"])
            decided = earlier if known is None else (*known.decided, *earlier)
            found[row["token_id"]] = Involved(row["asked_by"], row["asked_by_id"], decided)
        return found

    async def claim_in(
        self, connection: Connection, token_id: UUID, by: str, person_id: UUID | None = None
    ) -> datetime:
        """Record who claims a locked gate, and return when."""
        at: datetime = await connection.fetchval(query("gates", "claim"), token_id, by, person_id)
        return at

    async def release_in(self, connection: Connection, token_id: UUID) -> None:
        """Clear the claim of a locked gate."""
        await connection.execute(query("gates", "release"), token_id)

    async def decide_in(
        self,
        connection: Connection,
        token_id: UUID,
        decision: str,
        reason: str,
        by: str,
        *,
        send_within: timedelta | None,
        person_id: UUID | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> datetime | None:
        """Store a gate's decision; None when it already has one. With `send_within` the caller informs the engine."""
        asked, retry_after = (0, timedelta(0)) if send_within is None else (1, send_within)
        given = decision, reason, by, asked, retry_after, person_id, json.dumps(inputs or {})
        at: datetime | None = await connection.fetchval(query("gates", "decide"), token_id, *given)
        return at

    async def close_in(self, connection: Connection, token_id: UUID, *, closed_as: str) -> bool:
        """Close a gate; False when it was already closed."""
        return await connection.fetchval(query("gates", "close"), token_id, closed_as) is not None

    # ---- sending decisions to the engine --------------------------------------------------------------------------

    async def count_attempt(self, token_id: UUID, *, retry_after: timedelta) -> None:
        """Count an attempt before sending; without a recorded result a relay sends it again after the timeout."""
        await self._database.execute(query("gates", "tell"), token_id, retry_after)

    async def due(self, engine_id: str, limit: int, *, retry_after: timedelta) -> list[UnsentDecision]:
        """Claim the decisions to send to an engine, and count the attempt."""
        rows = await self._database.fetch(query("gates", "claim_due"), engine_id, limit, retry_after)
        return [value_of(UnsentDecision, row) for row in rows]

    async def postpone(self, token_id: UUID, *, by: timedelta, reason: str | None) -> None:
        """Send it to the engine later, and record why, if an attempt failed."""
        short = None if reason is None else reason[:_LONGEST_REASON]
        await self._database.execute(query("gates", "postpone"), token_id, by, short)

    async def unsent(self, entry_id: UUID) -> list[WaitingDecision]:
        """Return the decisions of an entry that the engine does not have, oldest first."""
        rows = await self._database.fetch(query("gates", "unsent"), entry_id)
        return [value_of(WaitingDecision, row) for row in rows]

    async def backlog(self, engine_id: str) -> tuple[int, float]:
        """Return how many decisions the engine does not have, and for how many seconds the oldest has waited."""
        row = await self._database.fetchrow(query("gates", "backlog"), engine_id)
        assert row is not None
        return row["waiting"], row["oldest"] or 0.0

    async def record_answer(self, token_id: UUID, *, gone: bool) -> str | None:
        """Store the engine's answer; add a runbook event when the decision certainly came too late."""
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(query("gates", "answer"), token_id, gone)
            if row is not None and row["answer"] == "gone":
                await self._runbook.append_in(
                    connection,
                    row["entry_id"],
                    Kind.GATE_GONE,
                    once=f"gone:{token_id}",
                    detail={"gate": row["gate"], "decision": row["decision"], "by": row["decided_by"]},
                )
        return None if row is None else row["answer"]

    async def take_claims(self, engine_id: str, limit: int, *, retry_after: timedelta) -> list[Unassigned]:
        """Take the claims and releases that an engine does not have yet; no other relay sends them meanwhile."""
        rows = await self._database.fetch(query("gates", "claim_unassigned"), engine_id, limit, retry_after)
        return [value_of(Unassigned, row) for row in rows]

    async def record_assignee(self, claim: Unassigned) -> None:
        """Store that the engine has a claim or a release."""
        await self._database.execute(query("gates", "assigned"), claim.token_id, claim.claimed_by, claim.user_task_key)

    async def postpone_claim(self, claim: Unassigned, *, by: timedelta, reason: str) -> None:
        """Send a claim later, and store why the engine does not have it."""
        await self._database.execute(
            query("gates", "postpone_assignment"), claim.token_id, claim.claimed_by, by, reason
        )

    async def refuse_claim_in(self, connection: Connection, token_id: UUID, reason: str) -> None:
        """Store why the engine refused a claim that was released for that."""
        await connection.execute(query("gates", "refuse_assignment"), token_id, reason)

    # ---- gates the engine forgot ----------------------------------------------------------------------------------

    async def silent(self, engine_id: str, *, longer_than: timedelta, limit: int) -> list[SilentGate]:
        """Return open gates whose task should have been delivered again by now."""
        rows = await self._database.fetch(query("gates", "silent"), engine_id, longer_than, limit)
        return [value_of(SilentGate, row) for row in rows]

    async def record_sighting(self, token_id: UUID) -> None:
        """Record that the engine still waits at this gate."""
        await self._database.execute(query("gates", "seen"), token_id)

    # ---- input of a verb ------------------------------------------------------------------------------------------

    async def heard(
        self, instance_uid: UUID, *, decisions: bool, messages: bool
    ) -> tuple[tuple[Decision, ...], tuple[ReceivedMessage, ...]]:
        """Return an instance's decisions and received messages, oldest first, in one round trip."""
        rows = await self._database.fetch(query("gates", "heard"), instance_uid, decisions, messages)
        made = (row for row in rows if row["kind"] == "decision")
        came = (row for row in rows if row["kind"] == "message")
        return (
            tuple(
                Decision(row["name"], row["value"], row["reason"], row["by"], row["at"], json.loads(row["inputs"]))
                for row in made
            ),
            tuple(
                read_message(
                    *(row["name"], row["value"], row["key"], row["payload"], row["at"]), is_opaque=row["is_opaque"]
                )
                for row in came
            ),
        )


def _verdict(row: Row) -> GateVerdict | None:
    if row["decided_at"] is None:
        return None
    made = row["decision"], row["why"], row["decided_by"], row["decided_at"]
    return GateVerdict(*made, row["answer"], row["trouble"], json.loads(row["inputs"]))


def _gate(row: Row) -> HumanGate:
    return value_of(HumanGate, row, detail=json.loads(row["detail"]), verdict=_verdict(row))
