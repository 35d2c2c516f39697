"""Cases at chosen elements of a deployed model, for pictures: rows as workers leave them, without an engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.support.apart import run_apart
from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE
from verbworker.runbook.event import Wait
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database

_DEPLOYMENT = """
INSERT INTO verbworker.process_deployment (
  engine_id, definition_key, process_id, version, verb, resource, authored_sha256, woven_sha256, woven, deployed_by
)
VALUES ($1, $2, $3, $4, $5, 'r', sha256($6), sha256($6), $6, 'ann')
"""
_FRAME = """
INSERT INTO verbworker.job_frame (
  engine_id, job_key, process_instance_key, element_instance_key, verb, tenant_id, instance_uid, process_id,
  process_version, element_id, mode, on_unknown, max_runs, idempotency_window, idempotency_key, owner, lease_until,
  activated_ms, retries_left, input_hash, state, outcome, output, output_hash, runs, pushed_at, popped_at
)
VALUES ($1, $2, $3, $2, 'a.b', '<default>', $4, 'kyc', 3, $5, 'transactional', 'rerun', 3, interval '1 day', 'k', $4,
  now(), 0, 3, 'i', $6::text::verbworker.frame_state, $7::text::verbworker.frame_outcome, '{}', sha256('{}'), $8,
  now() - $9::interval, CASE WHEN $6 = 'completed' THEN now() - $10::interval END)
"""
_WAIT = """
UPDATE verbworker.parked_token
SET opened_at = now() - $2::interval, closed_at = CASE WHEN closed_at IS NOT NULL THEN now() - $3::interval END
WHERE entry_id = $1 AND element_id = $4
"""
Flags = Mapping[str, object] | None
DEFINITION = 70
"""The definition key of the cases that `StoredEntry` starts."""


@dataclass(frozen=True, slots=True)
class Step:
    """A job of a case: it began so many seconds ago, and ended so many seconds ago unless it runs."""

    element: str
    began: float
    ended: float | None = None
    outcome: str = "complete"
    runs: int = 1


@dataclass(frozen=True, slots=True)
class Waiting:
    """A wait of a case, likewise."""

    element: str
    kind: Wait
    began: float
    ended: float | None = None
    closed_as: str = "resumed"
    reason: str = "Awaiting documents"
    gate: str | None = None


async def deploy(
    database: Database, content: bytes, process_id: str, *, key: int = DEFINITION, version: int = 3
) -> None:
    """Record a deployed model."""
    await database.execute(_DEPLOYMENT, ENGINE, key, process_id, version, "kyc.open-case", content)


async def add_case(
    database: Database, number: int, facts: Sequence[Step | Waiting], *, flags: Flags = None, **request: Any
) -> UUID:
    """Add a case, by a number of its own, with what happened in it; one that came to its end has flags."""
    entry = await StoredEntry.open(database, **request)
    await entry.start(number * 1000)
    for place, fact in enumerate(facts, start=1):
        key = number * 1000 + place
        began = timedelta(seconds=fact.began)
        ended = None if fact.ended is None else timedelta(seconds=fact.ended)
        if isinstance(fact, Step):
            done = ("completed", fact.outcome) if ended is not None else ("started", None)
            frame = (ENGINE, key, number * 1000, entry.instance_uid, fact.element, *done, fact.runs, began, ended)
            await database.execute(_FRAME, *frame)
            continue
        more = {"element_id": fact.element, "reason": fact.reason, "gate": fact.gate, "job_key": key}
        tenant = str(request.get("tenant_id", "default"))
        await entry.park(entry.token(key, fact.kind, **more, tenant_id=tenant, instance_key=number * 1000))
        if ended is not None:
            await entry.unpark(key, fact.closed_as)
        await database.execute(_WAIT, entry.entry_id, began, ended, fact.element)
    if flags is not None:
        detail = {"result": "ok", "flags": dict(flags)}
        async with database.transaction() as connection:
            await Runbook(database).end_in(connection, entry.entry_id, outcome=b"{}", detail=detail)
    return entry.entry_id


def stored(
    dsn: str,
    content: bytes | None,
    cases: Sequence[tuple[Sequence[Step | Waiting], Flags]],
    process_id: str,
    **request: Any,
) -> list[UUID]:
    """Deploy a model, unless there is none, and add cases: what happened in each, and the flags of those that ended."""

    async def run() -> list[UUID]:
        async with Database(dsn, size=2) as database:
            if content is not None:
                await deploy(database, content, process_id)
            return [
                await add_case(database, number, facts, flags=flags, process_id=process_id, **request)
                for number, (facts, flags) in enumerate(cases, start=int(request.pop("first", 1)))
            ]

    return run_apart(run())
