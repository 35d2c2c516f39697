"""How long jobs of a killed worker wait, on a broker whose timeouts are made useless: `python -m tests.chaos.recovery`.

One worker holds many jobs, each with an engine timeout of an hour, and is killed with SIGKILL. Another one is idle
beside it. What brings the jobs over is the sweep alone.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median, quantiles
from uuid import uuid4

from tests.chaos.load import ENGINE_ID
from tests.chaos.provider import Provider
from tests.chaos.site import Site
from tests.chaos.stuck import rest, story
from tests.chaos.verbs import WORK
from tests.support.databases import plain, value
from tests.support.errors import Broken, Unavailable
from tests.support.postgres import Postgres, Template
from tests.support.zeebe import Broker
from verbworker.app.settings import Settings

_HOUR = "3600"
_RUNNING = "SELECT count(*) FROM verbworker.job_frame WHERE state = 'started'"
_AGAIN = """
SELECT event.at
FROM verbworker.frame_event AS event
WHERE event.engine_id = $1 AND event.kind IN ('retry', 'takeover')
ORDER BY event.at
"""


@dataclass(frozen=True, slots=True)
class Recovery:
    """How long after the kill each job began to run elsewhere, and what was promised."""

    seconds: Sequence[float]
    lease: float
    arrived: int

    @property
    def promise(self) -> float:
        """Lease, grace and one look of the sweep, in seconds."""
        return self.lease + _seconds("sweep_grace") + _seconds("sweep_every")

    def __str__(self) -> str:
        took = sorted(self.seconds)
        cuts = quantiles(took, n=100) if len(took) > 1 else took * 99
        return (
            f"jobs={len(took)} lease={self.lease:g} first={took[0]:.2f} median={median(took):.2f} p90={cuts[89]:.2f}"
            f" p99={cuts[98]:.2f} last={took[-1]:.2f} promised={self.promise:g}"
        )


def _seconds(setting: str) -> float:
    default: timedelta = Settings.model_fields[setting].default
    return default.total_seconds()


async def recover(site: Site, *, jobs: int, lease: float, **settings: str) -> Recovery:
    """Kill a worker with `jobs` under way and wait until all of them have run on another."""
    times = {"VERBWORKER_LEASE": str(lease), "VERBWORKER_ENGINE_TIMEOUT": _HOUR}
    workers = site.workers(2, "stand", **times, **settings)
    doomed, heir = workers.places
    try:
        async with site.load("stand") as load:
            workers.start(doomed, **{WORK: f"{_HOUR}:{_HOUR}"})
            await workers.ready(doomed)
            await load.start(jobs)

            async def running() -> tuple[object, ...]:
                return (await value(site.harness_dsn, _RUNNING),)

            async def arrived() -> tuple[object, ...]:
                return (load.arrived,)

            async def tell() -> str:
                return await story(workers, site.harness_dsn, [])

            await rest(running, lambda seen: seen == (jobs,), tell)
            workers.start(heir, **{WORK: "0:0"})
            await workers.ready(heir)
            killed_at = await value(site.harness_dsn, "SELECT clock_timestamp()")
            workers.kill(doomed)
            await rest(arrived, lambda seen: seen == (jobs,), tell)
            async with plain(site.harness_dsn) as connection:
                began = [row["at"] for row in await connection.fetch(_AGAIN, ENGINE_ID)]
    finally:
        workers.end_all()
    return Recovery([(at - killed_at).total_seconds() for at in began], lease, load.arrived)


async def _run(jobs: int, lease: float) -> Recovery:
    with tempfile.TemporaryDirectory(prefix="verbworker-recovery-") as directory:
        server = Postgres({"fsync": "on"}).start()
        template = Template(server.dsn)
        template.build()
        try:
            with (
                Broker(controlled_clock=False) as broker,
                template.clone() as dsn,
                Provider(Path(directory)) as provider,
            ):
                site = Site(dsn, broker.address, provider, f"recovery-{uuid4().hex[:6]}", Path(directory))
                return await recover(site, jobs=jobs, lease=lease)
        finally:
            template.drop()
            server.stop()


def main(arguments: Sequence[str]) -> int:
    """Print the distribution; 1 when a job came later than promised, 2 when nothing could be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--lease", type=float, default=_seconds("lease"))
    given = parser.parse_args(arguments)
    try:
        found = asyncio.run(_run(given.jobs, given.lease))
    except (Unavailable, Broken) as reason:
        print(reason, file=sys.stderr)
        return 2
    print(found)
    is_kept = len(found.seconds) == given.jobs and max(found.seconds) <= found.promise + given.lease / 10
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
