"""An exported entry is checked without a database: the chain that it carries, link by link."""

import json
from hashlib import sha256
from typing import Any

import pytest

from verbworker.runbook.export import FORMAT, check_entry

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
