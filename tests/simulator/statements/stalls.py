"""What stands still: the view `standstill`, and what was named of it. No process here has timers."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from tests.simulator.shapes import DEFINITION_KEYS, SHAPES
from tests.simulator.statements.triggers import instances_of, open_tokens
from tests.simulator.store import Session, Values, statement

_GATED = {DEFINITION_KEYS[name] for name, shape in SHAPES.items() if shape.has_gate}


def _standstills(s: Session) -> Iterator[Values]:
    for entry in s.rows("runbook_entry"):
        if entry["ended_at"] is None and entry["cancel_requested_at"] is None:
            instance = next(iter(instances_of(s, entry["entry_id"])), None)
            if instance is not None:
                if entry["status"] == "executing" and not _is_under_way(s, entry, instance):
                    yield _job(s, entry, instance)
                yield from _backoffs(s, entry, instance)
                yield from _messages(s, entry, instance)


def _is_under_way(s: Session, entry: Values, instance: Values) -> bool:
    uid = instance["instance_uid"]
    dispatch = s.get("dispatch", (uid,))
    return (
        bool(open_tokens(s, entry["entry_id"]))
        or (dispatch is not None and dispatch["done_at"] is None)
        or any(
            frame["acked_at"] is None and frame["process_instance_key"] == instance["instance_key"]
            for frame in _of(s, "job_frame", uid)
        )
        or bool(_of(s, "job_delivery", uid))
        or any(row["acked_at"] is None for row in _of(s, "gate_decision", uid))
    )


def _of(s: Session, table: str, uid: UUID) -> list[Values]:
    return [row for row in s.rows(table) if row["instance_uid"] == uid]


def _job(s: Session, entry: Values, instance: Values) -> Values:
    noted = s.get("stall", (entry["entry_id"], "job", ""))
    is_ours = noted is not None and noted["seq"] == entry["last_seq"]
    heard: list[datetime] = [noted["since"] if noted is not None and is_ours else entry["updated_at"]]
    for table in ("job_frame", "gate_decision"):
        heard += [row["acked_at"] for row in _of(s, table, instance["instance_uid"]) if row["acked_at"] is not None]
    messages = _of(s, "inbox_message", instance["instance_uid"])
    heard += [row["published_at"] for row in messages if row["state"] == "published"]
    return _row(entry, instance, "job", "", None, entry["updated_at"], max(heard))


def _backoffs(s: Session, entry: Values, instance: Values) -> Iterator[Values]:
    for frame in _of(s, "job_frame", instance["instance_uid"]):
        is_ours = (frame["process_instance_key"], frame["engine_id"]) == (
            instance["instance_key"],
            instance["engine_id"],
        )
        if is_ours and frame["state"] == "failed" and frame["reported_at"] is not None and frame["acked_at"] is None:
            since = max(frame["next_retry_at"], frame["reported_at"])
            yield _row(entry, instance, "backoff", str(frame["job_key"]), frame["verb"], frame["reported_at"], since)


def _messages(s: Session, entry: Values, instance: Values) -> Iterator[Values]:
    uid = instance["instance_uid"]
    if _of(s, "job_delivery", uid):
        return
    for token in open_tokens(s, entry["entry_id"]):
        sent = [
            row
            for row in _of(s, "inbox_message", uid)
            if row["state"] == "published"
            and (row["engine_id"], row["message_name"], row["correlation_key"])
            == (token["engine_id"], token["message_name"], token["correlation_key"])
        ]
        if sent and max(row["expires_at"] for row in sent) > token["opened_at"]:
            since = max(token["opened_at"], min(row["published_at"] for row in sent))
            place, name = str(token["element_instance_key"]), token["message_name"]
            still = _row(entry, instance, "message", place, name, since, since)
            yield {**still, "engine_id": token["engine_id"], "instance_key": token["instance_key"]}


def _row(
    entry: Values, instance: Values, kind: str, place: str, what: str | None, heard_at: datetime, since: datetime
) -> Values:
    return {
        "entry_id": entry["entry_id"],
        "kind": kind,
        "place": place,
        "engine_id": instance["engine_id"],
        "instance_key": instance["instance_key"],
        "what": what,
        "since": since,
        "heard_at": heard_at,
        "definition_key": instance["definition_key"],
        "tenant_id": entry["tenant_id"],
    }


@statement("stalls", "find")
async def find(s: Session, engine_id: str, after: timedelta, gates_after: timedelta, limit: int) -> list[Values]:
    now = s.now
    found = [
        still
        for still in _standstills(s)
        if still["engine_id"] == engine_id
        and still["heard_at"] < now - after
        and still["since"] < now - after
        and (still["kind"] != "job" or still["since"] < now - gates_after or still["definition_key"] not in _GATED)
        and s.get("stall", (still["entry_id"], still["kind"], still["place"])) is None
    ]
    found.sort(key=lambda still: still["since"])
    names = ("entry_id", "kind", "place", "engine_id", "instance_key", "what", "since")
    return [{name: still[name] for name in names} for still in found[:limit]]


@statement("stalls", "note")
async def note(
    s: Session, entry_id: UUID, kind: str, place: str, since: datetime, reason: str, remedy: str
) -> list[Values]:
    if s.is_locked("runbook_entry", (entry_id,)):
        return []
    entry = await s.lock("runbook_entry", (entry_id,))
    for still in _standstills(s):
        if entry is None or (still["entry_id"], still["kind"], still["place"]) != (entry_id, kind, place):
            continue
        if still["since"] != since or await s.lock("stall", (entry_id, kind, place)) is not None:
            continue
        names = ("entry_id", "kind", "place", "tenant_id", "engine_id", "since")
        row = {**{name: still[name] for name in names}, "seq": entry["last_seq"] + 1, "reason": reason}
        s.put("stall", (entry_id, kind, place), {**row, "remedy": remedy, "noted_at": s.now})
        return [{"seq": row["seq"]}]
    return []


@statement("stalls", "resend")
async def resend(s: Session, entry_id: UUID) -> list[Values]:
    for instance in instances_of(s, entry_id):
        for row in _of(s, "inbox_message", instance["instance_uid"]):
            if row["state"] == "consumed" and row["expires_at"] > s.now + timedelta(minutes=1):
                await s.change("inbox_message", (row["tenant_id"], row["message_id"]), resend_at=s.now)
    return []


@statement("stalls", "clear")
async def clear(s: Session, engine_id: str) -> list[Values]:
    standing = {(still["entry_id"], still["kind"], still["place"], still["since"]) for still in _standstills(s)}
    for row in list(s.rows("stall")):
        place = (row["entry_id"], row["kind"], row["place"])
        if row["engine_id"] == engine_id and (*place, row["since"]) not in standing:
            await s.lock("stall", place)
            s.put("stall", place, None)
    return []


@statement("stalls", "counts")
async def counts(s: Session, engine_id: str) -> list[Values]:
    kinds = [row["kind"] for row in s.rows("stall") if row["engine_id"] == engine_id]
    return [{"kind": kind, "number": kinds.count(kind)} for kind in sorted(set(kinds))]


@statement("stalls", "last_step")
async def last_step(s: Session, entry_id: UUID) -> list[Values]:
    kinds = ("StepCompleted", "Compensated")
    steps = [row for row in s.rows("runbook_event") if row["entry_id"] == entry_id and row["kind"] in kinds]
    if not steps:
        return []
    last = max(steps, key=lambda row: row["seq"])
    return [{"verb": last["detail"].get("verb"), "error_code": last["detail"].get("error_code"), "at": last["at"]}]
