"""The triggers and functions of the migrations: what a write means for the runbook, in the same transaction."""

import json
from datetime import datetime
from typing import Any
from uuid import UUID

from tests.simulator.store import Session, Values, refuse

_OPEN = ("executing", "parked")
_FINAL = ("outcome", "output_hash", "output_seal", "flags", "correlation", "error_code", "epoch", "state")


def instances_of(s: Session, entry_id: UUID) -> list[Values]:
    """The instances that carry an entry out: one, or none."""
    return [row for row in s.rows("workflow_instance") if row["entry_id"] == entry_id]


def open_tokens(s: Session, entry_id: UUID) -> list[Values]:
    """What an entry waits for."""
    return [row for row in s.rows("parked_token") if row["entry_id"] == entry_id and row["closed_at"] is None]


def token_key(row: Values) -> tuple[Any, ...]:
    """The place of a token in its table: its unique columns."""
    return row["engine_id"], row["element_instance_key"], row["kind"]


async def close_token(s: Session, row: Values, closed_as: str) -> Values | None:
    """Close a token unless it was closed while it was waited for."""
    standing = await s.lock("parked_token", token_key(row))
    if standing is None or standing["closed_at"] is not None:
        return None
    closed = {**standing, "closed_at": s.now, "closed_as": closed_as}
    s.put("parked_token", token_key(row), closed)
    return closed


async def displaced(s: Session, key: tuple[Any, ...], instance_uid: Any) -> Values | None:
    """The token at a place; one of another instance gives way, as a trigger sees to."""
    standing = await s.lock("parked_token", key)
    if standing is None or standing["instance_uid"] == instance_uid:
        return standing
    used = [row["element_instance_key"] for row in s.rows("parked_token") if row["engine_id"] == standing["engine_id"]]
    away = min(0, *used) - 1
    closed = {"closed_at": standing["closed_at"] or s.now, "closed_as": standing["closed_as"] or "gone"}
    moved = {**standing, **closed, "element_instance_key": away}
    await s.lock("parked_token", token_key(moved))
    s.put("parked_token", key, None)
    s.put("parked_token", token_key(moved), moved)
    return None


def _status_after(kind: str, detail: Values, waits: bool) -> str:
    if kind == "ExecutionResult":
        return "completed" if detail.get("result") == "ok" else "failed"
    if kind == "Cancelled":
        return "cancelled"
    return "parked" if waits else "executing"


async def append_event(s: Session, entry_id: UUID, kind: str, once: str, detail: Values) -> int | None:
    """`verbworker.append_event`."""
    held = await s.lock("runbook_entry", (entry_id,))
    if held is None or s.get("runbook_event", (entry_id, once)) is not None:
        return None
    now = s.now
    waiting = open_tokens(s, entry_id)
    status = _status_after(kind, detail, bool(waiting))
    ends = status not in _OPEN
    if held["ended_at"] is not None:
        if ends:
            return None
        status = held["status"]
    if status not in _OPEN:
        for token in waiting:
            await close_token(s, token, "ended")
    seq: int = held["last_seq"] + 1
    event = {"entry_id": entry_id, "seq": seq, "at": now, "kind": kind, "once": once, "detail": detail}
    await s.lock("runbook_event", (entry_id, once))
    s.put("runbook_event", (entry_id, once), {**event, "status": status})
    ended_at = now if ends else held["ended_at"]
    s.put(
        "runbook_entry",
        (entry_id,),
        {**held, "last_seq": seq, "status": status, "updated_at": now, "ended_at": ended_at},
    )
    if held["ended_at"] is None and ended_at is not None:
        await _tell_end(s, entry_id, status, ended_at)
    return seq


async def _tell_end(s: Session, entry_id: UUID, status: str, ended_at: datetime) -> None:
    """An entry that ends takes its instance with it, and the frames that waited for a retry or a person."""
    for instance in instances_of(s, entry_id):
        standing = await s.lock("workflow_instance", (instance["instance_uid"],))
        if standing is not None and standing["ended_at"] is None:
            ended = {**standing, "status": status, "ended_at": ended_at}
            s.put("workflow_instance", (standing["instance_uid"],), ended)
        for frame in list(s.rows("job_frame")):
            key = (frame["engine_id"], frame["job_key"])
            is_waiting = frame["state"] in ("failed", "incident") and frame["acked_at"] is None
            is_its = frame["instance_uid"] == instance["instance_uid"]
            if is_its and is_waiting and not s.is_locked("job_frame", key):
                await s.change("job_frame", key, acked_at=s.now, ack_result="gone")


async def write_frame(s: Session, old: Values, new: Values) -> None:
    """Update a frame that is locked, with what its triggers refuse and tell."""
    if new["epoch"] < old["epoch"]:
        raise refuse("frame is completed or fenced and cannot change")
    if old["state"] == "completed" and any(old[name] != new[name] for name in _FINAL):
        raise refuse("frame is completed or fenced and cannot change")
    if new["state"] == "failed" and (new["next_retry_at"] is None or new["retries_left"] <= 0):
        raise refuse('new row for "job_frame" violates check constraint "frame_is_plausible"')
    s.put("job_frame", (new["engine_id"], new["job_key"]), new)
    is_told = new["repeats"] is None and (new["state"] in ("completed", "incident") or old["state"] == "incident")
    if new["instance_uid"] is not None and new["state"] != old["state"] and is_told:
        await _tell_frame(s, new)


async def _tell_frame(s: Session, new: Values) -> None:
    known = s.get("workflow_instance", (new["instance_uid"],))
    if known is None or known["instance_key"] not in (None, new["process_instance_key"]):
        return
    entry = s.get("runbook_entry", (known["entry_id"],))
    if entry is None or (new["state"] != "completed" and entry["ended_at"] is not None):
        return
    names = ("verb", "job_key")
    told = {name: new[name] for name in names} | {
        "element": new["element_id"],
        "instance_key": new["process_instance_key"],
    }
    engine_id, job_key, epoch = new["engine_id"], new["job_key"], new["epoch"]
    if new["state"] == "completed":
        said = {**told, "runs": new["runs"], "outcome": new["outcome"], "error_code": new["error_code"]}
        await append_event(s, known["entry_id"], "StepCompleted", f"step:{engine_id}:{job_key}", said)
    elif new["state"] == "incident":
        await _raise_incident(s, known, new, told)
    else:
        for token in list(s.rows("parked_token")):
            place = (token["engine_id"], token["element_instance_key"], token["kind"])
            if place == (engine_id, new["element_instance_key"], "incident"):
                await close_token(s, token, "resolved")
        once = f"{engine_id}:{job_key}:{epoch}"
        await append_event(s, known["entry_id"], "IncidentResolved", f"resolved:{once}", told)
        await append_event(s, known["entry_id"], "Resumed", f"released:{once}", {**told, "wait": "incident"})


async def _raise_incident(s: Session, known: Values, new: Values, told: Values) -> None:
    key = (new["engine_id"], new["element_instance_key"], "incident")
    standing = await displaced(s, key, known["instance_uid"])
    reason = f"Waiting for an operator: {new['verb']}"
    if standing is None:
        token = blank_token(s, known, new, reason)
    else:
        token = {**standing, "closed_at": None, "closed_as": None, "opened_at": s.now, "job_key": new["job_key"]}
    s.put("parked_token", key, token)
    once = f"{new['engine_id']}:{new['job_key']}:{new['epoch']}"
    failed = {"class": new["fail_class"], "code": new["fail_code"], "text": new["fail_text"]}
    await append_event(s, known["entry_id"], "IncidentRaised", f"incident:{once}", {**told, **failed})
    waits = {**told, "wait": "incident", "reason": reason}
    await append_event(s, known["entry_id"], "Parked", f"held:{once}", waits)


def blank_token(s: Session, known: Values, job: Values, reason: str) -> Values:
    """A new token of kind incident."""
    now = s.now
    return {
        "token_id": s.store.uuids(),
        "tenant_id": known["tenant_id"],
        "entry_id": known["entry_id"],
        "instance_uid": known["instance_uid"],
        "engine_id": job["engine_id"],
        "instance_key": job["process_instance_key"],
        "element_instance_key": job["element_instance_key"],
        "element_id": job["element_id"],
        "kind": "incident",
        "reason": reason,
        "gate": None,
        "message_name": None,
        "correlation_key": None,
        "job_key": job["job_key"],
        "detail": {},
        "claimed_by": None,
        "claimed_at": None,
        "opened_at": now,
        "seen_at": now,
        "closed_at": None,
        "closed_as": None,
        "due_at": None,
        "input_hash": None,
        "due_beside": [],
    }


async def tell_start(s: Session, new: Values) -> None:
    """`verbworker.tell_start`: an instance became known to the engine."""
    uid, entry_id = new["instance_uid"], new["entry_id"]
    dispatch = await s.lock("dispatch", (uid,))
    if dispatch is not None and dispatch["done_at"] is None:
        s.put("dispatch", (uid,), {**dispatch, "done_at": s.now, "variables": b""})
    entry = await s.lock("runbook_entry", (entry_id,))
    if entry is not None and entry["definition_key"] is None:
        pin = {"process_version": new["process_version"], "definition_key": new["definition_key"]}
        s.put("runbook_entry", (entry_id,), {**entry, **pin})
    said = {
        "instance_key": new["instance_key"],
        "process": new["process_id"],
        "version": new["process_version"],
        "definition_key": new["definition_key"],
    }
    await append_event(s, entry_id, "DurableTaskStarted", "started", said)


def loads(text: str) -> Any:
    """Text that becomes `jsonb`."""
    return {} if text == "{}" else json.loads(text)


def dumps(value: Any) -> str:
    """`jsonb` as asyncpg gives it."""
    return json.dumps(value) if value else "{}"
