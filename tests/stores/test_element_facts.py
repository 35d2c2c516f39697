"""What is known about the elements of deployed models: of one case, and of a tenant's cases."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tests.support.databases import plain
from tests.support.entries import INSTANCE_KEY, StoredEntry
from tests.support.frames import ENGINE
from verbworker.runbook.event import Wait
from verbworker.stores.cases.instances import Carrier
from verbworker.stores.database import Database
from verbworker.stores.elements.element_facts import ElementFacts
from verbworker.stores.sql import query

DEPLOYMENT = """
INSERT INTO verbworker.process_deployment (
  engine_id, definition_key, process_id, version, verb, resource, authored_sha256, woven_sha256, woven, deployed_by
)
VALUES ($1, $2, $3, $4, 'kyc.open-case', 'r', sha256($5), sha256($5), $5, 'ann')
"""
FRAME = """
INSERT INTO verbworker.job_frame (
  engine_id, job_key, process_instance_key, element_instance_key, verb, tenant_id, instance_uid, process_id,
  process_version, element_id, mode, on_unknown, max_runs, idempotency_window, idempotency_key, owner, lease_until,
  activated_ms, retries_left, input_hash, state, outcome, output, output_hash, runs, pushed_at, popped_at
)
SELECT $1, $2, 1, $2, 'a.b', '<default>', $3, 'kyc', 3, $4, 'transactional', 'rerun', 3, interval '1 day', 'k', $3,
  now(), 0, 3, 'i', $5::text::verbworker.frame_state, 'complete', '{}', sha256('{}'), $6, now() - $7::interval, now()
"""
TENANT = "default"


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as opened:
        yield opened


@pytest.fixture
async def facts(database: Database) -> ElementFacts:
    for version, key in ((2, 69), (3, 70)):
        await database.execute(DEPLOYMENT, ENGINE, key, "kyc", version, b"<xml/>")
    return ElementFacts(database)


async def add_step(entry: StoredEntry, key: int, element: str, took: float, **given: Any) -> None:
    state, runs = given.get("state", "completed"), given.get("runs", 1)
    uid = entry.instance_uid
    await entry.database.execute(FRAME, ENGINE, key, uid, element, state, runs, timedelta(seconds=took))


async def test_of_a_case_its_jobs_and_waits_are_known(database: Database, facts: ElementFacts) -> None:
    entry, other = await StoredEntry.open(database), await StoredEntry.open(database)
    await entry.start()
    await add_step(entry, 1, "ask", 3)
    await add_step(other, 2, "ask", 5)
    await entry.park(entry.token(7, Wait.TIMER, element_id="wait"))
    await entry.unpark(7)

    steps = await facts.steps(Carrier(entry.instance_uid, ENGINE, INSTANCE_KEY))
    (wait,) = await facts.waits(entry.entry_id)

    assert [(step.element_id, step.state, step.outcome, step.runs) for step in steps] == [
        ("ask", "completed", "complete", 1)
    ]
    assert (wait.element_id, wait.kind, wait.closed_as) == ("wait", "timer", "resumed")
    assert await facts.tokens(Carrier(entry.instance_uid, ENGINE, INSTANCE_KEY)) == set()
    assert await facts.tokens(Carrier(entry.instance_uid, ENGINE, None)) == set()


async def test_the_figures_of_a_version_are_of_its_cases(database: Database, facts: ElementFacts) -> None:
    for number in range(1, 5):
        entry = await StoredEntry.open(database)
        await entry.start(9000 + number)
        await add_step(entry, number, "ask", number, runs=2 if number == 4 else 1)
        await entry.park(entry.token(number, Wait.HUMAN_GATE, element_id="review", gate="review"))
    await entry.park(entry.token(9, Wait.INCIDENT, element_id="pay"))
    foreign = await StoredEntry.open(database, tenant_id="globex")
    await foreign.start(9100)
    await add_step(foreign, 100, "ask", 100)

    figures = await facts.figures(TENANT, ENGINE, "kyc", 70)
    standing = await facts.open_waits(TENANT, ENGINE, 70)

    ask = figures["ask"]
    assert (ask.visits, ask.failures, ask.cases) == (4, 1, 4)
    assert ask.p50 == pytest.approx(2.5, abs=0.1)
    assert ask.p95 == pytest.approx(3.85, abs=0.1)
    assert (figures["review"].visits, figures["review"].p50) == (4, None)
    assert {id: (here.waiting, here.incidents) for id, here in standing.items()} == {"review": (4, 0), "pay": (0, 1)}
    assert await facts.figures(TENANT, ENGINE, "kyc", 69) == {}
    assert await facts.open_waits(TENANT, ENGINE, 69) == {}


async def test_versions_count_the_cases_of_a_tenant(database: Database, facts: ElementFacts) -> None:
    entry = await StoredEntry.open(database)
    await entry.start()

    versions = await facts.versions(TENANT, ENGINE, "kyc")
    other = await facts.versions("globex", ENGINE, "kyc")

    assert [(one.version, one.entries, one.open, one.failed) for one in versions] == [(3, 1, 1, 0), (2, 0, 0, 0)]
    assert [one.entries for one in other] == [0, 0]


async def test_a_tenant_sees_the_processes_it_uses(database: Database, facts: ElementFacts) -> None:
    await StoredEntry.open(database)

    (used,) = await facts.processes(TENANT, unused=False)
    (every,) = await facts.processes("globex", unused=True)

    assert (used.process_id, used.version, used.versions) == ("kyc", 3, 2)
    assert used.last_at is not None
    assert every.last_at is None
    assert await facts.processes("globex", unused=False) == []


@pytest.mark.parametrize("name", ["durations", "versions"])
async def test_the_newest_cases_of_a_process_are_found_by_their_index(dsn: str, name: str) -> None:
    text = query("element_facts", name)
    values = {"durations": "'t', 'e', 'kyc', 70, 10000, 1000", "versions": "'t', 'e', 'kyc', 10000, 50"}
    async with plain(dsn) as connection:
        await connection.execute("SET enable_seqscan = off")
        await connection.execute(f"PREPARE planned AS {text}")
        rows = await connection.fetch(f"EXPLAIN EXECUTE planned ({values[name]})")

    plan = "\n".join(row[0] for row in rows)
    assert "runbook_entry_by_process" in plan
    assert "Seq Scan on job_frame" not in plan


async def test_tokens_are_read_of_one_instance_alone(dsn: str) -> None:
    async with plain(dsn) as connection:
        await connection.execute("SET enable_seqscan = off")
        await connection.execute(f"PREPARE planned AS {query('element_facts', 'tokens')}")
        rows = await connection.fetch("EXPLAIN EXECUTE planned ('e', 7)")

    plan = "\n".join(row[0] for row in rows)
    assert plan.count("Index Cond: (instance_key = '7'::bigint)") == 2
