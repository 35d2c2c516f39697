"""An exported entry is checked without a database: the chain that it carries, link by link."""

import json
from hashlib import sha256
from typing import Any

import pytest

from verbworker.runbook.export import FORMAT, check_entry

ENTRY = "8b1f6a52-0d0e-4c55-9a6e-3f2a7c1d9e40"


def exported(count: int = 3) -> dict[str, Any]:
    """An entry as the database exports it, with a whole chain of events."""
    events: list[dict[str, Any]] = []
    last = b""
    for seq in range(1, count + 1):
        event = {"seq": seq, "at_us": seq * 10, "kind": "Parked", "status": "parked", "once": f"o{seq}", "detail": "{}"}
        fields = (ENTRY, seq, seq * 10, "Parked", "parked", f"o{seq}", "{}")
        last = sha256(last + "\n".join(map(str, fields)).encode()).digest()
        events.append(event | {"hash": last.hex()})
    entry = {"entry_id": ENTRY, "last_seq": count, "last_hash": f"\\x{last.hex()}"}
    return {"format": FORMAT, "entry": entry, "events": events}


def test_a_whole_chain_is_not_broken() -> None:
    checked = check_entry(json.dumps(exported()))

    assert (checked.entry_id, checked.events, checked.broken_at) == (ENTRY, 3, None)


def test_a_changed_event_breaks_the_chain_where_it_is() -> None:
    given = exported()
    given["events"][1]["detail"] = '{"by": "eve"}'

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
        ('{"format": "other/1"}', "the format is 'other/1', not 'verbworker.runbook/1'"),
    ],
)
def test_another_line_is_no_entry(line: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_entry(line)
