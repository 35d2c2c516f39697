"""One kill -9 at each crash point of a job's life, in a real worker process, for both modes."""

import asyncio
import itertools
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from tests.chaos.load import loaded
from tests.chaos.site import Site
from tests.chaos.stuck import at_rest
from tests.chaos.verbs import APP, WORK, app_of
from tests.support.databases import plain
from verbworker.job.failpoint import VARIABLE, Point

pytestmark = [pytest.mark.zeebe, pytest.mark.timeout(600)]


@dataclass(frozen=True, slots=True)
class Cut:
    """One life that is cut: where, and in which mode of verb."""

    number: int
    point: Point
    mode: str

    @property
    def verb(self) -> str:
        """The verb that gets to this point: only one that fails passes the point after a failure."""
        verb = "book" if self.mode == "transactional" else "send"
        return f"falter-{verb}" if self.point is Point.FAILED else verb

    def __str__(self) -> str:
        return f"{self.point}, {self.mode}"


CUTS = [
    Cut(number, point, mode)
    for number, (point, mode) in enumerate(itertools.product(Point, ("transactional", "external")))
]


async def _killed(site: Site) -> dict[str, int]:
    """Run one instance per cut on a worker that dies there, and then all of them on one that does not."""
    domains = {cut: f"{site.domain}-{cut.number}" for cut in CUTS}
    workers = site.workers(len(CUTS) + 1, **{WORK: "0:0"})
    await site.open()
    try:
        async with AsyncExitStack() as stack:
            loads = [
                await stack.enter_async_context(
                    loaded(domains[cut], [cut.verb], site.harness_dsn, site.address, first=cut.number)
                )
                for cut in CUTS
            ]
            for cut, place in zip(CUTS, workers.places, strict=False):
                workers.start(place, **{APP: app_of({domains[cut]: [cut.verb]}), VARIABLE: f"{cut.point}:kill"})
            for load in loads:
                await load.start(1)
            codes = await asyncio.gather(*(workers.died(place) for place in workers.places[:-1]))
            workers.start(workers.places[-1], **{APP: app_of({domains[cut]: [cut.verb] for cut in CUTS})})
            await at_rest(workers, site.harness_dsn, loads)
    finally:
        workers.end_all()
    return {str(cut): code for cut, code in zip(CUTS, codes, strict=True)}


@pytest.mark.req("JOB-01", "JOB-13", "TST-10", "X-08", "EVO-02", "EVO-03")
async def test_a_worker_killed_at_any_point_of_a_jobs_life_leaves_one_effect(site: Site) -> None:
    codes = await _killed(site)

    async with plain(site.harness_dsn) as connection:
        booked = {row[0]: row[1] for row in await connection.fetch("SELECT number, count(*) FROM ledger GROUP BY 1")}
        frames = await connection.fetch("SELECT state, acked_at IS NOT NULL AS acked FROM verbworker.job_frame")
    seen = site.provider.seen()
    assert codes == {str(cut): -9 for cut in CUTS}
    assert booked == {cut.number: 1 for cut in CUTS if cut.mode == "transactional"}
    assert {number: len(keys) for number, keys in seen.keys.items()} == {
        cut.number: 1 for cut in CUTS if cut.mode == "external"
    }
    assert seen.repeated == 2, "the calls before POP and before the failure were lost, and repeated under their key"
    assert {tuple(row) for row in frames} == {("completed", True)}
