"""One chaos run: workers under load, a nemesis, rest, and what the oracle finds afterwards."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.chaos.nemesis import Nemesis, Plan
from tests.chaos.oracle import Findings, consult
from tests.chaos.site import Site
from tests.chaos.stuck import at_rest
from tests.chaos.workers import WORKER, Death
from tests.support.postgres import Postgres
from tests.support.zeebe import Broker

WORKERS = 4
SEED = "CHAOS_SEED"
"""The environment variable that repeats a run's dice; what the machine does in between it cannot repeat."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done to a run and what became of it."""

    faults: Counter[str]
    findings: Findings
    deaths: list[Death]
    bugs: list[str]
    worked: int


async def chaos(
    site: Site,
    server: Postgres,
    cluster: Broker,
    plan: Plan,
    *,
    instances: int,
    seconds: float,
    command: Sequence[str] = WORKER,
    share: float = 1.0,
    **settings: str,
) -> Outcome:
    """Start `instances` spread over `seconds`, let the nemesis loose, wait until a share has arrived and count."""
    workers = site.workers(WORKERS, "book", "send", command=command, **settings)
    seed = int(os.environ.get(SEED, random.randrange(1_000_000)))
    try:
        async with site.load("book", "send") as load, asyncio.TaskGroup() as tasks:
            nemesis = Nemesis(plan, workers, load.calm, server, cluster, site.harness_dsn, seed)
            workers.start_all()
            watching = [tasks.create_task(workers.supervise()), tasks.create_task(workers.count())]
            starting = tasks.create_task(load.start(instances, pause=seconds / instances))
            await nemesis.run(lambda: load.arrived / instances)
            await starting
            await at_rest(workers, site.harness_dsn, [load], nemesis.log, share=share, broker=cluster)
            for task in watching:
                task.cancel()
            findings = await consult(load, site.provider, site.harness_dsn)
    finally:
        workers.end_all()
    ambiguous = workers.total("verbworker_ambiguous_commits_total")
    print(findings, dict(nemesis.counts), f"ambiguous commits {ambiguous:g}", *workers.deaths, sep="\n")
    return Outcome(nemesis.counts, findings, workers.deaths, workers.bugs(), workers.worked())
