"""Outcomes: how runs end, what the engine was told of them, and what the relay sends again."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.simulator.statements.triggers import dumps, loads, write_frame
from tests.simulator.store import Row, Session, Values, statement

_DISTANT = datetime.max


async def _owned(s: Session, engine_id: str, job_key: int, owner: UUID, epoch: int) -> Values | None:
    """A frame that this claim may still write."""
    frame = await s.lock("job_frame", (engine_id, job_key))
    if frame is None or (frame["owner"], frame["epoch"], frame["state"]) != (owner, epoch, "started"):
        return None
    return frame


@statement("frames", "pop_completed")
async def pop_completed(s: Session, engine_id: str, owner: UUID, *columns: Any) -> list[Values]:
    mine = []
    for item in zip(*columns, strict=True):
        frame = await _owned(s, engine_id, item[0], owner, item[1])
        if frame is not None and _is_of_instance(s, frame, item[2]):
            mine.append((item, frame))
    answers = {}
    for item, frame in sorted(mine, key=lambda pair: str(pair[0][2])):
        answers[item[0]] = await _move(s, frame, *item[2:])
    return [{"job_key": item[0], "popped": answers[item[0]]} for item, _ in mine]


@statement("frames", "pop_one")
async def pop_one(s: Session, engine_id: str, owner: UUID, *values: Any) -> list[Values]:
    popped = await pop_completed(s, engine_id, owner, *([value] for value in values))
    if popped and popped[0]["popped"] and values[-1] != "{}":
        await correlate(s, values[2], values[-1])
    return [{"popped": popped[0]["popped"] if popped else None}]


def _is_of_instance(s: Session, frame: Values, uid: UUID) -> bool:
    """Whether the engine instance of a frame is the one that its entry is pinned to."""
    instance = s.get("workflow_instance", (uid,))
    is_pinned = instance is not None and instance["instance_key"] == frame["process_instance_key"]
    return is_pinned and bool(frame["instance_uid"] == uid)


async def _move(
    s: Session,
    frame: Values,
    uid: UUID,
    base: bytes,
    output: bytes,
    output_hash: bytes,
    seal: str,
    flags: str,
    correlation: str,
) -> bool:
    head = await s.lock("payload_head", (uid,))
    if head is None or head["hash"] != base:
        return False
    moved = {**head, "version": head["version"] + 1, "hash": output_hash, "content": output, "seal": seal}
    if head["flags"] is not None:
        moved["flags"] = {**head["flags"], **loads(flags)}
    if output_hash != head["hash"] and seal == head["seal"]:
        # The trigger takes it for a worker of an older release.
        moved |= {"seal": None, "flags": None, "unversioned_until": moved["version"]}
    s.put("payload_head", (uid,), moved)
    if await s.lock("payload_version", (uid, output_hash)) is None:
        version = {"instance_uid": uid, "hash": output_hash, "version": moved["version"], "job_key": frame["job_key"]}
        s.put("payload_version", (uid, output_hash), {**version, "flags": None if flags == "{}" else loads(flags)})
    popped = {
        **frame,
        "state": "completed",
        "outcome": "complete",
        "output": output,
        "output_hash": output_hash,
        "output_seal": seal,
        "flags": loads(flags),
        "correlation": loads(correlation),
        "popped_at": s.now,
        "reported_at": None,
    }
    await write_frame(s, frame, popped)
    return True


@statement("frames", "correlate")
async def correlate(s: Session, uid: UUID, correlation: str) -> list[Values]:
    instance = await s.lock("workflow_instance", (uid,))
    if instance is not None:
        merged = {**loads(correlation), **instance["correlation"]}
        s.put("workflow_instance", (uid,), {**instance, "correlation": merged})
    return []


@statement("frames", "pop_thrown")
async def pop_thrown(
    s: Session, engine_id: str, job_key: int, owner: UUID, epoch: int, code: str, text: str
) -> list[Values]:
    frame = await _owned(s, engine_id, job_key, owner, epoch)
    if frame is None:
        return []
    said = {"error_code": code, "fail_class": "PermanentBusiness", "fail_code": code, "fail_text": text}
    popped = {**frame, **said, "state": "completed", "outcome": "bpmn_error", "popped_at": s.now, "reported_at": None}
    await write_frame(s, frame, popped)
    return [Row(job_key=job_key)]


@statement("frames", "pop_failed")
async def pop_failed(
    s: Session,
    engine_id: str,
    job_key: int,
    owner: UUID,
    epoch: int,
    delay: timedelta,
    kind: str,
    code: str,
    text: str,
) -> list[Values]:
    frame = await _owned(s, engine_id, job_key, owner, epoch)
    if frame is None:
        return []
    now = s.now
    popped = {
        **frame,
        "state": "failed",
        "retries_left": frame["retries_left"] - 1,
        "next_retry_at": now + delay,
        "fail_class": kind,
        "fail_code": code,
        "fail_text": text,
        "popped_at": now,
        "reported_at": None,
    }
    await write_frame(s, frame, popped)
    return [Row(retries_left=popped["retries_left"])]


@statement("frames", "pop_yielded")
async def pop_yielded(
    s: Session,
    engine_id: str,
    job_key: int,
    owner: UUID,
    epoch: int,
    delay: timedelta,
    code: str,
    text: str,
    most: int,
) -> list[Values]:
    frame = await _owned(s, engine_id, job_key, owner, epoch)
    if frame is None or frame["infra_runs"] >= most:
        return []
    now = s.now
    popped = {
        **frame,
        "state": "failed",
        "runs": frame["runs"] - 1,
        "infra_runs": frame["infra_runs"] + 1,
        "next_retry_at": now + delay,
        "fail_class": "TransientInfrastructure",
        "fail_code": code,
        "fail_text": text,
        "popped_at": now,
        "reported_at": None,
    }
    await write_frame(s, frame, popped)
    return [Row(retries_left=popped["retries_left"])]


@statement("frames", "pop_incident")
async def pop_incident(
    s: Session, engine_id: str, job_key: int, owner: UUID, epoch: int, kind: str, code: str, text: str
) -> list[Values]:
    frame = await _owned(s, engine_id, job_key, owner, epoch)
    if frame is None:
        return []
    said = {"fail_class": kind, "fail_code": code, "fail_text": text, "retries_left": 0}
    await write_frame(s, frame, {**frame, **said, "state": "incident", "popped_at": s.now, "reported_at": None})
    return [Row(retries_left=0)]


@statement("frames", "hold")
async def hold(
    s: Session, engine_id: str, job_key: int, owner: UUID, epoch: int, activated_ms: int, code: str, text: str
) -> list[Values]:
    frame = await s.lock("job_frame", (engine_id, job_key))
    if frame is None or (frame["state"], frame["epoch"]) != ("started", epoch):
        return []
    if frame["lease_until"] >= s.now or frame["activated_ms"] >= activated_ms:
        return []
    held = {
        **frame,
        "state": "incident",
        "epoch": epoch + 1,
        "owner": owner,
        "activated_ms": activated_ms,
        "fail_class": "PermanentContract",
        "fail_code": code,
        "fail_text": text,
        "popped_at": s.now,
        "reported_at": None,
    }
    await write_frame(s, frame, held)
    return [{"epoch": epoch + 1}]


@statement("frames", "close")
async def close(
    s: Session, engine_id: str, job_key: int, epoch: int, owner: UUID, code: str, text: str
) -> list[Values]:
    frame = await s.lock("job_frame", (engine_id, job_key))
    if frame is None or frame["epoch"] != epoch or frame["state"] == "completed" or frame["acked_at"] is not None:
        return []
    now = s.now
    closed = {
        **frame,
        "state": "failed",
        "epoch": epoch + 1,
        "owner": owner,
        "fail_class": "TransientInfrastructure",
        "fail_code": code,
        "fail_text": text,
        "retries_left": max(frame["retries_left"], 1),
        "next_retry_at": now,
        "popped_at": frame["popped_at"] or now,
        "acked_at": now,
        "ack_result": "gone",
    }
    await write_frame(s, frame, closed)
    return [{"epoch": epoch + 1}]


@statement("frames", "reported")
async def reported(s: Session, engine_id: str, job_key: int, epoch: int, owner: UUID) -> list[Values]:
    frame = await s.lock("job_frame", (engine_id, job_key))
    if frame is None or frame["epoch"] != epoch or frame["state"] not in ("failed", "incident"):
        return []
    s.put("job_frame", (engine_id, job_key), {**frame, "reported_at": s.now})
    return [{"job_key": job_key}]


@statement("frames", "acknowledge")
async def acknowledge(s: Session, engine_id: str, keys: list[int], result: str) -> list[Values]:
    for job_key in keys:
        frame = await s.lock("job_frame", (engine_id, job_key))
        if frame is not None and frame["state"] == "completed" and frame["acked_at"] is None:
            s.put("job_frame", (engine_id, job_key), {**frame, "acked_at": s.now, "ack_result": result})
    return []


@statement("frames", "relay")
async def relay(s: Session, engine_id: str, older: timedelta, hold_for: timedelta, limit: int) -> list[Values]:
    now = s.now
    due = [
        frame
        for frame in s.rows("job_frame")
        if frame["engine_id"] == engine_id
        and frame["state"] == "completed"
        and frame["acked_at"] is None
        and frame["popped_at"] < now - older
        and (frame["relay_at"] is None or frame["relay_at"] < now)
        and not s.is_locked("job_frame", (engine_id, frame["job_key"]))
    ]
    due.sort(key=lambda frame: (frame["relay_at"] is not None, frame["relay_at"] or _DISTANT))
    names = ("job_key", "outcome", "output", "output_seal", "error_code", "fail_text", "verb")
    offered = []
    for frame in due[:limit]:
        await s.change("job_frame", (engine_id, frame["job_key"]), relay_at=s.now + hold_for)
        row = {name: frame[name] for name in names}
        for name in ("flags", "correlation"):
            row[name] = None if frame[name] is None else dumps(frame[name])
        offered.append(row)
    return offered
