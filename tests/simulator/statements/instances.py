"""Instances, their payloads, and the requests to start them."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.simulator.shapes import DEFINITION_KEYS, SHAPES, drawn
from tests.simulator.statements.triggers import append_event, close_token, dumps, instances_of, loads, tell_start
from tests.simulator.statements.turns import take_in_turn
from tests.simulator.store import Row, Session, Values, refuse, statement
from verbworker.model.waits import as_json

_KNOWN = (*("tenant_id", "entry_id", "verb", "verb_version", "engine_id", "instance_key", "definition_key", "status"),)


@statement("instances", "open")
async def open_(
    s: Session,
    uid: UUID,
    tenant_id: str,
    entry_id: UUID,
    verb: str,
    verb_version: str,
    payload_schema: str,
    engine_id: str,
    process_id: str,
    business_key: str | None,
    correlation: str,
) -> list[Values]:
    if await s.lock("workflow_instance", (uid,)) is not None:
        raise refuse("duplicate key value violates unique constraint")
    row = {
        "instance_uid": uid,
        "tenant_id": tenant_id,
        "entry_id": entry_id,
        "verb": verb,
        "verb_version": verb_version,
        "payload_schema": payload_schema,
        "engine_id": engine_id,
        "process_id": process_id,
        "process_version": None,
        "definition_key": None,
        "instance_key": None,
        "business_key": business_key,
        "correlation": loads(correlation),
        "status": "starting",
        "created_at": s.now,
        "started_at": None,
        "ended_at": None,
        "probed_at": None,
        "missed_at": None,
        "gone_at": None,
    }
    s.put("workflow_instance", (uid,), row)
    return []


def _claim_key(s: Session, uid: UUID, engine_id: str, instance_key: int) -> None:
    """UNIQUE (engine_id, instance_key)."""
    for other in s.rows("workflow_instance"):
        same = (other["engine_id"], other["instance_key"]) == (engine_id, instance_key)
        if same and other["instance_uid"] != uid:
            raise refuse(
                'duplicate key value violates unique constraint "workflow_instance_engine_id_instance_key_key"'
            )


@statement("instances", "pin")
async def pin(s: Session, uid: UUID, instance_key: int, definition_key: int, version: int) -> list[Values]:
    instance = await s.lock("workflow_instance", (uid,))
    if instance is None or instance["instance_key"] is not None or instance["ended_at"] is not None:
        return []
    _claim_key(s, uid, instance["engine_id"], instance_key)
    pinned = {
        **instance,
        "instance_key": instance_key,
        "definition_key": definition_key,
        "process_version": version,
        "status": "active",
        "started_at": s.now,
    }
    s.put("workflow_instance", (uid,), pinned)
    await tell_start(s, pinned)
    return [{"instance_uid": uid}]


@statement("instances", "evict")
async def evict(s: Session, uid: UUID, instance_key: int) -> list[Values]:
    own = s.get("workflow_instance", (uid,))
    evicted = []
    for row in list(s.rows("workflow_instance")):
        if own is None or row["engine_id"] != own["engine_id"] or row["instance_uid"] == uid:
            continue
        standing = (
            await s.lock("workflow_instance", (row["instance_uid"],)) if row["instance_key"] == instance_key else None
        )
        if standing is not None and standing["instance_key"] == instance_key:
            status = "starting" if standing["ended_at"] is None else standing["status"]
            changed = {**standing, "instance_key": None, "missed_at": None, "status": status}
            s.put("workflow_instance", (row["instance_uid"],), changed)
            evicted.append(standing)
    for instance in evicted:
        wanted = (instance["engine_id"], instance_key, instance["instance_uid"])
        for token in list(s.rows("parked_token")):
            if (token["engine_id"], token["instance_key"], token["instance_uid"]) == wanted:
                await close_token(s, token, "gone")
    return [{"entry_id": instance["entry_id"]} for instance in evicted]


@statement("instances", "tell_eviction")
async def tell_eviction(s: Session, entry_id: UUID, uid: UUID, instance_key: int) -> list[Values]:
    said = {"instance_key": instance_key}
    return [
        {"seq": await append_event(s, entry_id, "InstanceUnpinned", f"unpinned:{instance_key}:{uid}", said)},
    ]


@statement("instances", "adopt")
async def adopt(
    s: Session, uid: UUID, instead_of: int, instance_key: int, definition_key: int, version: int
) -> list[Values]:
    instance = await s.lock("workflow_instance", (uid,))
    if instance is None or instance["instance_key"] != instead_of or instance["ended_at"] is not None:
        return []
    _claim_key(s, uid, instance["engine_id"], instance_key)
    pin = {"instance_key": instance_key, "definition_key": definition_key, "process_version": version}
    s.put("workflow_instance", (uid,), {**instance, **pin, "missed_at": None})
    for token in list(s.rows("parked_token")):
        if (token["engine_id"], token["instance_key"]) == (instance["engine_id"], instead_of):
            await close_token(s, token, "gone")
    return [{"entry_id": instance["entry_id"]}]


@statement("instances", "tell_adoption")
async def tell_adoption(s: Session, entry_id: UUID, was: int, instance_key: int) -> list[Values]:
    said = {"instance_key": instance_key, "was": was}
    return [{"seq": await append_event(s, entry_id, "InstanceAdopted", f"adopted:{was}:{instance_key}", said)}]


@statement("instances", "miss")
async def miss(s: Session, uid: UUID, instance_key: int) -> list[Values]:
    instance = await s.lock("workflow_instance", (uid,))
    if instance is not None and instance["instance_key"] == instance_key and instance["ended_at"] is None:
        s.put("workflow_instance", (uid,), {**instance, "missed_at": instance["missed_at"] or s.now})
    return []


@statement("instances", "look_again")
async def look_again(s: Session, uid: UUID, instance_key: int, usual: timedelta) -> list[Values]:
    instance = await s.lock("workflow_instance", (uid,))
    if instance is not None and instance["instance_key"] == instance_key and instance["missed_at"] is None:
        s.put("workflow_instance", (uid,), {**instance, "probed_at": s.now - usual + min(usual, timedelta(minutes=1))})
    return []


@statement("instances", "find_again")
async def find_again(s: Session, uid: UUID, instance_key: int) -> list[Values]:
    instance = await s.lock("workflow_instance", (uid,))
    if instance is not None and instance["instance_key"] == instance_key:
        s.put("workflow_instance", (uid,), {**instance, "missed_at": None})
    return []


def _correlation(s: Session, instance: Values) -> Values:
    head = s.get("payload_head", (instance["instance_uid"],))
    flags = None if head is None else _text(head["flags"])
    known = {name: instance[name] for name in _KNOWN}
    return {**known, "correlation": json.dumps(instance["correlation"]), "flags": flags}


@statement("instances", "known")
async def known(s: Session, uid: UUID) -> list[Values]:
    instance = s.get("workflow_instance", (uid,))
    return [] if instance is None else [_correlation(s, instance)]


@statement("instances", "hold")
async def hold(s: Session, uid: UUID) -> list[Values]:
    instance = await s.lock("workflow_instance", (uid,))
    return [] if instance is None else [_correlation(s, instance)]


@statement("instances", "hold_carrier")
async def hold_carrier(s: Session, entry_id: UUID) -> list[Values]:
    return [_carrier(await s.lock("workflow_instance", (row["instance_uid"],))) for row in instances_of(s, entry_id)]


def _carrier(instance: Values | None) -> Values:
    assert instance is not None
    return {name: instance[name] for name in ("instance_uid", "engine_id", "instance_key", "status")}


@statement("instances", "of_entry")
async def of_entry(s: Session, entry_id: UUID) -> list[Values]:
    return [_carrier(row) for row in instances_of(s, entry_id)]


@statement("instances", "key_of")
async def key_of(s: Session, uid: UUID) -> list[Values]:
    instance = s.get("workflow_instance", (uid,))
    return [] if instance is None else [{"instance_key": instance["instance_key"]}]


@statement("instances", "quiet")
async def quiet(s: Session, engine_id: str, longer: timedelta, limit: int, missed: timedelta) -> list[Values]:
    now = s.now
    silent = []
    for row in s.rows("workflow_instance"):
        entry = s.get("runbook_entry", (row["entry_id"],))
        is_open = row["engine_id"] == engine_id and row["ended_at"] is None and row["instance_key"] is not None
        if entry is None or not is_open or s.is_locked("workflow_instance", (row["instance_uid"],)):
            continue
        is_quiet = entry["updated_at"] < now - longer and (row["probed_at"] is None or row["probed_at"] < now - longer)
        if is_quiet or (row["missed_at"] is not None and row["missed_at"] < now - missed):
            silent.append(row)
    silent.sort(key=lambda row: (row["probed_at"] is not None, row["probed_at"] or now, row["created_at"]))
    found = []
    for row in silent[:limit]:
        is_missed = row["missed_at"] is not None and row["missed_at"] < now - missed
        still = s.now if is_missed else row["missed_at"]
        await s.change("workflow_instance", (row["instance_uid"],), probed_at=s.now, missed_at=still)
        names = ("instance_uid", "entry_id", "instance_key")
        found.append({name: row[name] for name in names} | {"is_missed": is_missed})
    return found


@statement("instances", "is_made_again")
async def is_made_again(s: Session, uid: UUID, instance_key: int) -> list[Values]:
    frames = [row for row in s.rows("job_frame") if row["instance_uid"] == uid and row["acked_at"] is None]
    others = [row for row in frames if row["process_instance_key"] != instance_key]
    served = [row for row in s.rows("job_delivery") if row["instance_uid"] == uid and row["lease_until"] > s.now]
    return [{"is_made_again": bool(others or served)}]


@statement("instances", "lingering")
async def lingering(s: Session, engine_id: str, longer: timedelta, limit: int, within: timedelta) -> list[Values]:
    now = s.now
    ended = []
    for row in s.rows("workflow_instance"):
        is_over = row["engine_id"] == engine_id and row["ended_at"] is not None and row["instance_key"] is not None
        if not is_over or row["gone_at"] is not None or s.is_locked("workflow_instance", (row["instance_uid"],)):
            continue
        probed, at = row["probed_at"], row["ended_at"]
        if now - within < at < now - longer and (probed is None or probed < at or probed < now - longer):
            ended.append(row)
    ended.sort(key=lambda row: row["ended_at"])
    found = []
    for row in ended[:limit]:
        await s.change("workflow_instance", (row["instance_uid"],), probed_at=s.now)
        found.append({name: row[name] for name in ("instance_uid", "entry_id", "instance_key")})
    return found


@statement("instances", "gone")
async def gone(s: Session, uid: UUID, instance_key: int) -> list[Values]:
    instance = await s.lock("workflow_instance", (uid,))
    if instance is not None and instance["instance_key"] == instance_key and instance["ended_at"] is not None:
        s.put("workflow_instance", (uid,), {**instance, "gone_at": s.now})
    return []


# ---- payloads ----------------------------------------------------------------------------------------------------


@statement("payloads", "open")
async def open_versions(
    s: Session, uid: UUID, hash: bytes, content: bytes, seal: str | None, flags: str | None
) -> list[Values]:
    await s.lock("payload_head", (uid,))
    first: Values = {"instance_uid": uid, "version": 0, "hash": hash, "flags": None if flags is None else loads(flags)}
    s.put("payload_head", (uid,), {**first, "content": content, "seal": seal, "unversioned_until": None})
    await s.lock("payload_version", (uid, hash))
    s.put("payload_version", (uid, hash), {**first, "job_key": None})
    return []


@statement("payloads", "head")
async def head(s: Session, uid: UUID) -> list[Values]:
    head = s.get("payload_head", (uid,))
    if head is None:
        return []
    versions = [row for row in s.rows("payload_version") if row["instance_uid"] == uid]
    is_made = any(row["hash"] == head["hash"] and row["version"] <= head["version"] for row in versions)
    is_newest = all(row["version"] <= head["version"] for row in versions)
    row = {name: head[name] for name in ("content", "hash", "version", "seal", "unversioned_until")}
    return [{**row, "flags": _text(head["flags"]), "is_known": is_made and is_newest}]


def _text(flags: Values | None) -> str | None:
    return None if flags is None else dumps(flags)


@statement("payloads", "hold")
async def hold_head(s: Session, uid: UUID) -> list[Values]:
    head = await s.lock("payload_head", (uid,))
    instance = s.get("workflow_instance", (uid,))
    return [] if head is None or instance is None else [Row(correlation=dumps(instance["correlation"]))]


@statement("payloads", "version_of")
async def version_of(s: Session, uid: UUID, hash: bytes) -> list[Values]:
    version = s.get("payload_version", (uid, hash))
    return [] if version is None else [Row(version=version["version"])]


@statement("payloads", "unknown_flags")
async def unknown_flags(s: Session, uid: UUID, brought: str) -> list[Values]:
    known = [row["flags"] or {} for row in s.rows("payload_version") if row["instance_uid"] == uid]
    instance = s.get("workflow_instance", (uid,))
    entry_id = None if instance is None else instance["entry_id"]
    events = [row for row in s.rows("runbook_event") if row["entry_id"] == entry_id]
    known += [row["detail"].get("flags", {}) for row in events if row["kind"] == "ResolveRequested"]
    return [
        Row(name=name) for name, value in loads(brought).items() if not any(flags.get(name) == value for flags in known)
    ]


# ---- dispatches --------------------------------------------------------------------------------------------------


@statement("dispatches", "add")
async def add(
    s: Session, uid: UUID, entry_id: UUID, engine_id: str, process_id: str, variables: bytes, tenant_id: str
) -> list[Values]:
    await s.lock("dispatch", (uid,))
    now = s.now
    row: dict[str, Any] = {
        "instance_uid": uid,
        "entry_id": entry_id,
        "engine_id": engine_id,
        "tenant_id": tenant_id,
        "process_id": process_id,
        "variables": variables,
        "attempts": 0,
        "next_at": now,
        "owner": None,
        "last_error": None,
        "created_at": now,
        "done_at": None,
    }
    s.put("dispatch", (uid,), row)
    return []


def _starts(s: Session, engine_id: str) -> tuple[list[Values], list[Values]]:
    """The requests that wait, and those of them that are due and free."""
    waiting = [row for row in s.rows("dispatch") if row["engine_id"] == engine_id and row["done_at"] is None]
    free = [row for row in waiting if row["next_at"] <= s.now and not s.is_locked("dispatch", (row["instance_uid"],))]
    return waiting, free


async def _claim(s: Session, chosen: list[Values], owner: UUID, timeout: timedelta, more: Values) -> list[Values]:
    taken = []
    for row in chosen:
        claimed = await s.change(
            "dispatch",
            (row["instance_uid"],),
            attempts=row["attempts"] + 1,
            owner=owner,
            next_at=s.now + timeout,
        )
        assert claimed is not None
        names = ("instance_uid", "entry_id", "process_id", "variables", "attempts", "tenant_id")
        taken.append({**{name: claimed[name] for name in names}, **more})
    return taken


@statement("dispatches", "claim")
async def claim(s: Session, engine_id: str, owner: UUID, limit: int, timeout: timedelta) -> list[Values]:
    _, free = _starts(s, engine_id)
    free.sort(key=lambda row: row["next_at"])
    return await _claim(s, free[:limit], owner, timeout, {})


@statement("dispatches", "claim_in_turn")
async def claim_in_turn(
    s: Session, engine_id: str, owner: UUID, limit: int, timeout: timedelta, served: str
) -> list[Values]:
    waiting, free = _starts(s, engine_id)
    chosen, more = take_in_turn(waiting, free, limit, served, s.now)
    return await _claim(s, chosen, owner, timeout, more)


@statement("dispatches", "postpone")
async def postpone(s: Session, uid: UUID, owner: UUID, by: timedelta, reason: str, surely: int) -> list[Values]:
    row = await s.lock("dispatch", (uid,))
    if row is not None and row["owner"] == owner and row["done_at"] is None:
        later = {"next_at": s.now + by, "last_error": reason, "attempts": row["attempts"] - surely}
        s.put("dispatch", (uid,), {**row, **later})
    return []


@statement("dispatches", "doubt")
async def doubt(s: Session, uid: UUID) -> list[Values]:
    row = s.get("dispatch", (uid,))
    return [] if row is None else [{"doubtful": row["attempts"] > 1}]


@statement("dispatches", "withdraw")
async def withdraw(s: Session, uid: UUID) -> list[Values]:
    row = await s.lock("dispatch", (uid,))
    if row is None or row["done_at"] is not None:
        return []
    s.put("dispatch", (uid,), {**row, "done_at": s.now, "variables": b""})
    return [{"attempts": row["attempts"]}]


@statement("dispatches", "backlog")
async def backlog(s: Session, engine_id: str) -> list[Values]:
    waiting = [row for row in s.rows("dispatch") if row["engine_id"] == engine_id and row["done_at"] is None]
    oldest = min((row["created_at"] for row in waiting), default=None)
    return [{"waiting": len(waiting), "oldest": None if oldest is None else (s.now - oldest).total_seconds()}]


# ---- deployments -------------------------------------------------------------------------------------------------


@statement("deployments", "find")
async def find(s: Session, engine_id: str, definition_key: int) -> list[Values]:
    shape = next((shape for name, shape in SHAPES.items() if DEFINITION_KEYS[name] == definition_key), None)
    if shape is None:
        return []
    row = {
        "definition_key": definition_key,
        "process_id": shape.process,
        "version": 1,
        "verb": shape.verb,
        "resource": f"{shape.process}.bpmn",
        "authored_sha256": b"",
        "woven_sha256": b"",
        "waits": json.dumps(as_json(shape.waits)),
        "steps": len(shape.nodes),
        "deployed_by": "simulator",
        "deployed_at": s.now,
    }
    return [row]


@statement("deployments", "content")
async def content(s: Session, engine_id: str, definition_key: int) -> list[Values]:
    shape = next((shape for name, shape in SHAPES.items() if DEFINITION_KEYS[name] == definition_key), None)
    return [] if shape is None else [{"woven": drawn(shape)}]
