"""verbworker, as `verbworker worker` runs it: `ours.py ADDRESS DSN DOMAIN JOBS IN_FLIGHT external|transactional`."""

import asyncio
import logging
import sys
from typing import Any, Literal

from pydantic import BaseModel

from bench.contenders.meter import Meter
from bench.contenders.model import workflow
from verbworker.app import wiring as app
from verbworker.app.settings import Settings
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import Ask
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.job.job import Job
from verbworker.job.outcome import JobResult


class Case(BaseModel):
    """What the empty verb sees of the payload."""

    text: str


class Metered(ZeebeEngine):
    """Zeebe, with arrivals and acknowledgements noted."""

    def __init__(self, address: str, meter: Meter, done: asyncio.Event) -> None:
        super().__init__(GatewayAddress(address=address), engine_id="bench")
        self._meter = meter
        self._done = done

    async def activate(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        jobs = await super().activate(ask, limit, wait_ms)
        for job in jobs:
            self._meter.took(job.key)
        return jobs

    async def stream(self, ask: Ask) -> Any:
        async for job in super().stream(ask):
            self._meter.took(job.key)
            yield job

    async def complete(self, job_key: int, result: JobResult, *, lease_token: str | None = None) -> None:
        await super().complete(job_key, result, lease_token=lease_token)
        if self._meter.acked(job_key):
            self._done.set()


def registry(domain: str, mode: Literal["external", "transactional"], in_flight: int, meter: Meter) -> Registry:
    """One empty verb."""
    verbs = Registry()

    @verbs.verb(f"{domain}.go", mode=mode, writes=(), concurrency=in_flight)
    async def go(case: Case) -> Case:
        """Do nothing."""
        meter.ran()
        return case

    verbs.declare(workflow(domain))
    return verbs


async def main(address: str, dsn: str, domain: str, jobs: int, in_flight: int, mode: str) -> None:
    """Complete the jobs with an empty verb."""
    meter, done = Meter(jobs), asyncio.Event()
    verbs = registry(domain, "transactional" if mode == "transactional" else "external", in_flight, meter)
    settings = Settings(dsn=dsn, engine_id="bench", http_port=0, poll_wait=2)  # type: ignore[arg-type]
    async with app.open_app(settings, verbs, Metered(address, meter, done)) as opened:
        app.keep_for_good()
        meter.begin()
        await opened.run(done)
    meter.tell()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]))
