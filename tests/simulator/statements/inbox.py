"""Messages from outside, and what became of those that could not be delivered."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tests.simulator.statements.turns import take_in_turn
from tests.simulator.store import Session, Values, statement

_RECEIVED = (
    *("tenant_id", "message_id", "message_name", "correlation_key", "body_hash", "payload", "entry_id"),
    *("correlation_id", "causation_id", "traceparent", "sent_by", "engine_id", "ttl", "owner", "pause"),
    *("workflow_id", "is_opaque"),
)
_CLAIMED = (
    *("tenant_id", "message_id", "message_name", "correlation_key", "entry_id", "state", "instance_uid", "ttl"),
    *("generation", "attempts", "sent_by", "traceparent", "workflow_id", "correlation_id", "causation_id"),
)
_CONSUMED = (
    *("tenant_id", "message_id", "message_name", "correlation_key", "payload", "entry_id", "correlation_id"),
    *("causation_id", "traceparent", "generation", "received_at", "is_opaque"),
)


@statement("inbox", "receive")
async def receive(s: Session, *given: Any) -> list[Values]:
    row = dict(zip(_RECEIVED, given, strict=True))
    pause = row.pop("pause")
    key = (row["tenant_id"], row["message_id"])
    if await s.lock("inbox_message", key) is not None:
        return []
    now = s.now
    kept = {
        **row,
        "state": "received",
        "ended_element": None,
        "ended_input": None,
        "resend_at": None,
        "instance_uid": None,
        "generation": 0,
        "attempts": 0,
        "next_at": now + pause,
        "last_error": None,
        "received_at": now,
        "queued_at": now,
        "expires_at": now + row["ttl"],
        "published_at": None,
        "consumed_at": None,
    }
    s.put("inbox_message", key, kept)
    return [{"message_id": row["message_id"]}]


@statement("inbox", "read")
async def read(s: Session, tenant_id: str, message_id: str) -> list[Values]:
    row = s.get("inbox_message", (tenant_id, message_id))
    return [] if row is None else [{name: row[name] for name in ("body_hash", "state", "received_at")}]


_QUEUE = ("tenant_id", "message_name", "correlation_key")


def _is_first(s: Session, due: Values) -> bool:
    def is_later(other: Values) -> bool:
        return (other["queued_at"], other["message_id"]) > (due["queued_at"], due["message_id"])

    return due["instance_uid"] is not None or all(
        other["instance_uid"] is None and is_later(other) for other in _beside(s, due)
    )


def _beside(s: Session, row: Values) -> list[Values]:
    """The other messages of a queue that are not sent yet, as far as we know."""
    return [
        other
        for other in s.rows("inbox_message")
        if all(other[name] == row[name] for name in _QUEUE)
        and other["state"] == "received"
        and other["message_id"] != row["message_id"]
    ]


def _messages(s: Session, engine_id: str) -> tuple[list[Values], list[Values]]:
    """The messages that wait, and those of them that are due and free."""
    states = ("received", "published")
    waiting = [row for row in s.rows("inbox_message") if row["engine_id"] == engine_id and row["state"] in states]
    free = [
        row
        for row in waiting
        if row["next_at"] <= s.now
        and not s.is_locked("inbox_message", (row["tenant_id"], row["message_id"]))
        and (row["state"] == "published" or _is_first(s, row))
    ]
    return waiting, free


async def _claim(s: Session, chosen: list[Values], owner: UUID, timeout: timedelta, more: Values) -> list[Values]:
    claimed = []
    for row in chosen:
        key = (row["tenant_id"], row["message_id"])
        taken = await s.change("inbox_message", key, attempts=row["attempts"] + 1, owner=owner, next_at=s.now + timeout)
        assert taken is not None
        is_over = taken["expires_at"] <= s.now
        claimed.append({**{name: taken[name] for name in _CLAIMED}, "is_over": is_over, **more})
    return claimed


# Whatever the names: no deployment is recorded here, so that no message is another application's.


@statement("inbox", "claim")
async def claim(
    s: Session, engine_id: str, owner: UUID, limit: int, timeout: timedelta, names: list[str]
) -> list[Values]:
    _, free = _messages(s, engine_id)
    free.sort(key=lambda row: row["next_at"])
    return await _claim(s, free[:limit], owner, timeout, {})


@statement("inbox", "claim_in_turn")
async def claim_in_turn(
    s: Session, engine_id: str, owner: UUID, limit: int, timeout: timedelta, names: list[str], served: str
) -> list[Values]:
    waiting, free = _messages(s, engine_id)
    chosen, more = take_in_turn(waiting, free, limit, served, s.now)
    return await _claim(s, chosen, owner, timeout, more)


@statement("inbox", "candidates")
async def candidates(
    s: Session, engine_id: str, correlation_key: str, verbs: list[str], names: list[str]
) -> list[Values]:
    found = [
        row
        for verb, name in zip(verbs, names, strict=True)
        for row in s.rows("workflow_instance")
        if row["engine_id"] == engine_id and row["verb"] == verb and row["correlation"].get(name) == correlation_key
    ]
    found.sort(key=lambda row: row["created_at"], reverse=True)
    found.sort(key=lambda row: (row["ended_at"] is not None, row["ended_at"] or row["created_at"]))
    return [
        {
            **{name: row[name] for name in ("instance_uid", "tenant_id", "entry_id")},
            "has_ended": row["ended_at"] is not None,
        }
        for row in found[:20]
    ]


async def _fenced(
    s: Session, tenant_id: str, message_id: str, owner: UUID, generation: int, *states: str
) -> Values | None:
    row = await s.lock("inbox_message", (tenant_id, message_id))
    if row is None or (row["owner"], row["generation"]) != (owner, generation) or row["state"] not in states:
        return None
    return row


async def _change(s: Session, row: Values | None, **values: Any) -> list[Values]:
    if row is None:
        return []
    s.put("inbox_message", (row["tenant_id"], row["message_id"]), {**row, **values})
    return [{"message_id": row["message_id"]}]


@statement("inbox", "is_named")
async def is_named(s: Session, uid: UUID, workflow_id: str) -> list[Values]:
    instance = s.get("workflow_instance", (uid,))
    if instance is None:
        return []
    return [{"is_named": workflow_id in (instance["business_key"], str(instance["entry_id"]))}]


@statement("inbox", "aim")
async def aim(s: Session, tenant_id: str, message_id: str, owner: UUID, generation: int, uid: UUID) -> list[Values]:
    row = await _fenced(s, tenant_id, message_id, owner, generation, "received")
    if row is not None:
        # The place in the unique index; who comes second there waits for the first.
        await s.lock("inbox_message_aimed", tuple(row[name] for name in _QUEUE))
        if any(other["instance_uid"] is not None for other in _beside(s, row)):
            return []
    return await _change(s, row, instance_uid=uid)


@statement("inbox", "sent")
async def sent(
    s: Session, tenant_id: str, message_id: str, owner: UUID, generation: int, slack: timedelta
) -> list[Values]:
    row = await _fenced(s, tenant_id, message_id, owner, generation, "received")
    now = s.now
    until = now if row is None else now + row["ttl"] + slack
    return await _change(
        s,
        row,
        state="published",
        published_at=now,
        expires_at=until,
        next_at=until,
        attempts=0,
        last_error=None,
    )


@statement("inbox", "postpone")
async def postpone(
    s: Session, tenant_id: str, message_id: str, owner: UUID, generation: int, by: timedelta, reason: str
) -> list[Values]:
    row = await _fenced(s, tenant_id, message_id, owner, generation, "received")
    return await _change(s, row, next_at=s.now + by, last_error=reason)


@statement("inbox", "bury")
async def bury(s: Session, tenant_id: str, message_id: str, owner: UUID, generation: int, reason: str) -> list[Values]:
    row = await _fenced(s, tenant_id, message_id, owner, generation, "received", "published")
    return await _change(s, row, state="dead", last_error=reason)


@statement("inbox", "strand")
async def strand(s: Session, engine_id: str) -> list[Values]:
    now = s.now
    for row in list(s.rows("inbox_message")):
        instance = s.get("workflow_instance", (row["instance_uid"],))
        is_waiting = row["engine_id"] == engine_id and row["state"] == "published" and row["next_at"] > now
        if is_waiting and instance is not None and instance["ended_at"] is not None:
            await s.change("inbox_message", (row["tenant_id"], row["message_id"]), next_at=s.now)
    return []


@statement("inbox", "consume")
async def consume(
    s: Session, uid: UUID, name: str, correlation_key: str, element_id: str | None, input_hash: bytes | None
) -> list[Values]:
    waiting: list[Values] = []
    if _ended(s, uid, name, element_id, input_hash):
        return []
    for row in list(s.rows("inbox_message")):
        if (row["instance_uid"], row["message_name"], row["correlation_key"]) != (uid, name, correlation_key):
            continue
        standing = await s.lock("inbox_message", (row["tenant_id"], row["message_id"]))
        if standing is not None and (standing["state"] in ("received", "published") or _has_letter(s, standing)):
            waiting.append(standing)
    waiting.sort(
        key=lambda row: (
            *(row["state"] == "dead", row["state"] != "published"),
            *(row["published_at"] or datetime.max.replace(tzinfo=UTC), row["queued_at"], row["message_id"]),
        )
    )
    for row in waiting[:1]:
        s.put(
            "inbox_message",
            (row["tenant_id"], row["message_id"]),
            {
                **row,
                "state": "consumed",
                "consumed_at": s.now,
                "ended_element": element_id,
                "ended_input": input_hash,
            },
        )
        return [{**{name: row[name] for name in _CONSUMED}, "was_dead": row["state"] == "dead"}]
    return []


def _ended(s: Session, uid: UUID, name: str, element_id: str | None, input_hash: bytes | None) -> list[Values]:
    wanted = (uid, "consumed", name, element_id, input_hash)
    names = ("instance_uid", "state", "message_name", "ended_element", "ended_input")
    if element_id is None or input_hash is None:
        return []
    return [row for row in s.rows("inbox_message") if tuple(row[one] for one in names) == wanted]


@statement("inbox", "has_ended")
async def has_ended(s: Session, uid: UUID, name: str, element_id: str, input_hash: bytes) -> list[Values]:
    return [{"has_ended": bool(_ended(s, uid, name, element_id, input_hash))}]


@statement("inbox", "forget")
async def forget(s: Session, uid: UUID, name: str, element_id: str, input_hash: bytes) -> list[Values]:
    for row in _ended(s, uid, name, element_id, input_hash):
        await s.change("inbox_message", (row["tenant_id"], row["message_id"]), resend_at=s.now)
    return []


def _stands_still(s: Session, uid: UUID | None) -> bool:
    instance = None if uid is None else s.get("workflow_instance", (uid,))
    return instance is not None and s.get("stall", (instance["entry_id"], "job", "")) is not None


@statement("inbox", "claim_forgotten")
async def claim_forgotten(s: Session, engine_id: str, limit: int, timeout: timedelta) -> list[Values]:
    now = s.now
    due = [
        row
        for row in s.rows("inbox_message")
        if row["engine_id"] == engine_id
        and row["resend_at"] is not None
        and row["resend_at"] <= now
        and not s.is_locked("inbox_message", (row["tenant_id"], row["message_id"]))
    ]
    due.sort(key=lambda row: row["resend_at"])
    claimed = []
    for row in due[:limit]:
        wait = (row["instance_uid"], row["message_name"], row["ended_element"], row["ended_input"])
        names = ("instance_uid", "message_name", "element_id", "input_hash")
        is_open = any(
            token["closed_at"] is None and tuple(token[name] for name in names) == wait
            for token in s.rows("parked_token")
        ) or _stands_still(s, row["instance_uid"])
        resend_at = s.now + timeout if is_open else None
        await s.change("inbox_message", (row["tenant_id"], row["message_id"]), resend_at=resend_at)
        claimed.append({**{name: row[name] for name in _CLAIMED}, "is_over": not is_open})
    return claimed


@statement("inbox", "resent")
async def resent(s: Session, tenant_id: str, message_id: str) -> list[Values]:
    await s.change("inbox_message", (tenant_id, message_id), resend_at=None)
    return []


def _letter(s: Session, message: Values) -> Values | None:
    names = ("tenant_id", "message_id", "generation")
    wanted = [message[name] for name in names]
    found = (row for row in s.rows("dead_letter") if [row[name] for name in names] == wanted and row["state"] == "open")
    return next(found, None)


def _has_letter(s: Session, message: Values) -> bool:
    return message["state"] == "dead" and _letter(s, message) is not None


@statement("inbox", "lift")
async def lift(s: Session, tenant_id: str, message_id: str, generation: int) -> list[Values]:
    message = {"tenant_id": tenant_id, "message_id": message_id, "generation": generation}
    letter = _letter(s, message)
    if letter is not None:
        await s.change("dead_letter", (letter["letter_id"],), state="consumed", resolved_at=s.now)
    return []


@statement("inbox", "entry_of")
async def entry_of(s: Session, uid: UUID) -> list[Values]:
    instance = s.get("workflow_instance", (uid,))
    return [] if instance is None else [{"entry_id": instance["entry_id"]}]


@statement("inbox", "backlog")
async def backlog(s: Session, engine_id: str) -> list[Values]:
    waiting = [row for row in s.rows("inbox_message") if row["engine_id"] == engine_id and row["state"] == "received"]
    oldest = min((row["queued_at"] for row in waiting), default=None)
    return [{"waiting": len(waiting), "oldest": None if oldest is None else (s.now - oldest).total_seconds()}]


@statement("dead_letters", "entry_of")
async def letter_entry(
    s: Session, named: UUID | None, meant: UUID | None, uid: UUID | None, tenant_id: str
) -> list[Values]:
    instance = s.get("workflow_instance", (uid,))
    for entry_id in (named, meant, None if instance is None else instance["entry_id"]):
        entry = s.get("runbook_entry", (entry_id,))
        if entry is not None and entry["tenant_id"] == tenant_id:
            return [{"entry_id": entry_id}]
    return []


@statement("dead_letters", "write")
async def write(
    s: Session,
    tenant_id: str,
    message_id: str,
    message_name: str,
    correlation_key: str,
    entry_id: UUID | None,
    code: str,
    reason: str,
    sent_by: str,
    generation: int,
) -> list[Values]:
    letter_id = s.store.uuids()
    await s.lock("dead_letter", (letter_id,))
    row = {
        "letter_id": letter_id,
        "tenant_id": tenant_id,
        "message_id": message_id,
        "message_name": message_name,
        "correlation_key": correlation_key,
        "entry_id": entry_id,
        "code": code,
        "reason": reason,
        "sent_by": sent_by,
        "generation": generation,
        "state": "open",
        "created_at": s.now,
        "resolved_at": None,
    }
    s.put("dead_letter", (letter_id,), row)
    return [{"letter_id": letter_id}]
