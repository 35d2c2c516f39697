"""Gates with rules and the people at them, on every surface."""

import json
from hashlib import sha256
from typing import Any
from uuid import UUID

from tests.support.entries import StoredEntry
from verbworker.contract.person import Person
from verbworker.runbook.event import Kind, Wait
from verbworker.stores.database import Database

KEYS: dict[str, tuple[str, list[str] | None]] = {
    "rita": ("a-key-of-rita-the-reviewer", ["reviewer"]),
    "carl": ("a-key-of-carl-the-clerk", ["clerk"]),
    "rosa": ("a-key-of-rosa-who-reads", ["reader"]),
    "nina": ("a-key-of-nina-without-any-role", []),
    "sven": ("a-key-of-sven-the-supervisor", ["supervisor", "clerk"]),
    "olga": ("a-key-of-olga-from-before-roles", None),
}
"""Who has which key, and which roles."""


def person(name: str) -> Person:
    """Return one of them as a program knows them."""
    roles = KEYS[name][1]
    return Person(name, None if roles is None else frozenset(roles))


def credentials(**more: Any) -> str:
    """The same people as a server's credentials."""
    rows = []
    for name, (key, roles) in KEYS.items():
        row: dict[str, Any] = {"name": name, "tenant": "default", "sha256": sha256(key.encode()).hexdigest(), **more}
        rows.append(row if roles is None else {**row, "roles": roles})
    return json.dumps({"api_keys": rows})


async def park(
    database: Database, *, element: int = 1, gate: str = "review", beside: StoredEntry | None = None, **changes: Any
) -> tuple[StoredEntry, UUID]:
    """Return an entry that waits at a gate, and the gate's id; `beside` has the entry wait there too."""
    asked = {name: changes.pop(name) for name in ("asked_by", "asked_by_id") if name in changes}
    stored = beside or await StoredEntry.open(database, **asked)
    if beside is None:
        await stored.start(element)
    detail = {"decisions": ["approve", "reject"], **changes}
    named = {"gate": gate, "reason": f"Awaiting {gate}", "job_key": element, "instance_key": element}
    await stored.park(stored.token(element, Wait.HUMAN_GATE, **named, detail=detail))
    await stored.runbook.append(
        stored.entry_id, Kind.PARKED, once=f"parked:{element}", detail={"wait": "human_gate", "reason": "waits"}
    )
    found = await stored.value("SELECT token_id FROM verbworker.parked_token WHERE element_instance_key = $1", element)
    return stored, found


async def decisions(database: Database) -> int:
    """How many decisions there are."""
    row = await database.fetchrow("SELECT count(*) FROM verbworker.gate_decision")
    assert row is not None
    return int(row[0])
