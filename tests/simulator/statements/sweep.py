"""Leases that are over, and the rows of jobs without a frame."""

from datetime import datetime, timedelta
from uuid import UUID

from tests.simulator.statements.frames import read_frame
from tests.simulator.statements.triggers import write_frame
from tests.simulator.store import Session, Values, statement


@statement("leases", "open")
async def open_(s: Session, engine_id: str, limit: int) -> list[Values]:
    found = [
        frame
        for frame in s.rows("job_frame")
        if frame["engine_id"] == engine_id
        and frame["state"] != "completed"
        and frame["acked_at"] is None
        and (frame["state"] != "incident" or frame["reported_at"] is None)
    ]
    found.sort(key=lambda frame: frame["lease_until"])
    return [{"job_key": frame["job_key"]} for frame in found[:limit]]


def _is_due(frame: Values, now: datetime, grace: timedelta, unclaimed: timedelta) -> bool:
    if frame["state"] == "completed" or frame["acked_at"] is not None or frame["lease_until"] >= now - grace:
        return False
    match frame["state"]:
        case "started":
            return True
        case "incident":
            return frame["reported_at"] is None
    is_over = bool(frame["next_retry_at"] <= now)
    return is_over and (frame["reported_at"] is None or frame["next_retry_at"] < now - unclaimed)


@statement("leases", "take")
async def take(
    s: Session,
    engine_id: str,
    owner: UUID,
    lease: timedelta,
    grace: timedelta,
    unclaimed: timedelta,
    limit: int,
    keys: list[int],
) -> list[Values]:
    now = s.now
    due = []
    for job_key in dict.fromkeys(keys):
        frame = s.get("job_frame", (engine_id, job_key))
        if frame is None or s.is_locked("job_frame", (engine_id, job_key)):
            continue
        if _is_due(frame, now, grace, unclaimed):
            due.append(frame)
    due.sort(key=lambda frame: frame["lease_until"])
    taken = []
    for frame in due[:limit]:
        now = s.now
        changed = {"epoch": frame["epoch"] + 1, "owner": owner, "lease_until": now + lease}
        if frame["state"] == "failed":
            changed["next_retry_at"] = now
        new = await s.change("job_frame", (engine_id, frame["job_key"]), **changed)
        assert new is not None
        as_it_stood = {"owner": frame["owner"], "lease_until": frame["lease_until"]}
        taken.append({**read_frame(s, {**new, **as_it_stood}), "entry_id": frame["entry_id"]})
    return taken


@statement("leases", "run_again")
async def run_again(
    s: Session, engine_id: str, owner: UUID, keys: list[int], epochs: list[int], details: list[str]
) -> list[Values]:
    freed = []
    for job_key, epoch in zip(keys, epochs, strict=True):
        frame = await s.lock("job_frame", (engine_id, job_key))
        if frame is None or (frame["owner"], frame["epoch"], frame["state"]) != (owner, epoch, "started"):
            continue
        now = s.now
        failed = {
            **frame,
            "state": "failed",
            "next_retry_at": now,
            "retries_left": max(frame["retries_left"], 1),
            "fail_class": "TransientInfrastructure",
            "fail_code": "LeaseOver",
            "fail_text": "its worker stopped reporting",
            "popped_at": now,
            "reported_at": None,
        }
        await write_frame(s, frame, failed)
        freed.append({"job_key": job_key})
    return freed


@statement("leases", "hold")
async def hold(
    s: Session, engine_id: str, job_key: int, owner: UUID, epoch: int, kind: str, code: str, text: str, detail: str
) -> list[Values]:
    frame = await s.lock("job_frame", (engine_id, job_key))
    if frame is None or (frame["owner"], frame["epoch"], frame["state"]) != (owner, epoch, "started"):
        return []
    said = {"fail_class": kind, "fail_code": code, "fail_text": text}
    await write_frame(s, frame, {**frame, **said, "state": "incident", "popped_at": s.now, "reported_at": None})
    return [{"epoch": epoch}]


@statement("leases", "postpone")
async def postpone(
    s: Session, engine_id: str, job_key: int, owner: UUID, epoch: int, grace: timedelta, pause: timedelta
) -> list[Values]:
    frame = await s.lock("job_frame", (engine_id, job_key))
    is_ours = frame is not None and (frame["owner"], frame["epoch"]) == (owner, epoch)
    if frame is not None and is_ours and frame["state"] in ("failed", "incident"):
        s.put("job_frame", (engine_id, job_key), {**frame, "lease_until": s.now - grace + pause})
    return []


@statement("leases", "ask")
async def ask(
    s: Session, engine_id: str, grace: timedelta, ended: timedelta, held: timedelta, limit: int
) -> list[Values]:
    now = s.now
    due = []
    for frame in s.rows("job_frame"):
        key = (engine_id, frame["job_key"])
        if frame["engine_id"] != engine_id or frame["state"] == "completed" or frame["acked_at"] is not None:
            continue
        if frame["lease_until"] >= now - grace or frame["state"] == "started" or frame["reported_at"] is None:
            continue
        instance = s.get("workflow_instance", (frame["instance_uid"],))
        has_ended = instance is not None and instance["ended_at"] is not None
        is_old = frame["state"] == "incident" and frame["reported_at"] < now - held
        if (has_ended or is_old) and not s.is_locked("job_frame", key):
            due.append((frame["lease_until"], frame, has_ended))
    due.sort(key=lambda one: one[0])
    asked = []
    for _, frame, has_ended in due[:limit]:
        await s.change("job_frame", (engine_id, frame["job_key"]), lease_until=s.now + (ended if has_ended else held))
        names = ("engine_id", "job_key", "epoch", "verb", "instance_uid", "retries_left")
        asked.append({**{name: frame[name] for name in names}, "asked_key": frame["job_key"]})
    return asked


# ---- jobs without a frame ----------------------------------------------------------------------------------------


@statement("deliveries", "write")
async def write(
    s: Session,
    engine_id: str,
    owner: UUID,
    lease: timedelta,
    ended: list[int],
    keys: list[int],
    types: list[str],
    uids: list[UUID | None],
    retries: list[int],
    new: list[int],
) -> list[Values]:
    for job_key in ended:
        row = await s.lock("job_delivery", (engine_id, job_key))
        if row is not None and row["owner"] == owner:
            s.put("job_delivery", (engine_id, job_key), None)
    for job_key, type, uid, left in sorted(zip(keys, types, uids, retries, strict=True), key=lambda item: item[0]):
        standing = await s.lock("job_delivery", (engine_id, job_key))
        now = s.now
        row = {"engine_id": engine_id, "job_key": job_key, "type": type, "instance_uid": uid, "retries": left}
        row |= {"owner": owner, "lease_until": now + lease, "delivered_at": now}
        if standing is not None:
            is_own = standing["owner"] == owner
            if not is_own and standing["lease_until"] >= now and job_key not in new:
                continue
            changed = {name: row[name] for name in ("retries", "owner", "lease_until")}
            row = {**standing, **changed, "delivered_at": standing["delivered_at"] if is_own else now}
        s.put("job_delivery", (engine_id, job_key), row)
    return []


@statement("deliveries", "take")
async def take_rows(
    s: Session, engine_id: str, owner: UUID, lease: timedelta, grace: timedelta, limit: int
) -> list[Values]:
    now = s.now
    due = [
        row
        for row in s.rows("job_delivery")
        if row["engine_id"] == engine_id
        and row["lease_until"] < now - grace
        and not s.is_locked("job_delivery", (engine_id, row["job_key"]))
    ]
    due.sort(key=lambda row: row["lease_until"])
    taken = []
    for row in due[:limit]:
        new = await s.change("job_delivery", (engine_id, row["job_key"]), owner=owner, lease_until=s.now + lease)
        assert new is not None
        taken.append({name: new[name] for name in ("job_key", "type", "instance_uid", "retries", "lease_until")})
    return taken


async def _taken(s: Session, engine_id: str, job_key: int, owner: UUID, until: datetime) -> Values | None:
    row = await s.lock("job_delivery", (engine_id, job_key))
    return row if row is not None and (row["owner"], row["lease_until"]) == (owner, until) else None


@statement("deliveries", "remove")
async def remove(s: Session, engine_id: str, job_key: int, owner: UUID, until: datetime) -> list[Values]:
    if await _taken(s, engine_id, job_key, owner, until) is not None:
        s.put("job_delivery", (engine_id, job_key), None)
    return []


@statement("deliveries", "postpone")
async def postpone_row(
    s: Session, engine_id: str, job_key: int, owner: UUID, until: datetime, grace: timedelta, pause: timedelta
) -> list[Values]:
    row = await _taken(s, engine_id, job_key, owner, until)
    if row is not None:
        s.put("job_delivery", (engine_id, job_key), {**row, "lease_until": s.now - grace + pause})
    return []
