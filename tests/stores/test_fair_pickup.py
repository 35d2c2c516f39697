"""Fair pick-up: what one tenant has due, however much, does not keep another tenant's from its turn."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.support.databases import plain
from tests.support.frames import ENGINE
from tests.support.mail import DOCS
from verbworker.app.wiring import _KEYED as KEYED
from verbworker.stores import sql
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.database import Database
from verbworker.stores.embedded.tokens import ActivationRequest, Tokens
from verbworker.stores.messages.inbox import Inbox

FLOOD = 20_000
BATCH = 16
MINUTE = timedelta(minutes=1)
ENGINE_SETTINGS = {**KEYED, "enable_hashjoin": "off", "enable_mergejoin": "off"}

STARTS = """
WITH entry AS (
  INSERT INTO verbworker.runbook_entry (
    entry_id, tenant_id, request_hash, verb, verb_version, mode, sentence, invocation, args, asked_by
  )
  VALUES (gen_random_uuid(), $1, '-', 'a.b', '1', 'durable', 'Do it', '(a.b)', '{}', 'tests')
  RETURNING entry_id
)
INSERT INTO verbworker.dispatch (instance_uid, entry_id, engine_id, tenant_id, process_id, variables, next_at)
SELECT gen_random_uuid(), entry.entry_id, $2, $1, 'p', '{}',
  clock_timestamp() - $4::interval + number * interval '1 microsecond'
FROM entry, generate_series(1, $3::integer) AS number
"""
MESSAGES = """
INSERT INTO verbworker.inbox_message (
  tenant_id, message_id, message_name, correlation_key, body_hash, sent_by, engine_id, ttl, expires_at, next_at
)
SELECT $1, 'm-' || number, 'documents-received', 'case-' || number, '-', 'tests', $2, interval '1 hour',
  clock_timestamp() + interval '1 hour', clock_timestamp() - $4::interval + number * interval '1 microsecond'
FROM generate_series(1, $3::integer) AS number
"""
JOBS = """
WITH instance AS (
  INSERT INTO verbworker_engine.instance (
    instance_key, definition_key, process_id, tenant_id, variables, state, created_at
  )
  VALUES (nextval('verbworker_engine.instance_number') << 20, 1, 'p', '<default>', '{}', '{}', clock_timestamp())
  RETURNING instance_key
)
INSERT INTO verbworker_engine.job (
  job_key, instance_key, tenant_id, case_tenant, type, element_id, element_instance_key, retries, headers, due_at
)
SELECT instance_key + number, instance_key, '<default>', $1, $2, 'a', 1, 3, '{}',
  clock_timestamp() - $4::interval + number * interval '1 microsecond'
FROM instance, generate_series(1, $3::integer) AS number
"""
FLOODS = {"dispatches": (STARTS, ENGINE), "inbox": (MESSAGES, ENGINE), "tokens": (JOBS, "work")}


class Queue:
    """One of the queues that hold the due rows of all tenants."""

    def __init__(self, kind: str, dsn: str, database: Database) -> None:
        self.kind = kind
        self._dsn = dsn
        self._dispatches = Dispatches(database, engine_id=ENGINE, owner=uuid4())
        self._inbox = Inbox(database, engine_id=ENGINE, owner=uuid4())
        self._tokens = Tokens(database)

    async def put(self, tenant: str, rows: int, *, since: timedelta) -> None:
        """Have rows of a tenant become due some time ago."""
        words, place = FLOODS[self.kind]
        async with plain(self._dsn) as connection:
            await connection.execute(words, tenant, place, rows, since)

    async def take(self, most: int = BATCH) -> list[str]:
        """Claim one batch; return the tenant of each row, in no order."""
        match self.kind:
            case "dispatches":
                return [one.tenant_id for one in await self._dispatches.claim(most, claim_for=MINUTE)]
            case "inbox":
                return [one.tenant_id for one in await self._inbox.claim(most, names={DOCS}, claim_for=MINUTE)]
        asked = ActivationRequest("work", ("<default>",), "tests", 60_000, most)
        (jobs,) = await self._tokens.activate([asked])
        return [job.case_tenant for job in jobs]


@pytest.fixture(params=sorted(FLOODS))
async def queue(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[Queue]:
    settings = ENGINE_SETTINGS if request.param == "tokens" else KEYED
    async with Database(dsn, size=2, settings=settings) as database:
        yield Queue(request.param, dsn, database)


async def test_a_flood_of_one_tenant_leaves_half_of_every_batch_to_another(queue: Queue) -> None:
    await queue.put("a-loud", FLOOD, since=timedelta(hours=2))
    await queue.put("b-quiet", 10, since=timedelta(hours=1))

    # The first batch finds out that more is due than it takes.
    taken = [Counter(await queue.take()) for _ in range(3)]

    assert taken == [{"a-loud": 16}, {"a-loud": 8, "b-quiet": 8}, {"a-loud": 14, "b-quiet": 2}]


async def test_a_tenant_that_comes_during_a_flood_waits_for_a_few_batches_at_most(queue: Queue) -> None:
    await queue.put("a-loud", FLOOD, since=timedelta(hours=2))
    for _ in range(20):
        await queue.take()
    await queue.put("b-quiet", 10, since=timedelta(hours=1))

    taken = Counter([tenant for _ in range(9) for tenant in await queue.take()])

    assert taken["b-quiet"] == 10


async def test_tenants_take_turns_where_there_is_room_for_one_row_alone(queue: Queue) -> None:
    await queue.put("a-loud", 500, since=timedelta(hours=2))
    await queue.put("b-quiet", 3, since=timedelta(hours=1))
    await queue.put("c-quiet", 3, since=timedelta(hours=1))

    await queue.take(1)
    taken = Counter([tenant for _ in range(9) for tenant in await queue.take(1)])

    assert taken == {"a-loud": 3, "b-quiet": 3, "c-quiet": 3}


async def test_more_tenants_than_a_batch_looks_at_all_get_their_turn(queue: Queue) -> None:
    await queue.put("a-loud", 3_000, since=timedelta(hours=2))
    others = [f"tenant-{number:03}" for number in range(150)]
    for tenant in others:
        await queue.put(tenant, 1, since=timedelta(hours=1))

    taken = [tenant for _ in range(12) for tenant in await queue.take()]

    # Sixteen rows a batch, each of another tenant while there are so many.
    assert set(others) <= set(taken)


async def test_tenants_with_nothing_due_leave_every_batch_full(queue: Queue) -> None:
    for number in range(200):
        await queue.put(f"later-{number:03}", 1, since=timedelta(hours=-1))
    await queue.put("z-loud", 40, since=timedelta(hours=1))

    assert [len(await queue.take()) for _ in range(4)] == [BATCH, BATCH, 8, 0]


async def test_a_flood_is_not_read_to_find_what_is_due(queue: Queue, dsn: str) -> None:
    await queue.put("a-loud", FLOOD, since=timedelta(hours=2))
    await queue.put("b-quiet", 10, since=timedelta(hours=1))

    plan = await _executed(dsn, queue.kind)

    assert [scan for scan in _scans(plan) if scan["Node Type"] == "Seq Scan"] == []
    assert max(_read(scan) for scan in _scans(plan)) <= 4 * BATCH


_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "dispatches": (f"'{ENGINE}'", "gen_random_uuid()", f"{BATCH}", "'1 minute'", "''"),
    "inbox": (f"'{ENGINE}'", "gen_random_uuid()", f"{BATCH}", "'1 minute'", f"'{{{DOCS}}}'", "''"),
    "tokens": ("'{0}'", "'{work}'", "'{<default>}'", f"'{{{BATCH}}}'", "'{60000}'", "'{tests}'", "'{\"\"}'"),
}


async def _executed(dsn: str, store: str) -> dict[str, Any]:
    """Return the plan that a connection keeps, made while the tables had no statistics, with what it read."""
    query = sql.query(store, "activate_in_turn" if store == "tokens" else "claim_in_turn")
    async with plain(dsn) as connection:
        for setting, value in (ENGINE_SETTINGS if store == "tokens" else KEYED).items():
            await connection.execute(f"SET {setting} = {value}")
        await connection.execute(f"PREPARE planned AS {query}")
        given = ", ".join(_ARGUMENTS[store])
        told = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE planned ({given})")
    plan: dict[str, Any] = json.loads(told)[0]["Plan"]
    return plan


def _read(scan: dict[str, Any]) -> float:
    filtered = scan.get("Rows Removed by Filter", 0) + scan.get("Rows Removed by Index Recheck", 0)
    return float((scan["Actual Rows"] + filtered) * scan["Actual Loops"])


def _scans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "Scan" in node["Node Type"] and "Relation Name" in node:
        yield node
    for below in node.get("Plans", []):
        yield from _scans(below)
