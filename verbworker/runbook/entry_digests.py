"""The digests of an entry and its decisions, as the functions `digest_*` of the database make them."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from verbworker.runbook.event import Kind

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_STAYS = ("verb", "asked_by")
_ENDED = ("completed", "failed", "cancelled")


def first_hash(entry_id: str, asked: Mapping[str, str] | None) -> bytes:
    """Return the hash that the first event of an entry is chained to."""
    if asked is None:
        return b""
    # As Postgres prints jsonb: keys by length, then by their bytes.
    text = json.dumps({key: asked[key] for key in sorted(asked, key=lambda key: (len(key), key))})
    return sha256(f"asked/1\n{entry_id}\n{text}".encode()).digest()


def changed_fields(exported: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the fields of an exported entry that are not what was digested, each with its event, and 0 for none."""
    entry, events = exported["entry"], exported["events"]
    is_erased = any(event["kind"] == Kind.ERASED for event in events)
    found = [(place, 0) for place in _changed_request(entry, exported.get("provenance", "{}"), is_erased=is_erased)]
    last, end = events[-1] if events else None, next((one for one in events if one["status"] in _ENDED), None)
    if entry["status"] != (last["status"] if last else "executing"):
        found.append(("status", last["seq"] if last else 0))
    if end is not None:
        if _micros(entry["ended_at"]) != str(end["at_us"]):
            found.append(("ended_at", end["seq"]))
        if _changed_outcome(entry, end):
            found.append(("outcome", end["seq"]))
    return found + [(f"decision.{place}", seq) for place, seq in _changed_decisions(exported)]


def _changed_request(entry: Mapping[str, Any], provenance: str, *, is_erased: bool) -> list[str]:
    asked: Mapping[str, str] | None = entry.get("asked")
    if asked is None:
        return []
    salt, names = entry["salt"], ("tenant_id", "verb", "verb_version", "mode", "process_id")
    made = {
        "verb": _digest_texts(None, *(entry[name] for name in names), _micros(entry["created_at"])),
        "asked_by": _digest_texts(None, entry["asked_by"], entry["asked_by_id"]),
        "sentence": _digest_texts(salt, entry["sentence"]),
        "invocation": _digest_texts(salt, entry["invocation"]),
        "args": _digest_bytes(salt, entry["args"]),
        "origin": _digest_texts(salt, provenance, entry["traceparent"]),
        "request_key": _digest_texts(salt, entry["request_key"], _bytes(entry["request_hash"]).hex()),
    }
    blank = {
        "sentence": entry["sentence"] == f"{entry['verb']} (erased)",
        "invocation": entry["invocation"] == f"({entry['verb']})",
        "args": _bytes(entry["args"]) == b"{}",
        "origin": (provenance, entry["traceparent"]) == ("{}", None),
        "request_key": (entry["request_key"] or "erased:").startswith("erased:") and not _bytes(entry["request_hash"]),
    }
    return [
        part
        for part, digest in made.items()
        if not (is_erased and blank[part] if salt is None and part not in _STAYS else asked.get(part) == digest)
    ]


def _changed_outcome(entry: Mapping[str, Any], end: Mapping[str, Any]) -> bool:
    if end.get("digests") is None:
        return False
    if end["salt"] is None:
        return entry["outcome"] is not None and _bytes(entry["outcome"]) != b"{}"
    return bool(_digest_bytes(end["salt"], entry["outcome"]) != json.loads(end["digests"])["outcome"])


def _changed_decisions(exported: Mapping[str, Any]) -> list[tuple[str, int]]:
    told = {}
    for event in exported["events"]:
        detail = json.loads(event["detail"]) if event["kind"] == Kind.GATE_DECIDED else {}
        if "token_id" in detail:
            told[detail["token_id"]] = (event, detail)
    rows = {row["token_id"]: row for row in exported.get("decisions", ())}
    found = [("missing", event["seq"]) for token, (event, _) in told.items() if token not in rows]
    for token, (event, detail) in told.items():
        if token in rows and (place := _changed_decision(rows[token], event, detail)):
            found.append((place, event["seq"]))
    return found


def _changed_decision(row: Mapping[str, Any], event: Mapping[str, Any], detail: Mapping[str, Any]) -> str | None:
    if row["decision"] != detail.get("decision"):
        return "decision"
    if (row["decided_by"], row["decided_by_id"]) != (detail.get("by"), detail.get("by_id")):
        return "decided_by"
    if row["reason"] != detail.get("reason", ""):
        return "reason"
    if row.get("inputs", {}) != detail.get("inputs", {}):
        return "inputs"
    names = ("token_id", "instance_uid", "gate", "decision", "decided_by", "decided_by_id")
    made = _digest_texts(None, *(row[name] for name in names), _micros(row["decided_at"]))
    is_same = event.get("digests") is None or json.loads(event["digests"])["decision"] == made
    return None if is_same else "gate or decided_at"


def _digest_texts(salt: str | None, *texts: str | None) -> str:
    return sha256(_salt(salt) + json.dumps(texts, ensure_ascii=False).encode()).hexdigest()


def _digest_bytes(salt: str | None, content: str | None) -> str | None:
    return None if content is None else sha256(_salt(salt) + _bytes(content)).hexdigest()


def _salt(salt: str | None) -> bytes:
    return b"" if salt is None else UUID(salt).bytes


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("\\x"))


def _micros(moment: str | None) -> str | None:
    return None if moment is None else str((datetime.fromisoformat(moment) - _EPOCH) // timedelta(microseconds=1))
