"""Exported entries: one line of JSON each, with their event chain, and the check of such a line."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from verbworker.runbook.event import Kind

FORMAT = "verbworker.runbook/1"


@dataclass(frozen=True, slots=True)
class CheckedEntry:
    """The result of checking one exported entry: the position where its chain breaks, or None."""

    entry_id: str
    events: int
    broken_at: int | None


def check_entry(line: str) -> CheckedEntry:
    """Verify the chain of an exported entry, as `verbworker.event_hash` does. Raise ValueError for other lines."""
    try:
        exported = json.loads(line)
        if exported["format"] != FORMAT:
            raise ValueError(f"the format is {exported['format']!r}, not {FORMAT!r}")
        entry, events = exported["entry"], exported["events"]
        return CheckedEntry(entry["entry_id"], len(events), _broken_at(entry, events))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is not an exported entry: {error!r}") from error


def _broken_at(entry: Mapping[str, Any], events: list[Mapping[str, Any]]) -> int | None:
    previous, erased = b"", _read_erasures(events)
    for place, event in enumerate(events, start=1):
        due = _hash(previous, entry["entry_id"], event)
        is_right = event["hash"] == due.hex() or erased.get(place) == [event["hash"], due.hex()]
        if event["seq"] != place or not is_right:
            return place
        previous = bytes.fromhex(event["hash"])
    # The entry records where its chain ends, so an event missing at the end is detected too.
    is_whole = entry["last_seq"] == len(events) and entry["last_hash"] == f"\\x{previous.hex()}"
    return None if is_whole else len(events) + 1


def _read_erasures(events: list[Mapping[str, Any]]) -> dict[int, list[str]]:
    """Return the events that were erased: the hash that each keeps, and the hash of what is left of it."""
    named: dict[int, list[str]] = {}
    for event in events:
        if event["kind"] == Kind.ERASED:
            named |= {int(seq): hashes for seq, hashes in json.loads(event["detail"])["events"].items()}
    return named


def _hash(previous: bytes, entry_id: str, event: Mapping[str, Any]) -> bytes:
    hashed = (entry_id, event["seq"], event["at_us"], event["kind"], event["status"], event["once"], event["detail"])
    return sha256(previous + "\n".join(map(str, hashed)).encode()).digest()
