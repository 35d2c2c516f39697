"""A killed worker's jobs run elsewhere although the engine's timeout is an hour away: the sweep is the timer."""

import pytest

from tests.chaos.recovery import recover
from tests.chaos.site import Site
from tests.support.databases import plain

pytestmark = [pytest.mark.zeebe, pytest.mark.timeout(600)]


@pytest.mark.req("JOB-13", "X-08")
async def test_every_job_of_a_killed_worker_runs_elsewhere_long_before_the_engine_would_deliver_it(site: Site) -> None:
    found = await recover(site, jobs=100, lease=3.0)

    async with plain(site.harness_dsn) as connection:
        frames = await connection.fetch("SELECT state, runs FROM verbworker.job_frame")
        swept = await connection.fetchval(
            "SELECT count(DISTINCT job_key) FROM verbworker.frame_event WHERE kind = 'swept'"
        )
    print(found)
    assert (found.arrived, len(found.seconds)) == (100, 100)
    # A job whose first, short activation was not extended yet when its worker died is handed out by the engine itself.
    assert swept > 50
    assert {(row["state"], row["runs"]) for row in frames} == {("completed", 2)}
