"""A cluster made anew under its old name: it hands out the same keys, and every new job gets an answer of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from tests.chaos.load import ENGINE_ID
from tests.chaos.site import Site
from tests.chaos.verbs import workflow_of
from tests.support.databases import plain, value
from tests.support.models import line
from tests.support.start import prepare
from tests.support.zeebe import Broker, Ports
from verbworker.engine.protocol import Resource, Start
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.stores.database import Database

pytestmark = [pytest.mark.zeebe, pytest.mark.timeout(600)]

_COUNT = 5
_TIMEOUT = 120.0
_DONE = "SELECT count(*) FROM verbworker.job_frame WHERE acked_at IS NOT NULL"
_QUARANTINED = "SELECT count(DISTINCT job_key) FROM verbworker.frame_conflict"
_EFFECTS = "SELECT count(*) FROM ledger"
_FRAMES = "SELECT job_key, epoch, output, acked_at FROM verbworker.job_frame ORDER BY job_key"


@asynccontextmanager
async def _begun(site: Site) -> AsyncIterator[tuple[ZeebeEngine, set[UUID]]]:
    """A few instances, started before anybody polls: so a new cluster gives their jobs the keys the old one gave."""
    workflow = workflow_of(site.domain, ["book"])
    model = line(workflow.process, [f"{site.domain}.book"])
    async with (
        ZeebeEngine(GatewayAddress(address=site.address), engine_id=ENGINE_ID) as engine,
        Database(site.harness_dsn, size=2) as database,
    ):
        await engine.deploy([Resource("book.bpmn", model)])
        known: set[UUID] = set()
        for number in range(_COUNT):
            ready = await prepare(database, ENGINE_ID, workflow, {"number": number})
            await engine.start(Start(workflow.process, ready.variables))
            known.add(ready.instance_uid)
        yield engine, known


async def _reach(site: Site, query: str, count: int) -> None:
    async with asyncio.timeout(_TIMEOUT):
        while True:
            if await value(site.harness_dsn, query) >= count:
                return
            await asyncio.sleep(0.2)


@pytest.mark.req("X-07", "M-05")
async def test_the_jobs_of_a_recreated_cluster_run_for_themselves_and_get_no_old_answers(
    site_at: Callable[[str], Site],
) -> None:
    ports = Ports.free()
    site = site_at(f"127.0.0.1:{ports.gateway}")
    await site.open()
    workers = site.workers(1, "book")
    try:
        with Broker(ports=ports, controlled_clock=False):
            async with _begun(site):
                workers.start_all()
                await _reach(site, _DONE, _COUNT)
                await workers.dismiss(workers.places[0])
        async with plain(site.harness_dsn) as connection:
            before = await connection.fetch(_FRAMES)
        with Broker(ports=ports, controlled_clock=False):
            async with _begun(site) as (_, known):
                workers.start_all()
                await _reach(site, _QUARANTINED, _COUNT)
                await _reach(site, _EFFECTS, 2 * _COUNT)
                await workers.dismiss(workers.places[0])
    finally:
        workers.end_all()

    async with plain(site.harness_dsn) as connection:
        conflicts = await connection.fetch("SELECT job_key, delivery->>'instance_uid' FROM verbworker.frame_conflict")
        replays = await connection.fetchval("SELECT count(*) FROM verbworker.frame_event WHERE kind = 'replay'")
        effects = await connection.fetchval("SELECT count(*) FROM ledger")
        archived = await connection.fetch(_FRAMES.replace("job_frame", "job_frame_archive"))
    assert {row[0] for row in conflicts} == {row["job_key"] for row in before}
    assert {UUID(row[1]) for row in conflicts} == known
    assert (replays, effects) == (0, 2 * _COUNT)
    assert archived == before
