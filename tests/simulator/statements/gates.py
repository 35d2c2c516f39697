"""Human gates and what was decided at them."""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.simulator.statements.triggers import close_token, displaced, token_key
from tests.simulator.store import Session, Values, refuse, statement

_TOKEN = (
    *("token_id", "tenant_id", "entry_id", "instance_uid", "engine_id", "job_key", "element_instance_key", "gate"),
    *("instance_key", "reason", "claimed_by", "claimed_at", "opened_at", "seen_at", "closed_at", "closed_as"),
)


def _find(s: Session, token_id: UUID) -> Values | None:
    return next((row for row in s.rows("parked_token") if row["token_id"] == token_id), None)


def _gate(s: Session, token: Values) -> Values:
    entry = s.get("runbook_entry", (token["entry_id"],))
    decision = s.get("gate_decision", (token["token_id"],))
    row = {name: token[name] for name in _TOKEN} | {"detail": json.dumps(token["detail"])}
    row |= {"user_task_key": None, "engine_assignee": None, "claim_trouble": None, "claimed_by_id": None}
    row |= {name: None if entry is None else entry[name] for name in ("sentence", "verb")}
    names = ("decision", "decided_by", "decided_at", "answer")
    row["trouble"] = None if decision is None else decision["last_error"]
    row |= {name: None if decision is None else decision[name] for name in names}
    row["inputs"] = None if decision is None else decision["inputs"]
    return {**row, "why": None if decision is None else decision["reason"]}


@statement("gates", "list")
async def list_(
    s: Session,
    tenant_id: str,
    gate: str | None,
    entry_id: UUID | None,
    closed: bool,
    limit: int,
    after: datetime | None,
    after_id: UUID | None,
) -> list[Values]:
    found = [
        row
        for row in s.rows("parked_token")
        if row["kind"] == "human_gate"
        and row["tenant_id"] == tenant_id
        and gate in (None, row["gate"])
        and entry_id in (None, row["entry_id"])
        and (closed or row["closed_at"] is None)
    ]
    found.sort(key=lambda row: (row["opened_at"], str(row["token_id"])))
    if after is not None:
        found = [row for row in found if (row["opened_at"], str(row["token_id"])) > (after, str(after_id))]
    return [_gate(s, row) for row in found[:limit]]


@statement("gates", "get")
async def get(s: Session, token_id: UUID, tenant_id: str | None) -> list[Values]:
    token = _find(s, token_id)
    if token is None or token["kind"] != "human_gate" or tenant_id not in (None, token["tenant_id"]):
        return []
    return [_gate(s, token)]


@statement("gates", "claim_unassigned")
async def claim_unassigned(s: Session, engine_id: str, limit: int, timeout: timedelta) -> list[Values]:
    return []  # no engine of the simulator has native tasks


@statement("gates", "hold")
async def hold(s: Session, token_id: UUID) -> list[Values]:
    token = _find(s, token_id)
    if token is None:
        return []
    await s.lock("parked_token", token_key(token))
    return [{"token_id": token_id}]


@statement("gates", "decide")
async def decide(
    s: Session,
    token_id: UUID,
    decision: str,
    reason: str,
    by: str,
    attempts: int,
    timeout: timedelta,
    by_id: UUID | None,
    inputs: str,
) -> list[Values]:
    token = _find(s, token_id)
    if token is None or await s.lock("gate_decision", (token_id,)) is not None:
        return []
    now = s.now
    row: dict[str, Any] = {
        **{name: token[name] for name in ("token_id", "tenant_id", "entry_id", "instance_uid", "gate")},
        "decision": decision,
        "reason": reason,
        "inputs": inputs,
        "decided_by": by,
        "decided_by_id": by_id,
        "decided_at": now,
        "acked_at": None,
        "answer": None,
        "attempts": attempts,
        "next_at": now + timeout,
        "last_error": None,
    }
    s.put("gate_decision", (token_id,), row)
    return [{"decided_at": now}]


@statement("gates", "hold_entry")
async def hold_entry(s: Session, entry_id: UUID) -> list[Values]:
    entry = await s.lock("runbook_entry", (entry_id,))
    return [] if entry is None else [{name: entry[name] for name in ("asked_by", "asked_by_id")}]


@statement("gates", "deciders")
async def deciders(s: Session, uid: UUID, gates: list[str], gate: str) -> list[Values]:
    found = []
    for row in s.rows("gate_decision"):
        token = _find(s, row["token_id"])
        names_it = token is not None and gate in token["detail"].get("distinct_from", ())
        if row["instance_uid"] == uid and (row["gate"] in gates or names_it):
            found.append(row)
    found.sort(key=lambda row: row["decided_at"])
    return [{"gate": row["gate"], "by": row["decided_by"], "by_id": row["decided_by_id"]} for row in found]


@statement("gates", "close")
async def close(s: Session, token_id: UUID, closed_as: str) -> list[Values]:
    token = _find(s, token_id)
    closed = None if token is None else await close_token(s, token, closed_as)
    return [] if closed is None else [{"token_id": token_id}]


@statement("gates", "reopen")
async def reopen(s: Session, token_id: UUID) -> list[Values]:
    token = _find(s, token_id)
    standing = None if token is None else await s.lock("parked_token", token_key(token))
    if standing is None or standing["closed_as"] not in ("gone", "canceled"):
        return []
    s.put("parked_token", token_key(standing), {**standing, "closed_at": None, "closed_as": None})
    return [{"token_id": token_id}]


@statement("gates", "earlier")
async def earlier(
    s: Session, uid: UUID, entry_id: UUID, engine_id: str, element_id: str, input_hash: bytes | None, element: int
) -> list[Values]:
    known = s.get("parked_token", (engine_id, element, "human_gate"))
    if known is not None and known["instance_uid"] == uid:
        return []
    found = [
        token
        for token in s.rows("parked_token")
        if (token["kind"], token["instance_uid"]) == ("human_gate", uid)
        and (token["engine_id"], token["element_id"]) == (engine_id, element_id)
        and (s.get("gate_decision", (token["token_id"],)) is not None or token["closed_at"] is None)
        and input_hash is not None
        and token["input_hash"] == input_hash
    ]
    found.sort(key=lambda token: (token["closed_at"] is None, token["closed_at"] or s.now, token["opened_at"]))
    return [{name: token[name] for name in ("token_id", "element_instance_key")} for token in found[:1]]


@statement("gates", "move")
async def move(
    s: Session, token_id: UUID, was: int, element: int, job_key: int | None, instance_key: int
) -> list[Values]:
    token = _find(s, token_id)
    standing = None if token is None else await s.lock("parked_token", token_key(token))
    if standing is None or standing["element_instance_key"] != was:
        return []
    moved = {**standing, "element_instance_key": element, "job_key": job_key, "instance_key": instance_key}
    if await displaced(s, token_key(moved), moved["instance_uid"]) is not None:
        raise refuse("duplicate key value violates unique constraint")
    s.put("parked_token", token_key(standing), None)
    s.put("parked_token", token_key(moved), {**moved, "seen_at": s.now})
    return [{"token_id": token_id}]


@statement("gates", "tell")
async def tell(s: Session, token_id: UUID, timeout: timedelta) -> list[Values]:
    row = await s.lock("gate_decision", (token_id,))
    if row is None:
        return []
    s.put("gate_decision", (token_id,), {**row, "attempts": row["attempts"] + 1, "next_at": s.now + timeout})
    return [{"attempts": row["attempts"] + 1}]


@statement("gates", "claim_due")
async def claim_due(s: Session, engine_id: str, limit: int, timeout: timedelta) -> list[Values]:
    now = s.now
    due = []
    for row in s.rows("gate_decision"):
        token = _find(s, row["token_id"])
        is_due = row["acked_at"] is None and row["next_at"] <= now
        if token is None or token["engine_id"] != engine_id or not is_due:
            continue
        if not s.is_locked("gate_decision", (row["token_id"],)):
            due.append((row["next_at"], str(row["token_id"]), row, token["job_key"]))
    claimed = []
    for _, _, row, job_key in sorted(due)[:limit]:
        attempts = row["attempts"] + 1
        await s.change("gate_decision", (row["token_id"],), attempts=attempts, next_at=s.now + timeout)
        told = {"token_id": row["token_id"], "job_key": job_key, "attempts": attempts, "user_task_key": None}
        claimed.append(told)
    return claimed


@statement("gates", "postpone")
async def postpone(s: Session, token_id: UUID, by: timedelta, reason: str | None) -> list[Values]:
    row = await s.lock("gate_decision", (token_id,))
    if row is not None and row["acked_at"] is None:
        s.put("gate_decision", (token_id,), {**row, "next_at": s.now + by, "last_error": reason})
    return []


@statement("gates", "answer")
async def answer(s: Session, token_id: UUID, gone: bool) -> list[Values]:
    row = await s.lock("gate_decision", (token_id,))
    if row is None or not (row["acked_at"] is None or (not gone and row["answer"] != "completed")):
        return []
    said = "completed" if not gone else "unsure" if row["attempts"] > 1 else "gone"
    s.put("gate_decision", (token_id,), {**row, "acked_at": s.now, "answer": said, "last_error": None})
    return [{"answer": said, **{name: row[name] for name in ("entry_id", "gate", "decision", "decided_by")}}]


@statement("gates", "backlog")
async def backlog(s: Session, engine_id: str) -> list[Values]:
    suspended = {row["entry_id"] for row in s.rows("parked_token") if _suspends(row)}
    waiting = [row for row in s.rows("gate_decision") if row["acked_at"] is None and row["entry_id"] not in suspended]
    waiting = [row for row in waiting if (_find(s, row["token_id"]) or {}).get("engine_id") == engine_id]
    oldest = min((row["decided_at"] for row in waiting), default=None)
    return [{"waiting": len(waiting), "oldest": None if oldest is None else (s.now - oldest).total_seconds()}]


def _suspends(row: Values) -> bool:
    return row["kind"] == "suspended" and row["closed_at"] is None


@statement("gates", "silent")
async def silent(s: Session, engine_id: str, longer: timedelta, limit: int) -> list[Values]:
    now = s.now
    found = [
        row
        for row in s.rows("parked_token")
        if row["engine_id"] == engine_id
        and row["kind"] == "human_gate"
        and row["closed_at"] is None
        and row["job_key"] is not None
        and row["seen_at"] < now - longer
    ]
    found.sort(key=lambda row: row["seen_at"])
    names = ("token_id", "entry_id", "element_instance_key", "job_key", "gate")
    return [{name: row[name] for name in names} for row in found[:limit]]


@statement("gates", "seen")
async def seen(s: Session, token_id: UUID) -> list[Values]:
    token = _find(s, token_id)
    if token is not None:
        await s.change("parked_token", token_key(token), seen_at=s.now)
    return []


@statement("gates", "heard")
async def heard(s: Session, uid: UUID, decisions: bool, messages: bool) -> list[Values]:
    made = [
        {
            "kind": "decision",
            "name": row["gate"],
            "value": row["decision"],
            "reason": row["reason"],
            "by": row["decided_by"],
            "at": row["decided_at"],
            "key": None,
            "payload": None,
            "is_opaque": False,
            "heard_at": row["decided_at"],
            "inputs": row["inputs"],
        }
        for row in s.rows("gate_decision")
        if decisions and row["instance_uid"] == uid and row["answer"] != "gone"
    ]
    came = [
        {
            "kind": "message",
            "name": row["message_name"],
            "value": row["message_id"],
            "reason": None,
            "by": None,
            "at": row["received_at"],
            "key": row["correlation_key"],
            "payload": row["payload"],
            "is_opaque": row["is_opaque"],
            "heard_at": row["consumed_at"],
            "inputs": None,
        }
        for row in s.rows("inbox_message")
        if messages and row["instance_uid"] == uid and row["state"] == "consumed"
    ]
    return sorted(made + came, key=lambda row: (row["heard_at"], row["value"]))
