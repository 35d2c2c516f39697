"""Claims: `open`, `push`, and what is read of frames."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.simulator.statements.triggers import dumps, write_frame
from tests.simulator.store import Session, Values, statement

_GRACE_MS = 5_000
PUSHED = (
    *("job_key", "process_instance_key", "element_instance_key", "verb", "tenant_id", "instance_uid", "process_id"),
    *("process_version", "element_id", "entry_id", "mode", "on_unknown", "max_runs", "idempotency_window"),
    *("idempotency_key", "activated_ms", "retries_left", "input_hash"),
)
_PER_JOB = (
    *("job_key", "process_instance_key", "element_instance_key", "instance_uid", "entry_id", "idempotency_key"),
    *("activated_ms", "input_hash"),
)
_PER_KIND = (
    *("verb", "tenant_id", "process_id", "process_version", "element_id", "mode", "on_unknown", "max_runs"),
    *("idempotency_window", "retries_left"),
)
_IDENTITY = ("process_instance_key", "element_instance_key", "verb", "tenant_id", "instance_uid")
_RENEWED = (
    *("activated_ms", "mode", "on_unknown", "max_runs", "idempotency_window", "process_id", "process_version"),
    *("element_id", "input_hash"),
)
_READ = (
    *("job_key", "process_instance_key", "element_instance_key", "verb", "tenant_id", "instance_uid", "mode"),
    *("on_unknown", "max_runs", "idempotency_window", "state", "epoch", "owner", "lease_until", "activated_ms"),
    *("runs", "retries_left", "keyed_at", "next_retry_at", "input_hash", "outcome", "output", "output_seal"),
    *("error_code", "fail_class", "fail_code", "fail_text", "reported_at", "acked_at"),
)
_CLAIMED = (
    *("job_key", "epoch", "owner", "claimed_from", "runs", "retries_left", "generation", "idempotency_key"),
    *("first_run_at", "lease_until", "deliveries"),
)


def new_frame(s: Session, engine_id: str, item: Values, owner: UUID, lease: timedelta) -> Values:
    """A frame with every column as a new one has it."""
    now = s.now
    return {
        **item,
        "engine_id": engine_id,
        "owner": owner,
        "lease_until": now + lease,
        "generation": 0,
        "state": "started",
        "epoch": 1,
        "claimed_from": "new",
        "deliveries": 1,
        "runs": 1,
        "infra_runs": 0,
        "first_run_at": now,
        "keyed_at": now,
        "next_retry_at": None,
        "outcome": None,
        "output": None,
        "output_hash": None,
        "output_seal": None,
        "flags": None,
        "correlation": None,
        "error_code": None,
        "fail_class": None,
        "fail_code": None,
        "fail_text": None,
        "reported_at": None,
        "acked_at": None,
        "ack_result": None,
        "relay_at": None,
        "pushed_at": now,
        "popped_at": None,
        "repeats": None,
    }


def _known(s: Session, frame: Values) -> Values:
    """What the database knows of a frame's instance and input."""
    uid, input_hash = frame["instance_uid"], frame["input_hash"]
    instance = None if uid is None else s.get("workflow_instance", (uid,))
    head = None if uid is None else s.get("payload_head", (uid,))
    is_head = instance is not None and head is not None and head["hash"] == input_hash
    version = None if uid is None else s.get("payload_version", (uid, input_hash))
    if is_head:
        version = head
    row: Values = {"now": s.now, "correlated": instance is not None, "input_is_head": is_head}
    row["input_version"] = None if version is None else version["version"]
    row["unversioned_until"] = None if head is None else head["unversioned_until"]
    row["flags"] = None if head is None or head["flags"] is None else dumps(head["flags"])
    names = ("tenant_id", "entry_id", "verb_version", "instance_key", "definition_key")
    row |= {name: None if instance is None else instance[name] for name in names}
    row["workflow_verb"] = None if instance is None else instance["verb"]
    row["instance_engine_id"] = None if instance is None else instance["engine_id"]
    row["instance_status"] = None if instance is None else instance["status"]
    row["correlation"] = None if instance is None else dumps(instance["correlation"])
    return row


def archived(s: Session, engine_id: str, job_key: int) -> list[Values]:
    """The frames of a key in the archive, the latest first."""
    found = [row for row in s.rows("job_frame_archive") if (row["engine_id"], row["job_key"]) == (engine_id, job_key)]
    return sorted(found, key=lambda row: row["acked_at"], reverse=True)


_SAME_JOB = ("process_instance_key", "element_instance_key", "instance_uid")


def _is_archived(s: Session, engine_id: str, item: Values) -> bool:
    return any(all(old[name] == item[name] for name in _SAME_JOB) for old in archived(s, engine_id, item["job_key"]))


def _has_twin(s: Session, frame: Values, beside: set[int]) -> bool | None:
    """Whether another frame of the element has the same input; those of the same statement are not seen by it."""
    names = ("instance_uid", "element_id", "engine_id")
    inputs = [
        other["input_hash"]
        for other in s.rows("job_frame")
        if other["job_key"] not in beside and all(other[name] == frame[name] for name in names)
    ]
    return None if frame["instance_uid"] is None or not inputs else frame["input_hash"] in inputs


@statement("frames", "open")
async def open_(s: Session, engine_id: str, owner: UUID, lease: timedelta, *columns: Any) -> list[Values]:
    jobs, kinds, looks = columns[:9], columns[9:19], columns[19]
    opened = []
    for place in range(len(jobs[0])):
        kind = jobs[8][place] - 1
        item = {name: jobs[at][place] for at, name in enumerate(_PER_JOB)}
        item |= {name: kinds[at][kind] for at, name in enumerate(_PER_KIND)}
        if looks and _is_archived(s, engine_id, item):
            continue
        key = (engine_id, item["job_key"])
        if await s.lock("job_frame", key) is None:
            frame = new_frame(s, engine_id, item, owner, lease)
            s.put("job_frame", key, frame)
            opened.append(frame)
    names = ("job_key", "first_run_at", "lease_until")
    beside = {frame["job_key"] for frame in opened}
    return [
        {
            **{name: frame[name] for name in names},
            **_known(s, frame),
            "has_twin": _has_twin(s, frame, beside),
            "is_instance_old": _is_instance_old(s, frame),
        }
        for frame in opened
    ]


def _is_instance_old(s: Session, frame: Values) -> bool | None:
    instance = None if frame["instance_uid"] is None else s.get("workflow_instance", (frame["instance_uid"],))
    return None if instance is None else instance["created_at"] < s.now - timedelta(minutes=1)


@statement("frames", "push")
async def push(s: Session, engine_id: str, owner: UUID, lease: timedelta, *columns: Any) -> list[Values]:
    items = [dict(zip(PUSHED, row, strict=True)) for row in zip(*columns[:-1], strict=True)]
    looks, claimed = columns[-1], []
    for item in sorted(items, key=lambda item: item["job_key"]):
        if looks and _is_archived(s, engine_id, item):
            continue
        key = (engine_id, item["job_key"])
        frame = await s.lock("job_frame", key)
        if frame is None:
            new = new_frame(s, engine_id, item, owner, lease)
            s.put("job_frame", key, new)
        elif all(frame[name] == item[name] for name in _IDENTITY) and _may_take(s, frame, item):
            new = _taken(s, frame, item, owner, lease)
            await write_frame(s, frame, new)
        else:
            continue
        claimed.append(new)
    return [{**{name: frame[name] for name in _CLAIMED}, **_known(s, frame)} for frame in claimed]


def _may_take(s: Session, frame: Values, item: Values) -> bool:
    if item["activated_ms"] <= frame["activated_ms"]:
        return False
    now = s.now
    is_repeatable = frame["mode"] == "transactional" or (
        frame["on_unknown"] != "hold" and frame["keyed_at"] > now - frame["idempotency_window"]
    )
    match frame["state"]:
        case "failed":
            return bool(frame["next_retry_at"] <= now and (frame["acked_at"] is None or is_repeatable))
        case "started":
            return bool(frame["lease_until"] < now and frame["runs"] < frame["max_runs"] and is_repeatable)
        case "incident":
            told = frame["reported_at"]
            return told is not None and item["activated_ms"] > told.timestamp() * 1000 + _GRACE_MS
    return False


def _taken(s: Session, frame: Values, item: Values, owner: UUID, lease: timedelta) -> Values:
    origin = {"failed": "retry", "started": "takeover"}.get(frame["state"], "release")
    is_released = origin == "release"
    now = s.now
    return {
        **frame,
        **{name: item[name] for name in _RENEWED},
        "state": "started",
        "epoch": frame["epoch"] + 1,
        "owner": owner,
        "lease_until": now + lease,
        "claimed_from": origin,
        "deliveries": frame["deliveries"] + 1,
        "runs": 1 if is_released else frame["runs"] + 1,
        "infra_runs": 0 if is_released else frame["infra_runs"],
        "retries_left": item["retries_left"] if is_released else frame["retries_left"],
        "first_run_at": now if is_released else frame["first_run_at"],
        "next_retry_at": None,
        "reported_at": None,
        "acked_at": None,
        "ack_result": None,
    }


@statement("frames", "resume")
async def resume(s: Session, engine_id: str, job_key: int, owner: UUID) -> list[Values]:
    frame = s.get("job_frame", (engine_id, job_key))
    if frame is None or frame["owner"] != owner or frame["state"] != "started":
        return []
    return [{**{name: frame[name] for name in _CLAIMED}, **_known(s, frame)}]


def read_frame(s: Session, frame: Values, *, archived: bool = False) -> Values:
    """A frame as the statements return it that read one."""
    row = {name: frame[name] for name in _READ}
    for name in ("flags", "correlation"):
        row[name] = None if frame[name] is None else dumps(frame[name])
    return {**row, "now": s.now, "archived": archived}


@statement("frames", "observe")
async def observe(s: Session, engine_id: str, job_key: int) -> list[Values]:
    frame = await s.lock("job_frame", (engine_id, job_key))
    if frame is None:
        return []
    seen = {**frame, "deliveries": frame["deliveries"] + 1}
    s.put("job_frame", (engine_id, job_key), seen)
    return [read_frame(s, seen)]


@statement("frames", "read")
async def read(s: Session, engine_id: str, job_key: int) -> list[Values]:
    frame = s.get("job_frame", (engine_id, job_key))
    return [] if frame is None else [read_frame(s, frame)]


@statement("frames", "read_archived")
async def read_archived(s: Session, engine_id: str, job_key: int) -> list[Values]:
    return [read_frame(s, frame, archived=True) for frame in archived(s, engine_id, job_key)[:1]]


@statement("frames", "settle")
async def settle(s: Session, engine_id: str, job_key: int) -> list[Values]:
    frame = await s.lock("job_frame", (engine_id, job_key))
    return [] if frame is None else [{name: frame[name] for name in ("state", "epoch", "owner")}]


@statement("frames", "heartbeat")
async def heartbeat(
    s: Session, engine_id: str, owner: UUID, lease: timedelta, keys: list[int], epochs: list[int]
) -> list[Values]:
    beaten = []
    for job_key, epoch in zip(keys, epochs, strict=True):
        key = (engine_id, job_key)
        frame = s.get("job_frame", key)
        if frame is None or s.is_locked("job_frame", key):
            continue
        if (frame["owner"], frame["epoch"], frame["state"]) == (owner, epoch, "started"):
            await s.change("job_frame", key, lease_until=s.now + lease)
            beaten.append({"job_key": job_key})
    return beaten


@statement("frames", "still_mine")
async def still_mine(s: Session, engine_id: str, owner: UUID, keys: list[int], epochs: list[int]) -> list[Values]:
    found = []
    for job_key, epoch in zip(keys, epochs, strict=True):
        frame = s.get("job_frame", (engine_id, job_key))
        if frame is not None and (frame["owner"], frame["epoch"]) == (owner, epoch):
            found.append({"job_key": job_key})
    return found


@statement("frames", "note")
async def note(
    s: Session, engine_id: str, job_key: int, kind: str, epoch: int | None, owner: UUID, detail: str
) -> list[Values]:
    row = {"engine_id": engine_id, "job_key": job_key, "kind": kind, "epoch": epoch, "owner": owner, "detail": detail}
    s.add("frame_event", row)
    return []


@statement("frames", "quarantine")
async def quarantine(s: Session, engine_id: str, job_key: int, delivery: str) -> list[Values]:
    s.add("frame_conflict", {"engine_id": engine_id, "job_key": job_key, "delivery": delivery})
    return []


@statement("frames", "boot")
async def boot(s: Session, owner: UUID, name: str, host: str, pid: int, engine_id: str, leases: bool) -> list[Values]:
    return []


@statement("frames", "seen")
async def seen(s: Session, owner: UUID) -> list[Values]:
    return []


@statement("frames", "left")
async def left(s: Session, owner: UUID) -> list[Values]:
    return []
