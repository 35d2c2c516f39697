"""An exported entry is checked without a database: the chain that it carries, link by link."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from verbworker.runbook.export import FORMAT, check_entry, fits_seals
from verbworker.runbook.record_seal import SealLine

ENTRY = "8b1f6a52-0d0e-4c55-9a6e-3f2a7c1d9e40"


def link(previous: bytes, seq: int, kind: str, detail: str) -> tuple[dict[str, Any], bytes]:
    """An event of a chain, and its hash."""
    event = {"seq": seq, "at_us": seq * 10, "kind": kind, "status": "parked", "once": f"o{seq}", "detail": detail}
    fields = (ENTRY, seq, seq * 10, kind, "parked", f"o{seq}", detail)
    made = sha256(previous + "\n".join(map(str, fields)).encode()).digest()
    return event | {"hash": made.hex()}, made


def exported(count: int = 3) -> dict[str, Any]:
    """An entry as the database exports it, with a whole chain of events."""
    events: list[dict[str, Any]] = []
    last = b""
    for seq in range(1, count + 1):
        event, last = link(last, seq, "Parked", "{}")
        events.append(event)
    return {"format": FORMAT, "entry": entry_at(count, last), "events": events}


def entry_at(count: int, last: bytes) -> dict[str, Any]:
    """An entry whose chain ends there."""
    return {"entry_id": ENTRY, "status": "parked", "last_seq": count, "last_hash": f"\\x{last.hex()}"}


def erased(left: str) -> dict[str, Any]:
    """An entry whose first event keeps its hash, has lost its detail, and whose last one names the hash of the rest."""
    first, before = link(b"", 1, "Parked", '{"by": "eve"}')
    second, middle = link(before, 2, "Parked", "{}")
    rest, hash_of_rest = link(b"", 1, "Parked", left)
    detail = json.dumps({"by": "dpo", "events": {"1": [before.hex(), hash_of_rest.hex()]}})
    third, last = link(middle, 3, "Erased", detail)
    return {"format": FORMAT, "entry": entry_at(3, last), "events": [rest | {"hash": first["hash"]}, second, third]}


def test_a_whole_chain_is_not_broken() -> None:
    checked = check_entry(json.dumps(exported()))

    assert (checked.entry_id, checked.events, checked.broken_at) == (ENTRY, 3, None)


def test_a_changed_event_breaks_the_chain_where_it_is() -> None:
    given = exported()
    given["events"][1]["detail"] = '{"by": "eve"}'

    assert check_entry(json.dumps(given)).broken_at == 2


def test_an_event_that_was_erased_does_not_break_the_chain() -> None:
    assert check_entry(json.dumps(erased("{}"))).broken_at is None


def test_what_is_left_of_an_erased_event_cannot_be_changed() -> None:
    given = erased("{}")
    given["events"][0]["detail"] = '{"by": "mallory"}'

    assert check_entry(json.dumps(given)).broken_at == 1


def test_an_erasure_excuses_only_the_events_that_it_names() -> None:
    given = erased("{}")
    given["events"][1]["detail"] = '{"by": "mallory"}'

    assert check_entry(json.dumps(given)).broken_at == 2


def test_an_event_that_is_missing_at_the_end_is_found() -> None:
    given = exported()
    given["events"].pop()

    assert check_entry(json.dumps(given)).broken_at == 3


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[]", "it is not an exported entry"),
        ("{}", "it is not an exported entry: KeyError"),
        ('{"format": "other/1"}', "the format is 'other/1', not 'verbworker.runbook/2'"),
    ],
)
def test_another_line_is_no_entry(line: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_entry(line)


# ---- digests: entries that Postgres exported, one that a person decided, and the same after its erasure -------------


def stored(name: str) -> Any:
    """An exported entry as Postgres wrote it."""
    return json.loads((Path(__file__).parent / "exported" / f"{name}.json").read_text())


def changes(exported: Any) -> list[tuple[str, int]]:
    """What a check says was changed."""
    return list(check_entry(json.dumps(exported)).changed)


@pytest.mark.parametrize("name", ["decided", "erased"])
def test_an_entry_that_postgres_exported_is_whole(name: str) -> None:
    checked = check_entry(json.dumps(stored(name)))

    assert (checked.is_whole, checked.is_covered, checked.broken_at, checked.changed) == (True, True, None, ())


ENTRY_CHANGES = {
    "verb": ("verb", "verb"),
    "created_at": ("2026-01-01T00:00:00+00:00", "verb"),
    "asked_by": ("mallory", "asked_by"),
    "sentence": ("x", "sentence"),
    "invocation": ("x", "invocation"),
    "args": ("\\x00", "args"),
    "traceparent": ("x", "origin"),
    "request_key": ("x", "request_key"),
    "request_hash": ("\\x00", "request_key"),
    "status": ("failed", "status"),
    "ended_at": (None, "ended_at"),
    "outcome": ("\\x00", "outcome"),
}


@pytest.mark.parametrize("field", ENTRY_CHANGES)
@pytest.mark.parametrize("name", ["decided", "erased"])
def test_a_changed_field_is_found(name: str, field: str) -> None:
    exported, (value, place) = stored(name), ENTRY_CHANGES[field]
    exported["entry"][field] = value

    assert place in [found for found, _ in changes(exported)]


@pytest.mark.parametrize(
    ("field", "place"),
    [("decision", "decision"), ("decided_by", "decided_by"), ("reason", "reason"), ("gate", "gate or decided_at")],
)
@pytest.mark.parametrize("name", ["decided", "erased"])
def test_a_changed_decision_is_found_with_its_event(name: str, field: str, place: str) -> None:
    exported = stored(name)
    exported["decisions"][0][field] = "x"

    assert changes(exported) == [(f"decision.{place}", 2)]


def test_a_decision_that_is_gone_is_found() -> None:
    exported = stored("decided")
    exported["decisions"] = []

    assert changes(exported) == [("decision.missing", 2)]


def test_an_entry_that_is_only_said_to_be_erased_is_found() -> None:
    exported = stored("erased")
    exported["events"].pop()

    assert ("sentence", 0) in changes(exported)


def test_a_forged_digest_breaks_the_chain_where_it_begins() -> None:
    exported = stored("decided")
    exported["entry"]["asked"]["sentence"] = "00"

    assert check_entry(json.dumps(exported)).broken_at == 1


def test_an_entry_from_before_digests_is_not_covered_and_its_events_are_checked() -> None:
    exported = stored("decided")
    exported["entry"]["asked"] = None
    for event in exported["events"]:
        event["digests"] = None

    assert changes(exported) == []
    assert not check_entry(json.dumps(exported)).is_covered


def test_an_entry_without_an_event_has_the_status_it_began_with() -> None:
    exported = stored("decided")
    exported["events"], exported["decisions"] = [], []

    assert changes(exported) == [("status", 0)]


def test_an_outcome_that_was_added_to_an_erased_entry_without_one_is_none() -> None:
    exported = stored("erased")
    exported["entry"]["outcome"] = None

    assert changes(exported) == []


def test_the_events_of_an_entry_are_those_that_were_sealed() -> None:
    exported = stored("decided")
    line, hashes = json.dumps(exported), [bytes.fromhex(event["hash"]) for event in exported["events"]]
    entry_id = UUID(exported["entry"]["entry_id"])

    assert fits_seals(line, [SealLine(entry_id, 1, hashes[0]), SealLine(entry_id, 4, hashes[3])])
    assert not fits_seals(line, [SealLine(entry_id, 1, hashes[1])])
    assert not fits_seals(line, [SealLine(entry_id, 9, hashes[1])])
