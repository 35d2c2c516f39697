"""Workers that leave in order, and workers that a verb takes down: the rest goes on as if nothing had happened."""

import asyncio
from typing import Any

import pytest

from tests.chaos.load import loaded
from tests.chaos.oracle import consult
from tests.chaos.site import Site
from tests.chaos.stuck import at_rest
from tests.chaos.verbs import APP, WORK, app_of
from tests.support.databases import plain
from verbworker.errors import JobNotActive
from verbworker.job.outcome import NO_RESULT

pytestmark = [pytest.mark.zeebe, pytest.mark.timeout(600)]

# Long enough that no lease runs out by itself, so that one which does was abandoned.
_CALM = {"VERBWORKER_LEASE": "15", "VERBWORKER_ENGINE_TIMEOUT": "20", WORK: "0.1:0.6"}


@pytest.mark.parametrize("instances", [150, pytest.param(1000, marks=pytest.mark.long)])
async def test_workers_restarted_one_after_the_other_under_load_lose_nothing_and_leave_nothing_behind(
    site: Site, instances: int
) -> None:
    workers = site.workers(3, "book", "send", **_CALM)
    codes: list[int] = []
    try:
        async with site.load("book", "send") as load, asyncio.TaskGroup() as tasks:
            workers.start_all()
            await workers.all_ready()
            starting = tasks.create_task(load.start(instances, pause=0.1))
            while not starting.done():
                for place in workers.places:
                    await load.reach(min(load.arrived + 5, instances))
                    codes.append(await workers.dismiss(place))
                    workers.start(place)
                    await workers.ready(place)
            await at_rest(workers, site.harness_dsn, [load])
            found = await consult(load, site.provider, site.harness_dsn)
    finally:
        workers.end_all()

    assert len(codes) >= len(workers.places)
    assert set(codes) == {0}
    assert (found.lost, found.booked_twice, found.provider.repeated, found.differing) == (0, 0, 0, 0)
    assert (found.takeovers, found.fenced, found.spent_retries, found.incidents) == (0, 0, 0, 0)
    assert workers.bugs() == []


@pytest.mark.req("M-04", "FAIL-05")
async def test_a_verb_that_kills_its_worker_becomes_an_incident_and_harms_nobody_else(site: Site) -> None:
    bad = f"{site.domain}-bad"
    app = app_of({site.domain: ("book", "send"), bad: ("poison",)})
    workers = site.workers(2, **{APP: app})
    try:
        async with (
            site.load("book", "send") as load,
            loaded(bad, ("poison",), site.harness_dsn, site.address, first=1_000_000) as poison,
            asyncio.TaskGroup() as tasks,
        ):
            workers.start_all()
            await workers.all_ready()
            supervising = tasks.create_task(workers.supervise())
            await load.start(20)
            await poison.start(2)
            await load.start(20)
            async with asyncio.timeout(240):
                frames = await _poisoned(site, count=2)
            await at_rest(workers, site.harness_dsn, [load])
            supervising.cancel()
            found = await consult(load, site.provider, site.harness_dsn)
            for frame in frames:
                with pytest.raises(JobNotActive):
                    await load.engine.complete(frame["job_key"], NO_RESULT)
    finally:
        workers.end_all()

    assert [(frame["fail_code"], frame["runs"]) for frame in frames] == [("CrashLoop", 2)] * 2
    assert {death.code for death in workers.deaths} == {3}
    assert (found.lost, found.booked_twice, found.provider.most_keys, found.differing) == (0, 0, 1, 0)
    assert (found.spent_retries, found.incidents) == (0, 2)


async def _poisoned(site: Site, count: int) -> list[dict[str, Any]]:
    """The frames in an incident that the engine knows of, as soon as there are so many."""
    while True:
        async with plain(site.harness_dsn) as connection:
            rows = await connection.fetch(
                "SELECT job_key, fail_code, runs FROM verbworker.job_frame"
                " WHERE state = 'incident' AND reported_at IS NOT NULL"
            )
        if len(rows) >= count:
            return [dict(row) for row in rows]
        await asyncio.sleep(0.5)
