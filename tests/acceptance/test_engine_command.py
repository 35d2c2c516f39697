"""`verbworker engine tokens` as a person meets it: a nested fork, a worker killed in its middle, and the history."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Said, verbworker
from tests.support.embedded import EmbeddedPlace
from tests.support.engine_cases import begin_case, nested, take
from tests.support.frames import ENGINE
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.job.outcome import NO_RESULT
from verbworker.stores.database import Database

# A process that takes jobs as a worker does, reports one of them, and is killed while it has the others.
MORTAL = """
import asyncio, sys
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Ask
from verbworker.job.outcome import NO_RESULT
from verbworker.stores.database import Database

async def work():
    async with EmbeddedEngine(Database(sys.argv[1], size=4), engine_id=sys.argv[2]) as engine:
        jobs = {}
        for kind in "bcd":
            (jobs[kind],) = await engine.activate(Ask(kind, "mortal", 60_000, ()), 1, 20_000)
        await engine.complete(jobs["b"].key, NO_RESULT)
        print("working", flush=True)
        await asyncio.sleep(600)

asyncio.run(work())
"""


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


@pytest.fixture
async def engine(database: Database) -> AsyncIterator[EmbeddedEngine]:
    async with EmbeddedEngine(database, engine_id=ENGINE) as engine:
        yield engine


@pytest.fixture
def run(dsn: str, tmp_path: Path) -> Callable[..., Said]:
    return lambda *words: verbworker(*words, directory=tmp_path, dsn=dsn)


def rows(said: Said) -> dict[str, dict[str, Any]]:
    assert said.code == 0, said.err
    return {row["node_id"]: row for row in json.loads(said.out)}


def statuses(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {node: row["status"] for node, row in found.items()}


@pytest.mark.req("TOK-02", "TOK-11", "TOK-19", "TOK-20", "X-19", "X-23")
async def test_the_tokens_of_a_nested_fork_are_shown_also_after_their_worker_was_killed(
    database: Database, engine: EmbeddedEngine, dsn: str, run: Callable[..., Said]
) -> None:
    stored, _ = await begin_case(database, engine, nested())
    await engine.complete((await take(engine, "a")).key, NO_RESULT)
    entry = str(stored.entry_id)
    forked = rows(run("engine", "tokens", entry, "--json"))
    people = run("engine", "tokens", entry[:8])

    mortal = await asyncio.create_subprocess_exec(sys.executable, "-c", MORTAL, dsn, ENGINE, stdout=subprocess.PIPE)
    try:
        assert mortal.stdout is not None
        assert await mortal.stdout.readline() == b"working\n"
        working = rows(run("engine", "tokens", entry, "--json"))
    finally:
        mortal.kill()
        await mortal.wait()
    killed = rows(run("engine", "tokens", entry, "--json"))
    await EmbeddedPlace(dsn).moved(61)
    recovered = rows(run("engine", "tokens", entry, "--json"))
    for kind in ("c", "d"):
        await engine.complete((await take(engine, kind)).key, NO_RESULT)
    joined = rows(run("engine", "tokens", entry, "--json"))
    history = json.loads(run("engine", "tokens", entry, "--history", "--json").out)

    assert statuses(forked) == {"b": "ready", "c": "ready", "d": "ready"}
    outer, inner = forked["d"]["parallel_group_id"], forked["b"]["parallel_group_id"]
    assert forked["c"]["parallel_groups"] == forked["b"]["parallel_groups"] == [outer, inner]
    assert forked["b"].keys() >= {
        "id",
        "instance_id",
        "node_id",
        "status",
        "mode",
        "version",
        "created_at",
        "updated_at",
    }
    assert [word in people.out for word in ("parallel_group_id", "ready", "forward", str(inner))] == [True] * 4

    assert statuses(working) == {"meet": "waiting", "c": "executing", "d": "executing"}
    assert killed == working
    assert statuses(recovered) == {"meet": "waiting", "c": "ready", "d": "ready"}
    for node in ("c", "d"):
        versions = [seen[node]["version"] for seen in (forked, working, recovered)]
        assert versions == [2, 3, 4]
        assert len({(seen[node]["id"], seen[node]["parallel_group_id"]) for seen in (forked, working, recovered)}) == 1
    assert statuses(joined) == {"after": "ready"}
    ended = {(row["node_id"], row["status"]) for row in history if row["node_id"] != "after"}
    assert ended == {(node, "completed") for node in ("begin", "outer", "a", "inner", "b", "c", "d", "meet", "join")}


async def test_an_entry_that_is_on_no_embedded_engine_is_one_sentence(
    database: Database, engine: EmbeddedEngine, run: Callable[..., Said]
) -> None:
    stored, _ = await begin_case(database, engine, nested())
    await database.execute("UPDATE verbworker.workflow_instance SET engine_id = 'cluster'")

    elsewhere = run("engine", "tokens", str(stored.entry_id))
    unknown = run("engine", "tokens", "8b1f6a52-0d0e-4c55-9a6e-3f2a7c1d9e40")

    assert elsewhere.code == 2
    assert "runs on 'cluster', which is not the embedded engine of this database" in elsewhere.sentence()
    assert unknown.code == 1
