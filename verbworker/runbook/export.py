"""Exported entries: one line of JSON each, with their event chain, and the check of such a line."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from verbworker.runbook.entry_digests import changed_fields, first_hash
from verbworker.runbook.event import Kind
from verbworker.runbook.record_seal import SealLine

FORMAT = "verbworker.runbook/2"
_FORMATS = (FORMAT, "verbworker.runbook/1")  # the older one has no digests


@dataclass(frozen=True, slots=True)
class CheckedEntry:
    """The result of checking one exported entry: where its chain breaks, or None; and each changed field, by event."""

    entry_id: str
    events: int
    broken_at: int | None
    changed: tuple[tuple[str, int], ...] = ()
    is_covered: bool = False

    @property
    def is_whole(self) -> bool:
        """Return whether it is as it was written."""
        return self.broken_at is None and not self.changed


def check_entry(line: str) -> CheckedEntry:
    """Verify an exported entry as the database does: its chain and its digests. Raise ValueError for other lines."""
    try:
        exported = json.loads(line)
        if exported["format"] not in _FORMATS:
            raise ValueError(f"the format is {exported['format']!r}, not {FORMAT!r}")
        entry, events = exported["entry"], exported["events"]
        is_covered = entry.get("asked") is not None
        has_digests = exported["format"] == FORMAT or is_covered
        changed = tuple(changed_fields(exported)) if has_digests else ()
        return CheckedEntry(entry["entry_id"], len(events), _broken_at(entry, events), changed, is_covered)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is not an exported entry: {error!r}") from error


def fits_seals(line: str, sealed: Iterable[SealLine]) -> bool:
    """Return whether the events of an exported entry are those that were sealed, and each erasure is one of them."""
    exported, lines = json.loads(line), list(sealed)
    entry = exported["entry"]
    erased = {one.seq for one in lines if one.erased}
    if any(event["kind"] == Kind.ERASED and event["seq"] not in erased for event in exported["events"]):
        return False
    hashes = {event["seq"]: bytes.fromhex(event["hash"]) for event in exported["events"]}
    hashes[0] = first_hash(entry["entry_id"], entry.get("asked"))
    return all(hashes.get(one.seq) == one.hash for one in lines)


def _broken_at(entry: Mapping[str, Any], events: list[Mapping[str, Any]]) -> int | None:
    previous, erased = first_hash(entry["entry_id"], entry.get("asked")), _read_erasures(events)
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
    hashed: tuple[Any, ...] = (
        entry_id,
        event["seq"],
        event["at_us"],
        event["kind"],
        event["status"],
        event["once"],
        event["detail"],
    )
    salt, digests, once = event.get("salt"), event.get("digests"), event["once"]
    if salt is not None or digests is not None:
        named = (len(once), once, digests or "-", event["detail"])
        hashed = ("event/2", salt or "-", *hashed[:5], *named)
    return sha256(previous + "\n".join(map(str, hashed)).encode()).digest()
