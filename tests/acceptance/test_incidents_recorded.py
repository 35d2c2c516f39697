"""`verbworker incidents` against the recorded answers of a real 8.9.17: listed, understood, resolved, recorded."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.command import Said, verbworker
from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE
from tests.support.recorded_search import JOB, NO_RETRIES, WORK, RecordedCluster, recorded_cluster, recorded_item
from tests.support.search_process import searching
from verbworker.stores.database import Database
from verbworker.stores.upkeep_turns import UpkeepTurns

OPERATE = "https://operate.example"
DEPLOY = """
INSERT INTO verbworker.process_deployment (
  engine_id, definition_key, process_id, version, verb, resource, authored_sha256, woven, woven_sha256, deployed_by)
VALUES ($1, 2251799813685354, 'work', 1, 'plain', 'r', sha256(''), '', sha256(''), 'tests')
"""
# An uncaught code, a gateway without a way and a failed listener, as the cluster tells of them. The recorded resolution
# is of another incident, so each of them gets its key.
CASES = {
    "uncaught": ("search incidents: unhandled error", {}),
    "gateway": ("search incidents: condition", {"processInstanceKey": str(WORK)}),
    "listener": ("search incidents", {"errorType": "EXECUTION_LISTENER_NO_RETRIES", "errorMessage": "nothing listens"}),
}


@pytest.fixture
def cluster() -> Iterator[RecordedCluster]:
    with recorded_cluster() as cluster:
        yield cluster


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


class Operator:
    """Somebody who types commands, with the settings of a cluster over REST."""

    def __init__(self, dsn: str, url: str, folder: Path) -> None:
        self._dsn = dsn
        self._folder = folder
        self._settings = {
            "VERBWORKER_ENGINE": "zeebe",
            "VERBWORKER_ENGINE_ID": ENGINE,
            "VERBWORKER_OPERATE_URL": OPERATE,
            "ZEEBE_REST_ADDRESS": url,
            "ZEEBE_TRANSPORT": "rest",
        }

    async def type_in(self, *words: str) -> Said:
        settings = self._settings
        return await asyncio.to_thread(lambda: verbworker(*words, directory=self._folder, dsn=self._dsn, **settings))

    async def read(self, *words: str) -> Any:
        said = await self.type_in(*words, "--json")
        assert said.code == 0, said.err
        return json.loads(said.out)


@pytest.fixture
def operator(dsn: str, cluster: RecordedCluster, tmp_path: Path) -> Operator:
    assert cluster.server is not None
    return Operator(dsn, cluster.server.url, tmp_path)


async def search_once(database: Database, cluster: RecordedCluster) -> None:
    assert cluster.server is not None
    turns = UpkeepTurns(database, engine_id=ENGINE, service="search", owner=uuid4())
    async with searching(database, cluster.server.url, "worker", turns) as reconciler:
        await reconciler.look_in_turn()


@pytest.mark.parametrize("case", CASES)
async def test_an_incident_is_listed_understood_resolved_and_recorded(
    database: Database, cluster: RecordedCluster, operator: Operator, case: str
) -> None:
    name, changes = CASES[case]
    item = {**recorded_item(name), **changes, "incidentKey": str(NO_RETRIES)}
    cluster.incidents.append(item)
    book = await StoredEntry.open(database, sentence="Do some work")
    await book.start(WORK)
    await search_once(database, cluster)

    (entry,) = (await operator.read("runbook", "list"))["entries"]
    (listed,) = (await operator.read("incidents", "list"))["incidents"]
    shown = await operator.type_in("incidents", "show", str(book.entry_id))
    resolved = await operator.type_in("incidents", "resolve", listed["which"][:8], "--reason", "mended", "--by", "ada")
    again = await operator.type_in("incidents", "resolve", listed["which"], "--reason", "mended")

    assert (entry["status"], "waiting for an operator" in entry["progress"]) == ("parked", True)
    assert (listed["kind"], listed["element_id"], listed["why"], listed["subject"]) == (
        item["errorType"],
        item["elementId"],
        item["errorMessage"],
        "Do some work",
    )
    assert (listed["incident_key"], listed["operate_url"]) == (NO_RETRIES, f"{OPERATE}/processes/{WORK}")
    for words in (item["errorType"], item["elementId"], item["errorMessage"], "since", f"{OPERATE}/processes/{WORK}"):
        assert words in shown.out
    assert (resolved.code, resolved.out) == (0, "the incident is resolved; the case tries again\n")
    assert again.code == 1
    assert cluster.server is not None
    told = [path for path in cluster.server.paths() if path.startswith(("PATCH", f"POST /v2/incidents/{NO_RETRIES}"))]
    patched = [] if item["jobKey"] is None else [f"PATCH /v2/jobs/{JOB}"]
    assert told == [*patched, f"POST /v2/incidents/{NO_RETRIES}/resolution"]
    assert (await book.entry()).status == "executing"
    events = await operator.type_in("runbook", "events", str(book.entry_id))
    assert "ada let it continue after it had stopped: mended" in events.out


async def test_an_incident_of_a_plain_process_is_listed_understood_and_resolved(
    database: Database, cluster: RecordedCluster, operator: Operator
) -> None:
    cluster.incidents.append(recorded_item("search incidents"))
    await database.execute(DEPLOY, ENGINE)
    await search_once(database, cluster)

    (listed,) = (await operator.read("incidents", "list"))["incidents"]
    shown = await operator.type_in("incidents", "show", listed["which"][:8])
    resolved = await operator.type_in("incidents", "resolve", listed["which"][:8], "--reason", "mended")

    assert (listed["is_plain"], listed["subject"]) == (True, f"plain process work, instance {WORK}")
    assert f"plain process work, instance {WORK}" in shown.out
    assert (resolved.code, await operator.read("incidents", "list")) == (0, {"incidents": [], "next": None})
