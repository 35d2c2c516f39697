"""The runbook: entries, their events, what they wait for."""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.simulator.statements.triggers import (
    append_event,
    blank_token,
    close_token,
    displaced,
    instances_of,
    open_tokens,
    token_key,
)
from tests.simulator.store import Session, Values, statement

_CLOSED = ("token_id", "entry_id", "kind", "reason", "gate", "message_name", "correlation_key", "input_hash")
_ENTRY = (
    *("entry_id", "tenant_id", "request_key", "verb", "verb_version", "mode", "sentence", "invocation", "args"),
    *("asked_by", "status", "outcome", "process_id", "process_version", "definition_key", "provenance"),
    *("cancel_requested_at", "created_at", "updated_at", "ended_at"),
)
_OPENED = (
    *("entry_id", "tenant_id", "request_key", "request_hash", "verb", "verb_version", "mode", "sentence"),
    *("invocation", "args", "asked_by", "provenance", "traceparent", "process_id", "asked_by_id"),
)
_PARKED = (
    *("tenant_id", "entry_id", "instance_uid", "engine_id", "instance_key", "element_instance_key", "element_id"),
    *("kind", "reason", "gate", "message_name", "correlation_key", "job_key"),
)


@statement("runbook", "open")
async def open_(s: Session, *given: Any) -> list[Values]:
    row = dict(zip(_OPENED, given, strict=True))
    # The place of the request key is taken first: of two at once the second waits and finds the first.
    place = ("runbook_request", (row["tenant_id"], row["request_key"] or row["entry_id"]))
    holder = s.store.locked.get(place)
    while holder is not None and holder is not s:
        await s._wait(holder)
        holder = s.store.locked.get(place)
    if holder is None:
        s.store.locked[place] = s
        s.locks.append(place)
    if row["request_key"] is not None and _by_request(s, row["tenant_id"], row["request_key"]) is not None:
        return []
    now = s.now
    await s.lock("runbook_entry", (row["entry_id"],))
    made = {
        **row,
        "status": "executing",
        "outcome": None,
        "process_version": None,
        "definition_key": None,
        "cancel_requested_at": None,
        "created_at": now,
        "updated_at": now,
        "ended_at": None,
        "last_seq": 0,
    }
    s.put("runbook_entry", (row["entry_id"],), made)
    return [{"entry_id": row["entry_id"]}]


def _by_request(s: Session, tenant_id: str, request_key: str) -> Values | None:
    found = (
        row for row in s.rows("runbook_entry") if (row["tenant_id"], row["request_key"]) == (tenant_id, request_key)
    )
    return next(found, None)


@statement("runbook", "by_request")
async def by_request(s: Session, tenant_id: str, request_key: str) -> list[Values]:
    row = _by_request(s, tenant_id, request_key)
    return [] if row is None else [{name: row[name] for name in ("entry_id", "request_hash")}]


@statement("runbook", "entry")
async def entry(s: Session, entry_id: UUID, tenant_id: str | None) -> list[Values]:
    row = s.get("runbook_entry", (entry_id,))
    if row is None or tenant_id not in (None, row["tenant_id"]):
        return []
    return [{name: row[name] for name in _ENTRY}]


@statement("runbook", "append")
async def append(s: Session, entry_id: UUID, kind: str, once: str, detail: str) -> list[Values]:
    return [{"seq": await append_event(s, entry_id, kind, once, json.loads(detail))}]


@statement("runbook", "park")
async def park(s: Session, *given: Any) -> list[Values]:
    row = dict(zip(_PARKED, given[:13], strict=True))
    detail, after, at, beside, input_hash = given[13:]
    key = token_key(row)
    standing = await displaced(s, key, row["instance_uid"])
    now = s.now
    if standing is None:
        blank = blank_token(s, row, {**row, "process_instance_key": row["instance_key"]}, row["reason"])
        due = min((moment for moment in (None if after is None else now + after, at) if moment), default=None)
        token = {**blank, **row, "detail": json.loads(detail), "opened_at": now, "seen_at": now}
        token |= {"due_at": due, "due_beside": beside, "input_hash": input_hash}
    else:
        kept = standing["job_key"] if row["job_key"] is None else row["job_key"]
        token = {**standing, "seen_at": now, "job_key": kept}
    s.put("parked_token", key, token)
    return [{"token_id": token["token_id"], "closed_as": token["closed_as"], "is_new": standing is None}]


async def _close(s: Session, tokens: list[Values], closed_as: str) -> list[Values]:
    closed = [await close_token(s, token, closed_as) for token in tokens]
    return [{name: token[name] for name in _CLOSED} for token in closed if token is not None]


@statement("runbook", "reopen")
async def reopen(s: Session, engine_id: str, entry_id: UUID, element: int, kind: str) -> list[Values]:
    token = await s.lock("parked_token", (engine_id, element, kind))
    if token is None or token["entry_id"] != entry_id or token["closed_at"] is None:
        return []
    s.put("parked_token", token_key(token), {**token, "closed_at": None, "closed_as": None})
    return [{"token_id": token["token_id"]}]


@statement("runbook", "displace")
async def displace(
    s: Session, engine_id: str, entry_id: UUID, element: int, kind: str, element_id: str, input_hash: bytes | None
) -> list[Values]:
    twins = [
        row
        for row in s.rows("parked_token")
        if (row["entry_id"], row["kind"], row["element_id"]) == (entry_id, kind, element_id)
        and input_hash is not None
        and row["input_hash"] == input_hash
        and (row["engine_id"], row["element_instance_key"]) != (engine_id, element)
        and row["closed_at"] is None
    ]
    await _close(s, twins, "gone")
    return []


@statement("runbook", "unpark")
async def unpark(s: Session, engine_id: str, element_instance_key: int, closed_as: str) -> list[Values]:
    here = [
        row
        for row in s.rows("parked_token")
        if (row["engine_id"], row["element_instance_key"]) == (engine_id, element_instance_key)
        and row["kind"] != "incident"
        and row["closed_at"] is None
    ]
    return await _close(s, here, closed_as)


@statement("runbook", "unpark_elements")
async def unpark_elements(
    s: Session, engine_id: str, instance_key: int, element_ids: list[str], closed_as: str
) -> list[Values]:
    here = [
        row
        for row in s.rows("parked_token")
        if (row["engine_id"], row["instance_key"]) == (engine_id, instance_key)
        and row["element_id"] in element_ids
        and row["closed_at"] is None  # no engine of the simulator has native tasks, so none is withdrawn
    ]
    closed = await _close(s, here, closed_as)
    return [{name: value for name, value in row.items() if name != "input_hash"} for row in closed]


@statement("runbook", "hold_instance")
async def hold_instance(s: Session, entry_id: UUID) -> list[Values]:
    for row in instances_of(s, entry_id):
        await s.lock("workflow_instance", (row["instance_uid"],))
    return []


@statement("runbook", "hold_tokens")
async def hold_tokens(s: Session, entry_id: UUID) -> list[Values]:
    for row in sorted(open_tokens(s, entry_id), key=lambda row: str(row["token_id"])):
        await s.lock("parked_token", token_key(row))
    return []


@statement("runbook", "end")
async def end(s: Session, entry_id: UUID, outcome: bytes | None) -> list[Values]:
    row = await s.lock("runbook_entry", (entry_id,))
    if row is None or row["ended_at"] is not None:
        return []
    s.put("runbook_entry", (entry_id,), {**row, "outcome": outcome})
    return [{"entry_id": entry_id}]


@statement("runbook", "told")
async def told(s: Session, entry_id: UUID, once: str) -> list[Values]:
    return [{"told": s.get("runbook_event", (entry_id, once)) is not None}]


@statement("runbook", "hold_up")
async def hold_up(
    s: Session,
    tenant_id: str,
    entry_id: UUID,
    instance_uid: UUID,
    engine_id: str,
    instance_key: int,
    element_instance_key: int,
    element_id: str,
    reason: str,
    job_key: int,
) -> list[Values]:
    key = (engine_id, element_instance_key, "incident")
    standing = await displaced(s, key, instance_uid)
    if standing is None:
        known = {"tenant_id": tenant_id, "entry_id": entry_id, "instance_uid": instance_uid}
        job = {
            "engine_id": engine_id,
            "process_instance_key": instance_key,
            "element_instance_key": element_instance_key,
            "element_id": element_id,
            "job_key": job_key,
        }
        token = blank_token(s, known, job, reason)
    elif standing["closed_at"] is not None:
        token = {**standing, "closed_at": None, "closed_as": None, "opened_at": s.now, "job_key": job_key}
    else:
        return []
    s.put("parked_token", key, token)
    return [{"token_id": token["token_id"]}]


@statement("runbook", "let_go")
async def let_go(s: Session, engine_id: str, element_instance_key: int, job_key: int) -> list[Values]:
    standing = s.get("parked_token", (engine_id, element_instance_key, "incident"))
    if standing is None or standing["job_key"] != job_key or standing["closed_at"] is not None:
        return []
    closed = await close_token(s, standing, "resolved")
    return [] if closed is None else [{"token_id": closed["token_id"]}]


@statement("runbook", "request_cancel")
async def request_cancel(s: Session, entry_id: UUID) -> list[Values]:
    row = await s.lock("runbook_entry", (entry_id,))
    if row is None or row["ended_at"] is not None:
        return []
    s.put("runbook_entry", (entry_id,), {**row, "cancel_requested_at": row["cancel_requested_at"] or s.now})
    return [{"entry_id": entry_id}]


@statement("runbook", "is_cancelling")
async def is_cancelling(s: Session, entry_id: UUID) -> list[Values]:
    row = s.get("runbook_entry", (entry_id,))
    return [] if row is None else [{"requested": row["cancel_requested_at"] is not None}]


@statement("runbook", "cancelling")
async def cancelling(s: Session, engine_id: str, longer: timedelta, limit: int) -> list[Values]:
    now = s.now
    found = [
        row
        for row in s.rows("runbook_entry")
        if row["ended_at"] is None
        and row["cancel_requested_at"] is not None
        and row["cancel_requested_at"] < now - longer
        and any(instance["engine_id"] == engine_id for instance in instances_of(s, row["entry_id"]))
    ]
    found.sort(key=lambda row: row["cancel_requested_at"])
    return [{"entry_id": row["entry_id"]} for row in found[:limit]]


def _events(s: Session, entry_id: UUID, kind: str) -> list[Values]:
    found = [row for row in s.rows("runbook_event") if row["entry_id"] == entry_id and row["kind"] == kind]
    return sorted(found, key=lambda row: row["seq"])


@statement("runbook", "done")
async def done(s: Session, entry_id: UUID, kind: str) -> list[Values]:
    return [{"verb": row["detail"].get("verb")} for row in _events(s, entry_id, kind)]


@statement("runbook", "under_way")
async def under_way(s: Session, entry_id: UUID) -> list[Values]:
    entry, mine = s.get("runbook_entry", (entry_id,)), {one["instance_uid"] for one in instances_of(s, entry_id)}
    if entry is None:
        return []
    since = entry["cancel_requested_at"] or entry["updated_at"]
    found = [row for row in s.rows("job_frame") if row["instance_uid"] in mine and _is_in_doubt(row, since)]
    found.sort(key=lambda row: (row["pushed_at"], row["job_key"]))
    return [{name: row[name] for name in ("verb", "element_id", "idempotency_key", "mode")} for row in found]


def _is_in_doubt(frame: Values, since: datetime) -> bool:
    if frame["state"] == "started":
        return True
    if frame["state"] == "completed" or frame["mode"] != "external":
        return False
    if frame["fail_code"] == "JobGone":
        return bool(frame["popped_at"] >= since)
    return frame["acked_at"] is None and frame["fail_code"] in ("OutcomeUnknown", "Timeout", "NotStored")


@statement("runbook", "first")
async def first(s: Session, entry_id: UUID, kind: str) -> list[Values]:
    return [{"detail": json.dumps(row["detail"])} for row in _events(s, entry_id, kind)[:1]]


@statement("database", "keyed")
async def keyed(s: Session) -> list[Values]:
    return []


@statement("effect", "add")
async def effect(s: Session, entry_id: UUID, verb: str, visit: int, key: str) -> list[Values]:
    """What a transactional verb of the simulation does: `INSERT INTO effect`."""
    s.add("effect", {"entry_id": entry_id, "verb": verb, "visit": visit, "key": key})
    return []
