"""Steps under several job keys, and keys that the engine gave out twice."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.simulator.statements.frames import PUSHED, archived, new_frame
from tests.simulator.statements.triggers import dumps, write_frame
from tests.simulator.store import Session, Values, refuse, statement

_TWIN = (
    *("job_key", "state", "mode", "on_unknown", "epoch", "runs", "fail_code", "keyed_at", "acked_at"),
    *("process_instance_key", "activated_ms"),
)
_VERDICT = ("output", "output_hash", "output_seal", "flags", "correlation")


@statement("steps", "twins")
async def twins(
    s: Session, engine_id: str, uid: UUID, job_key: int, element_id: str, input_hash: bytes, is_once: bool
) -> list[Values]:
    step, now = (engine_id, uid, element_id) + (() if is_once else (input_hash,)), s.now
    names = ("engine_id", "instance_uid", "element_id", *(() if is_once else ("input_hash",)))
    given = s.get("payload_version", (uid, input_hash))
    found = [
        {
            **{name: frame[name] for name in _TWIN},
            "is_confirmed": frame["ack_result"] == "ok",
            "is_live": frame["lease_until"] >= now,
            "is_remembered": frame["keyed_at"] > now - frame["idempotency_window"],
            "is_heard": _is_heard(given, s.get("payload_version", (uid, frame["output_hash"]))),
        }
        for frame in s.rows("job_frame")
        if tuple(frame[name] for name in names) == step
        and frame["job_key"] != job_key
        and frame["outcome"] != "bpmn_error"
        and frame["repeats"] is None
        and frame["fail_code"] != "DuplicateInstance"
        and (frame["state"], frame["fail_code"]) != ("failed", "StepMovedOn")
    ]
    for version in list(s.rows("payload_version")):
        if version["instance_uid"] != uid or version["job_key"] is None:
            continue
        found += [
            {
                **{name: old[name] for name in _TWIN},
                "is_confirmed": old["ack_result"] == "ok",
                "is_live": False,
                "is_remembered": True,
                "is_heard": _is_heard(given, version),
            }
            for old in archived(s, engine_id, version["job_key"])
            if tuple(old[name] for name in names) == step and _is_only_archived(s, old)
        ]
    return found


def _is_heard(given: Values | None, made: Values | None) -> bool:
    return given is not None and made is not None and bool(given["version"] >= made["version"])


def _is_only_archived(s: Session, old: Values) -> bool:
    if (old["state"], old["outcome"], old["repeats"]) != ("completed", "complete", None):
        return False
    frame = s.get("job_frame", (old["engine_id"], old["job_key"]))
    names = ("process_instance_key", "element_instance_key", "instance_uid")
    return frame is None or any(frame[name] != old[name] for name in names)


@statement("steps", "thrown")
async def thrown(
    s: Session, engine_id: str, uid: UUID, job_key: int, element_id: str, input_hash: bytes, is_once: bool
) -> list[Values]:
    step = (engine_id, uid, element_id, "completed", "bpmn_error", "external", *(() if is_once else (input_hash,)))
    names = (
        "engine_id",
        "instance_uid",
        "element_id",
        "state",
        "outcome",
        "mode",
        *(() if is_once else ("input_hash",)),
    )
    found = [
        frame
        for frame in s.rows("job_frame")
        if tuple(frame[name] for name in names) == step and frame["job_key"] != job_key
    ]
    found.sort(key=lambda frame: frame["keyed_at"], reverse=True)
    return [
        {
            "job_key": frame["job_key"],
            "is_answered": frame["acked_at"] is not None,
            "is_confirmed": frame["ack_result"] == "ok",
        }
        for frame in found
    ]


@statement("steps", "follow")
async def follow(s: Session, engine_id: str, job_key: int, owner: UUID, epoch: int, twin_key: int) -> list[Values]:
    twin = s.get("job_frame", (engine_id, twin_key))
    frame = await s.lock("job_frame", (engine_id, job_key))
    if twin is None or frame is None or (frame["owner"], frame["epoch"], frame["state"]) != (owner, epoch, "started"):
        return []
    key = {"idempotency_key": twin["idempotency_key"], "keyed_at": twin["keyed_at"]}
    s.put("job_frame", (engine_id, job_key), {**frame, **key})
    return [{"idempotency_key": twin["idempotency_key"]}]


@statement("steps", "repeat")
async def repeat(s: Session, engine_id: str, job_key: int, owner: UUID, epoch: int, twin_key: int) -> list[Values]:
    hot = s.get("job_frame", (engine_id, twin_key))
    twins = [] if hot is None else [hot]
    done = next((one for one in (*twins, *archived(s, engine_id, twin_key)) if one["state"] == "completed"), None)
    frame = await s.lock("job_frame", (engine_id, job_key))
    if done is None or frame is None:
        return []
    if (frame["owner"], frame["epoch"], frame["state"]) != (owner, epoch, "started"):
        return []
    verdict = {name: done[name] for name in _VERDICT}
    told = {"state": "completed", "outcome": "complete", "repeats": twin_key, "popped_at": s.now, "reported_at": None}
    await write_frame(s, frame, {**frame, **verdict, **told})
    row = {name: verdict[name] for name in ("output", "output_seal")}
    return [row | {name: None if verdict[name] is None else dumps(verdict[name]) for name in ("flags", "correlation")}]


@statement("steps", "succeed")
async def succeed(
    s: Session, engine_id: str, job_key: int, owner: UUID, epoch: int, twin_key: int, twin_epoch: int
) -> list[Values]:
    twin = await s.lock("job_frame", (engine_id, twin_key))
    now = s.now
    if twin is None or twin["epoch"] != twin_epoch or twin["state"] == "completed":
        return []
    if twin["state"] == "started" and twin["lease_until"] >= now:
        return []
    closed = {
        **twin,
        "state": "failed",
        "epoch": twin_epoch + 1,
        "retries_left": max(twin["retries_left"], 1),
        "next_retry_at": now,
        "fail_class": "TransientInfrastructure",
        "fail_code": "StepSucceeded",
        "fail_text": f"the step goes on under job {job_key}",
        "popped_at": now,
        "acked_at": twin["acked_at"] or now,
        "ack_result": "gone",
    }
    await write_frame(s, twin, closed)
    frame = await s.lock("job_frame", (engine_id, job_key))
    if frame is None or (frame["owner"], frame["epoch"], frame["state"]) != (owner, epoch, "started"):
        return []
    key = {"idempotency_key": twin["idempotency_key"], "keyed_at": twin["keyed_at"]}
    s.put("job_frame", (engine_id, job_key), {**frame, **key})
    return [{"idempotency_key": twin["idempotency_key"]}]


@statement("steps", "is_cleared")
async def is_cleared(s: Session, engine_id: str, job_key: int) -> list[Values]:
    frame = s.get("job_frame", (engine_id, job_key))
    return [] if frame is None else [{"is_cleared": frame["fail_code"] == "StepAmbiguous"}]


# ---- a key that was given out again ------------------------------------------------------------------------------


@statement("frames", "archive_months")
async def archive_months(s: Session, older: timedelta) -> list[Values]:
    return []


@statement("frames", "displace")
async def displace(s: Session, engine_id: str, job_key: int, epoch: int) -> list[Values]:
    frame = await s.lock("job_frame", (engine_id, job_key))
    if frame is None or frame["epoch"] != epoch or frame["acked_at"] is None:
        return []
    s.put("job_frame", (engine_id, job_key), None)
    place = (engine_id, job_key, frame["acked_at"])
    if await s.lock("job_frame_archive", place) is not None:
        return []
    s.put("job_frame_archive", place, frame)
    return [{"job_key": job_key}]


@statement("frames", "reopen")
async def reopen(s: Session, engine_id: str, owner: UUID, epoch: int, *columns: Any) -> list[Values]:
    item = dict(zip(PUSHED, columns, strict=True))
    key = (engine_id, item["job_key"])
    if await s.lock("job_frame", key) is not None:
        raise refuse("duplicate key value violates unique constraint")
    frame = new_frame(s, engine_id, item, owner, timedelta(0))
    changed = {
        "epoch": epoch + 1,
        "activated_ms": item["activated_ms"] - 1,
        "retries_left": max(item["retries_left"], 1),
        "state": "failed",
        "next_retry_at": s.now,
        "runs": 0,
        "deliveries": 0,
    }
    s.put("job_frame", key, {**frame, **changed})
    return []
