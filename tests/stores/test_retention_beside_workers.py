"""Retention at its most eager beside workers: no open case loses a row, and every ended one is exported once."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest

from tests.support.databases import execute
from tests.support.doctor_app import grants
from tests.support.eventually import eventually
from tests.support.ledger import EFFECTS, TABLE, Provider, ledger_verbs, ledger_workflow
from tests.support.models import line
from tests.support.postgres import run_apart
from tests.support.start_router import asking, open_starts
from verblint.contracts.contract import Argument
from verbworker.app import settings as config
from verbworker.app.export_directory import exported_lines
from verbworker.app.services import retention
from verbworker.app.settings import Settings
from verbworker.app.wiring import open_app
from verbworker.contract.registry import Registry
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Resource
from verbworker.errors import StoreConflict, StoreError
from verbworker.model.weave import weave
from verbworker.runbook.export import check_entry
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.stores.jobs.frames import Frames
from verbworker.work.upkeep.retention import RULES

CASES = 24
SETTLE = "(ledger.settle :amount 7)"
VERBS = ["ledger.book", "ledger.send", "ledger.annotate"]
# Everything that was acknowledged is months old at once.
AGE = (
    "UPDATE verbworker.job_frame SET acked_at = acked_at - interval '70 days' WHERE acked_at > now() - interval '1 day'"
)
# And what has ended need not wait for a day. Its end cannot be made older: that is in the record.
NO_DELAY = """
DO $$
BEGIN
  EXECUTE 'CREATE OR REPLACE VIEW verbworker.retired_runbook_entry WITH (security_invoker = true) AS '
    || regexp_replace(pg_get_viewdef('verbworker.retired_runbook_entry'), '1 day', '0 s');
END
$$
"""
OPEN = """
SELECT entry.entry_id, entry.last_seq,
  (SELECT count(*) FROM verbworker.runbook_event AS event WHERE event.entry_id = entry.entry_id) AS events,
  (SELECT count(*) FROM verbworker.payload_head AS head WHERE head.instance_uid = instance.instance_uid) AS heads,
  (SELECT count(*) FROM verbworker.payload_version AS old WHERE old.instance_uid = instance.instance_uid) AS versions,
  (SELECT count(DISTINCT job_key) FROM (
    SELECT job_key FROM verbworker.job_frame WHERE instance_uid = instance.instance_uid AND state = 'completed'
    UNION ALL
    SELECT job_key FROM verbworker.job_frame_archive WHERE instance_uid = instance.instance_uid
  ) AS done) AS done,
  (SELECT count(*) FROM verbworker.dispatch AS dispatch WHERE dispatch.entry_id = entry.entry_id) AS dispatches
FROM verbworker.runbook_entry AS entry
LEFT JOIN verbworker.workflow_instance AS instance ON instance.entry_id = entry.entry_id
WHERE entry.ended_at IS NULL
"""


@pytest.fixture
def worker(dsn: str) -> Iterator[str]:
    """The database as a role has it that may do what a worker does, and delete nothing of the record."""
    name, parts = f"worker_{uuid4().hex[:8]}", urlsplit(dsn)
    run_apart(execute(dsn, f"{TABLE}; {NO_DELAY}; CREATE ROLE {name} LOGIN PASSWORD 'x'; {grants(name)}"))
    run_apart(execute(dsn, f"GRANT ALL ON ledger TO {name}"))
    yield urlunsplit(parts._replace(netloc=f"{name}:x@{parts.hostname}:{parts.port}"))
    run_apart(execute(dsn, f"DROP OWNED BY {name}; DROP ROLE {name}"))


def settings(dsn: str, place: Path) -> Settings:
    """Settings by which everything that may go goes at once."""
    eager = {rule.setting: 0.001 for rule in RULES}
    return config.load(dsn=dsn, engine="embedded", http_port=0, poll_wait=1, export_dir=place, **eager)


def ledger(provider: Provider) -> Registry:
    verbs = ledger_verbs(provider, "ledger")
    args = {"amount": Argument(type="integer", required=True)}
    return verbs.declare(replace(ledger_workflow(verbs, "ledger"), args=args, initial={"amount": "args.amount"}))


async def drop(chosen: Settings, rounds: list[int]) -> None:
    """A retention as a worker's role runs it, again and again."""
    async with Database(chosen.database(), size=2) as database:
        kept = retention(chosen, database)
        while True:
            await kept.drop_batch()
            # A lock that another session holds is left for the next round; nothing else may go wrong.
            assert not [reason for reason in kept.failures.values() if "lock" not in reason], kept.failures
            rounds.append(1)
            await asyncio.sleep(0)


async def age(dsn: str) -> None:
    """Time, months of it, for all that is over; and the reaper that archives it at once."""
    async with Database(dsn, size=2) as database:
        frames = Frames(database, engine_id="embedded", owner=uuid4())
        while True:
            with suppress(StoreConflict):
                await database.execute(AGE)
            # A month may be dropped while it is filled: the frames stay where they were, and the reaper comes again.
            with suppress(StoreError):
                await frames.archive(older_than=timedelta(days=1), settled=timedelta(0))
            await asyncio.sleep(0.01)


def whole(row: dict[str, int]) -> bool:
    """Whether an open case has every row it ever had: a version for each step that was done, and the first."""
    return (
        row["events"] == row["last_seq"]
        and (row["heads"], row["dispatches"]) == (1, 1)
        and row["versions"] == row["done"] + 1
    )


async def tables_with_rows(database: Database) -> list[str]:
    """The tables of entries and payloads that are not empty."""
    return [
        table
        for rule in RULES
        if rule.setting in ("keep_entries", "keep_payloads")
        for table in rule.tables
        if await database.fetch(f"SELECT 1 FROM {table} LIMIT 1")
    ]


async def test_no_open_case_loses_a_row_and_every_ended_one_is_exported_once(
    dsn: str, worker: str, tmp_path: Path
) -> None:
    provider, stop, rounds = Provider(), asyncio.Event(), list[int]()
    registry, chosen = ledger(provider), settings(worker, tmp_path)
    provider.hold()
    torn: list[dict[str, int]] = []
    async with Database(dsn, size=4) as database, EmbeddedEngine(database) as engine:
        woven = weave(line("ledger-settle", VERBS), registry)
        await engine.deploy([Resource("settle.bpmn", woven.content)])
        async with (
            open_app(chosen, registry) as first,
            open_app(chosen, registry) as second,
            open_starts(database, registry, engine) as starts,
            asyncio.TaskGroup() as tasks,
        ):
            working = [tasks.create_task(app.run(stop)) for app in (first, second)]
            eager = [tasks.create_task(drop(chosen, rounds)) for _ in range(2)]
            eager.append(tasks.create_task(age(dsn)))
            asked = [(await starts.router.invoke(SETTLE, caller=asking())).entry_id for _ in range(CASES)]

            async def at_the_last_step() -> bool:
                rows = [dict(row) for row in await database.fetch(OPEN)]
                torn.extend(row for row in rows if not whole(row))
                return len(rows) == CASES and all(row["done"] == 2 for row in rows)

            await eventually(at_the_last_step, timeout=120)
            here = len(rounds)

            async def dropped_often_since() -> bool:
                return len(rounds) > here + 20

            await eventually(dropped_often_since, timeout=120)
            assert await at_the_last_step()
            months = await database.fetch("SELECT DISTINCT tableoid FROM verbworker.job_frame_archive")
            provider.may_go_on.set()

            async def all_gone() -> bool:
                row = await database.fetchrow("SELECT count(*) FROM verbworker.runbook_entry")
                return row is not None and row["count"] == 0

            await eventually(all_gone, timeout=120)
            for task in eager:
                task.cancel()
            stop.set()
            await asyncio.gather(*working)
        effects = await database.fetchrow(EFFECTS)
        left = await tables_with_rows(database)
        verified = await Runbook(database).verify("tests")

    lines = [text for _, text in exported_lines(tmp_path)]
    assert torn == []
    assert months != []
    assert effects is not None
    assert effects["count"] == len(provider.effects) == CASES
    assert sorted(json.loads(text)["entry"]["entry_id"] for text in lines) == sorted(map(str, asked))
    assert {json.loads(text)["entry"]["status"] for text in lines} == {"completed"}
    assert all(check_entry(text).is_whole for text in lines)
    assert (left, verified.findings, verified.seals.dropped) == ([], (), CASES)
