"""A decision that the cluster keeps refusing: every place that people look at has the cluster's sentence."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.conformance.test_rest_decisions import (
    FAULTS,
    TENANT,
    at_gate,
    database,
    engine_of,
    relay_until_told,
    task_server,
)
from tests.support.command import Said, verbworker
from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE
from verbworker import metrics
from verbworker.stores.database import Database
from verbworker.work.gates.decide import GateRelay, Gates

__all__ = ["database"]  # the fixture

SENTENCE = "insufficient permissions"
MANY = 1000  # refusals; more than a test has attempts


class Operator:
    """At a terminal beside the workers."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self._dsn = dsn
        self._folder = folder

    def say(self, *words: str, **more: str) -> Said:
        settings = {"VERBWORKER_TENANT": TENANT, "VERBWORKER_ENGINE_ID": ENGINE, **more}
        return verbworker(*words, directory=self._folder, dsn=self._dsn, **settings)


@pytest.fixture
def operator(dsn: str, tmp_path: Path) -> Operator:
    return Operator(dsn, tmp_path)


@asynccontextmanager
async def refused(database: Database, fault: str) -> AsyncIterator[tuple[StoredEntry, GateRelay, str]]:
    """Yield an entry at a gate, a relay to a cluster that refuses each decision, and where that is."""
    with task_server(*[FAULTS[fault]] * MANY) as task:
        stored = await at_gate(database)
        async with engine_of(task) as engine:
            yield stored, GateRelay(database, engine, every=0.05), task.url


@pytest.mark.parametrize(("fault", "sentence"), [("403", SENTENCE), ("409", "it is in state 'ASSIGNING'")])
async def test_who_waits_for_the_answer_hears_why_there_is_none(
    database: Database, operator: Operator, fault: str, sentence: str
) -> None:
    async with refused(database, fault) as (stored, relay, _):
        running = asyncio.ensure_future(relay.service.run())
        words = "gates", "decide", str(stored.entry_id), "yes", "--by", "ada", "--wait", "3"
        said = await asyncio.to_thread(operator.say, *words)
        running.cancel()
    kept = json.loads(operator.say("gates", "list", "--all", "--json").out)["gates"][0]

    assert said.code == 1
    assert said.sentence().startswith("verbworker: the decision at review is stored, but the engine has not taken it: ")
    assert sentence in said.sentence()
    assert (kept["verdict"]["decision"], kept["verdict"]["answer"]) == ("yes", None)
    assert sentence in kept["verdict"]["trouble"]
    assert kept["state"] == "ada decided yes, not taken by the engine yet"


async def test_the_sentence_is_where_operators_look(database: Database, operator: Operator) -> None:
    async with refused(database, "403") as (stored, relay, url):
        await Gates(database).decide(stored.entry_id, "yes", by="ada", tenant_id=TENANT)
        await relay.drain()
        entry = str(stored.entry_id)
        shown, fields = operator.say("runbook", "show", entry), operator.say("runbook", "show", entry, "--json")
        stuck = operator.say("runbook", "list", "--stuck", "1")
        told = operator.say("doctor", ZEEBE_TRANSPORT="rest", ZEEBE_REST_ADDRESS=url).out

    assert "decision not taken yet" in shown.out
    assert SENTENCE in shown.out
    (unsent,) = json.loads(fields.out)["unsent"]
    assert (unsent["gate"], unsent["decision"], unsent["by"]) == ("review", "yes", "ada")
    assert SENTENCE in unsent["trouble"]
    assert "the engine has not taken the decision at review: " in stuck.out
    assert SENTENCE in stuck.out
    (line,) = [line for line in told.splitlines() if line.startswith("decisions")]
    assert SENTENCE in line
    assert "permission to complete user tasks" in line


async def test_unsent_decisions_are_counted_until_the_engine_has_them(database: Database) -> None:
    def read(name: str) -> float | None:
        return metrics.REGISTRY.get_sample_value(f"verbworker_unsent_decisions{name}")

    with task_server(FAULTS["403"]) as task:
        stored = await at_gate(database)
        async with engine_of(task) as engine:
            relay = GateRelay(database, engine)
            await Gates(database).decide(stored.entry_id, "yes", by="ada", tenant_id=TENANT)
            await relay.drain()
            await relay.tend()
            waiting, age = read(""), read("_age_seconds")
            await relay_until_told(database, engine, stored)
            await relay.tend()
    row = await database.fetchrow("SELECT last_error FROM verbworker.gate_decision")

    assert (waiting, (age or 0) > 0) == (1, True)
    assert (read(""), read("_age_seconds")) == (0, 0)
    assert row is not None
    assert row["last_error"] is None


@pytest.mark.parametrize("fault", ["cut after it", "garbage after it", "502 after it"])
async def test_a_decision_whose_answer_was_lost_is_not_called_too_late(
    database: Database, operator: Operator, fault: str
) -> None:
    with task_server(FAULTS[fault]) as task:
        stored = await at_gate(database)
        async with engine_of(task) as engine:
            running = asyncio.ensure_future(GateRelay(database, engine, every=0.05).service.run())
            words = "gates", "decide", str(stored.entry_id), "yes", "--by", "ada", "--wait", "60"
            said = await asyncio.to_thread(operator.say, *words)
            running.cancel()

    assert (said.code, said.err, task.completed) == (0, "", 1)
    assert said.out.endswith("; the engine has ended the task\n")
