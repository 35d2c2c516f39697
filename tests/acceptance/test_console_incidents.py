"""What an engine raises, on the console's pages: found without a key, understood, resolved, and the case goes on."""

from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.apart import run_apart
from tests.support.engine_cases import CASES, EngineCase, begin_case
from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE
from tests.support.recorded_search import NO_RETRIES, WORK, RecordedCluster, recorded_cluster, recorded_item
from tests.support.search_process import searching
from tests.support.site import Answer, Site, site
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.stores.upkeep_turns import UpkeepTurns

OPERATE = "https://operate.example"
RESOLVED = "The incident is resolved; the case tries again."
# The recorded resolution is of another incident, so each of them gets its key.
RECORDED: dict[str, tuple[str, dict[str, Any]]] = {
    "uncaught": ("search incidents: unhandled error", {}),
    "gateway": ("search incidents: condition", {"processInstanceKey": str(WORK)}),
    "listener": ("search incidents", {"errorType": "EXECUTION_LISTENER_NO_RETRIES", "errorMessage": "nothing listens"}),
}


@pytest.fixture
def cluster() -> Iterator[RecordedCluster]:
    with recorded_cluster() as cluster:
        yield cluster


async def incident_of(database: Database, entry_id: UUID) -> tuple[UUID, UUID]:
    row = await database.fetchrow("SELECT token_id FROM verbworker.parked_token WHERE entry_id = $1", entry_id)
    assert row is not None
    return entry_id, row["token_id"]


async def status_of(dsn: str, entry_id: UUID) -> str:
    async with Database(dsn, size=1) as database:
        entry = await Runbook(database).entry(entry_id)
        assert entry is not None
        return entry.status


def read_and_resolve(console: Site, incident_id: UUID, **form: str) -> tuple[list[str], Answer]:
    """What the runbook, the list and the page of an incident show, and the answer to its form."""
    ann, page = console.visitor("ann"), f"/incidents/one?id={incident_id}"
    shown = [unescape(ann.get(path).text) for path in ("/", "/incidents", page)]
    given = {"id": str(incident_id), "reason": "mended", **form}
    return shown, ann.fill(page, "/incidents/resolve", given)


def assert_shown(shown: list[str], kind: str, element: str, message: str) -> None:
    runbook, *pages = shown
    assert f"aiting for an operator: {element}" in runbook
    for text in pages:
        assert f"{kind}: {message}" in text
        assert element in text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_the_embedded_engine_raises(case: EngineCase, dsn: str, tmp_path: Path) -> None:
    async def stop() -> tuple[UUID, UUID, str]:
        async with Database(dsn, size=4) as database, EmbeddedEngine(database, engine_id=ENGINE) as engine:
            stored, instance_key = await begin_case(database, engine, case.drawing())
            await case.fault(engine)
            (incident,) = await engine.incidents([instance_key])
            return *await incident_of(database, stored.entry_id), incident.message

    async def goes_on() -> bool:
        async with Database(dsn, size=4) as database, EmbeddedEngine(database, engine_id=ENGINE) as engine:
            return await case.goes_on(engine)

    entry_id, incident_id, message = run_apart(stop())
    flags = {"flags": "orch_way=true"} if case.name == "gateway" else {}
    with site(tmp_path, dsn) as console:
        shown, resolved = read_and_resolve(console, incident_id, **flags)
        after = console.visitor("ann").get("/incidents").text

    assert_shown(shown, case.kind, case.element, message)
    assert (resolved.sentence, str(entry_id) in after) == (RESOLVED, False)
    assert run_apart(status_of(dsn, entry_id)) == "executing"
    assert run_apart(goes_on())


@pytest.mark.parametrize("case", RECORDED)
def test_what_a_recorded_cluster_raises_after_one_round(
    case: str, dsn: str, cluster: RecordedCluster, tmp_path: Path
) -> None:
    assert cluster.server is not None
    url = cluster.server.url
    name, changes = RECORDED[case]
    item = {**recorded_item(name), **changes, "incidentKey": str(NO_RETRIES)}
    cluster.incidents.append(item)

    async def stop() -> tuple[UUID, UUID]:
        async with Database(dsn, size=4) as database:
            stored = await StoredEntry.open(database)
            await stored.start(WORK)
            turns = UpkeepTurns(database, engine_id=ENGINE, service="search", owner=uuid4())
            async with searching(database, url, "worker", turns) as reconciler:
                await reconciler.look_in_turn()
            return await incident_of(database, stored.entry_id)

    entry_id, incident_id = run_apart(stop())
    with site(
        tmp_path,
        dsn,
        VERBWORKER_ENGINE="zeebe",
        VERBWORKER_OPERATE_URL=OPERATE,
        ZEEBE_REST_ADDRESS=url,
        ZEEBE_TRANSPORT="rest",
    ) as console:
        entry = console.visitor("ann").get(f"/entries/{entry_id}").text
        shown, resolved = read_and_resolve(console, incident_id)

    assert_shown(shown, item["errorType"], item["elementId"], item["errorMessage"])
    assert [f'href="{OPERATE}/processes/{WORK}"' in text for text in (entry, shown[-1])] == [True, True]
    assert resolved.sentence == RESOLVED
    assert f"POST /v2/incidents/{NO_RETRIES}/resolution" in cluster.server.paths()
    assert run_apart(status_of(dsn, entry_id)) == "executing"
