"""Incidents of plain processes, which have no entry: on the recorded 8.9.17 and on the embedded engine."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.drawing import Drawing
from tests.support.engine_cases import find_no_way, take, throw_uncaught, without_a_way
from tests.support.frames import ENGINE, INCIDENT, claimed, make_delivery, working
from tests.support.recorded_search import CONDITION, NO_RETRIES, RecordedCluster, recorded_item
from verbworker.app import settings as config
from verbworker.client.client import Client
from verbworker.client.incident_records import IncidentRecord
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Resource, Start
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import NotFound
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.overview import Overview, Trouble
from verbworker.stores.database import Database
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.upkeep.reconciler import Reconciler
from verbworker.work.upkeep.resolutions import Resolution, Resolutions
from verbworker.work.upkeep.search_reconciler import SearchReconciler

DEFINITION = 2251799813685354  # of the recorded process `work`
DEPLOY = """
INSERT INTO verbworker.process_deployment (
  engine_id, definition_key, process_id, version, verb, resource, authored_sha256, woven, woven_sha256, deployed_by)
VALUES ($1, $2, $3, 1, $4, 'r', sha256(''), '', sha256(''), 'tests')
"""


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


@pytest.fixture
async def zeebe(cluster: RecordedCluster) -> AsyncIterator[ZeebeEngine]:
    assert cluster.server is not None
    address = GatewayAddress(rest_url=cluster.server.url, transport="rest")
    async with ZeebeEngine(address, engine_id=ENGINE) as engine:
        yield engine


@pytest.fixture
async def embedded(database: Database) -> AsyncIterator[EmbeddedEngine]:
    async with EmbeddedEngine(database, engine_id=ENGINE) as engine:
        yield engine


def search_of(database: Database, engine: Any) -> SearchReconciler:
    cancelling = Cancellation(database, Dispatches(database, engine_id=ENGINE, owner=uuid4()), engine)
    return SearchReconciler(database, engine, Reconciler(database, engine, cancelling), between_looks=timedelta(0))


async def troubles(database: Database) -> list[Trouble]:
    return await Overview(database).troubles("default", without_entry=True)


async def deployed(
    database: Database, definition: int = DEFINITION, *, process: str = "work", verb: str = "plain"
) -> None:
    await database.execute(DEPLOY, ENGINE, definition, process, verb)


async def resolve(database: Database, engine: Any, trouble: Trouble, retries: int = 1) -> bool:
    resolutions = Resolutions(database, engine, owner=uuid4())
    return (await resolutions.resolve(trouble, Resolution("ada", "mended", retries=retries))).done


# ---- a cluster ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "key"),
    [("search incidents: condition", CONDITION), ("search incidents", NO_RETRIES)],
    ids=["gateway", "job"],
)
async def test_an_incident_of_a_plain_process_is_listed_after_one_round(
    database: Database, cluster: RecordedCluster, zeebe: ZeebeEngine, name: str, key: int
) -> None:
    await deployed(database)
    item = recorded_item(name)
    cluster.incidents.append(item)
    search = search_of(database, zeebe)

    rounds = [await search.look(), await search.look()]

    (trouble,) = await troubles(database)
    assert rounds == [1, 0]
    assert (trouble.is_plain, trouble.process_id, trouble.entry_id) == (True, "work", None)
    assert (trouble.incident_key, trouble.incident_type, trouble.incident_text, trouble.element_id) == (
        key,
        item["errorType"],
        item["errorMessage"],
        item["elementId"],
    )
    assert trouble.reason == f"Waiting for an operator: {item['elementId']} of the plain process work"
    assert trouble.since.isoformat().startswith(item["creationTime"][:19])
    assert await Overview(database).troubles("default", without_entry=False) == []


@pytest.mark.parametrize("verb", [None, "kyc.open-case"], ids=["of other people", "of a verb"])
async def test_only_plain_processes_of_ours_are_listed(
    database: Database, cluster: RecordedCluster, zeebe: ZeebeEngine, verb: str | None
) -> None:
    if verb is not None:
        await deployed(database, verb=verb)
    cluster.incidents.append(recorded_item("search incidents: condition"))

    assert await search_of(database, zeebe).look() == 0
    assert await troubles(database) == []


async def test_an_incident_that_a_search_misses_twice_is_over(
    database: Database, cluster: RecordedCluster, zeebe: ZeebeEngine
) -> None:
    await deployed(database)
    cluster.incidents.append(recorded_item("search incidents: condition"))
    search = search_of(database, zeebe)
    await search.look()

    cluster.incidents.clear()
    listed = []
    for _ in range(2):
        await search.look()
        listed.append(len(await troubles(database)))

    assert listed == [1, 0]


async def test_resolving_is_told_to_the_cluster_and_kept_with_who_did_it(
    database: Database, cluster: RecordedCluster, zeebe: ZeebeEngine
) -> None:
    await deployed(database)
    cluster.incidents.append(recorded_item("search incidents"))
    search = search_of(database, zeebe)
    await search.look()
    (trouble,) = await troubles(database)

    assert await resolve(database, zeebe, trouble)
    await search.look()  # it shows the incident still, and that brings nothing back

    assert await troubles(database) == []
    assert cluster.server is not None
    assert f"POST /v2/incidents/{NO_RETRIES}/resolution" in cluster.server.paths()
    row = await database.fetchrow("SELECT resolved_by, resolved_because FROM verbworker.plain_incident")
    assert row is not None
    assert tuple(row) == ("ada", "mended")


async def test_a_resolution_that_the_cluster_refuses_leaves_the_incident_listed(
    database: Database, cluster: RecordedCluster, zeebe: ZeebeEngine
) -> None:
    await deployed(database)
    cluster.incidents.append(recorded_item("search incidents: condition"))
    await search_of(database, zeebe).look()
    (trouble,) = await troubles(database)
    await zeebe.__aexit__(None, None, None)

    assert not await resolve(database, zeebe, trouble)
    assert [one.incident_id for one in await troubles(database)] == [trouble.incident_id]


# ---- the embedded engine --------------------------------------------------------------------------------------------


async def begin_plain(database: Database, engine: EmbeddedEngine, drawing: Drawing) -> int:
    """Start an instance of a process that is deployed as plain."""
    (made,) = await engine.deploy([Resource("p.bpmn", drawing.xml())])
    await deployed(database, made.definition_key, process=drawing.process)
    return (await engine.start(Start(drawing.process, {}))).instance_key


async def test_the_embedded_engine_tells_of_it_in_the_commit_that_raises_it(
    database: Database, embedded: EmbeddedEngine
) -> None:
    drawing = without_a_way()
    instance_key = await begin_plain(database, embedded, drawing)
    await find_no_way(embedded)

    (trouble,) = await troubles(database)
    (incident,) = await embedded.incidents([instance_key])
    assert (trouble.is_plain, trouble.process_id, trouble.instance_key) == (True, drawing.process, instance_key)
    assert (trouble.incident_key, trouble.incident_type) == (incident.incident_key, incident.kind)

    await embedded.set_variables(instance_key, {"orch_way": True})
    assert await resolve(database, embedded, trouble)
    assert await troubles(database) == []
    assert await take(embedded, "left")


async def test_a_code_that_nothing_catches_is_listed_and_its_job_gets_retries(
    database: Database, embedded: EmbeddedEngine
) -> None:
    drawing = Drawing().start().task("work").end().flow("begin", "work", "end")
    await begin_plain(database, embedded, drawing)
    await throw_uncaught(embedded)
    (trouble,) = await troubles(database)

    assert trouble.incident_type == "UNHANDLED_ERROR_EVENT"
    assert await resolve(database, embedded, trouble, retries=2)
    assert (await take(embedded, "work")).retries == 2


async def test_a_cancelled_instance_leaves_no_incident(database: Database, embedded: EmbeddedEngine) -> None:
    instance_key = await begin_plain(database, embedded, without_a_way())
    await find_no_way(embedded)

    await embedded.cancel(instance_key)

    assert await troubles(database) == []


async def test_a_held_plain_task_is_one_incident_with_its_story(database: Database, embedded: EmbeddedEngine) -> None:
    drawing = Drawing().start().task("work").end().flow("begin", "work", "end")
    await begin_plain(database, embedded, drawing)
    job = await take(embedded, "work")
    async with working(database) as frames:
        await frames.boot(name="ann", host="a", pid=11)
        await frames.pop_incident(await claimed(frames, make_delivery(job, None)), INCIDENT)
    await embedded.fail(job.key, retries=0, message="no customer")

    (trouble,) = await troubles(database)
    assert (trouble.is_plain, trouble.job_key, trouble.state, trouble.fail_code) == (
        True,
        job.key,
        "incident",
        INCIDENT.code,
    )
    assert trouble.incident_key is not None
    assert await resolve(database, embedded, trouble, retries=2)
    assert await troubles(database) == []
    assert (await take(embedded, "work")).key == job.key


# ---- people ---------------------------------------------------------------------------------------------------------


async def test_people_find_it_by_its_id_or_key_and_it_is_named_as_plain(
    dsn: str, database: Database, embedded: EmbeddedEngine
) -> None:
    drawing = without_a_way()
    instance_key = await begin_plain(database, embedded, drawing)
    await find_no_way(embedded)
    settings = config.load(dsn=dsn, engine="embedded", engine_id=ENGINE, operate_url="https://operate.example")

    async with Client(settings, by="ada") as client:
        (listed,) = (await client.incidents(without_entry=True)).incidents
        assert isinstance(listed, IncidentRecord)
        assert listed.incident_id is not None
        places: list[UUID | str | int] = [listed.incident_id, str(listed.incident_id)[:8], str(listed.incident_key)]
        found = {(await client.incident(place, without_entry=True)).incident_id for place in places}
        with pytest.raises(NotFound):
            await client.incident(listed.incident_id)
        done = await client.resolve(str(listed.incident_id)[:8], "mended", flags={"orch_way": True}, without_entry=True)

    assert found == {listed.incident_id}
    assert listed.subject == f"plain process {drawing.process}, instance {instance_key}"
    assert listed.operate_url == f"https://operate.example/processes/{instance_key}"
    assert done.sentence == "the incident is resolved; the case tries again"
