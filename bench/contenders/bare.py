"""Bare pyzeebe, as its documentation shows it: `bare.py ADDRESS JOB_TYPE JOBS IN_FLIGHT poll|stream`."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from typing import Any

from pyzeebe import ZeebeWorker, create_insecure_channel

from bench.contenders.meter import Meter


def watch(worker: ZeebeWorker, meter: Meter, done: asyncio.Event) -> None:
    """Note when jobs arrive and when their completion was acknowledged; there is no other way to see it."""
    adapter: Any = worker.zeebe_adapter
    complete, activate, stream = adapter.complete_job, adapter.activate_jobs, adapter.stream_activate_jobs

    async def completed(job_key: int, variables: Any) -> Any:
        answer = await complete(job_key=job_key, variables=variables)
        if meter.acked(job_key):
            done.set()
        return answer

    async def noted(source: Any, args: Any, kwargs: Any) -> AsyncIterator[Any]:
        async for job in source(*args, **kwargs):
            meter.took(job.key)
            yield job

    adapter.complete_job = completed
    adapter.activate_jobs = lambda *args, **kwargs: noted(activate, args, kwargs)
    adapter.stream_activate_jobs = lambda *args, **kwargs: noted(stream, args, kwargs)


async def main(address: str, job_type: str, jobs: int, in_flight: int, streaming: bool) -> None:
    """Complete the jobs with an empty task."""
    meter, done = Meter(jobs), asyncio.Event()
    channel = create_insecure_channel(grpc_address=address)
    # Tuned in its favour: by default it sleeps 5 s whenever all its places are taken.
    delay: Any = 0.01
    worker = ZeebeWorker(channel, max_connection_retries=-1, stream_enabled=streaming, poll_retry_delay=delay)

    task_of: Any = worker.task  # its types do not accept what its documentation shows

    async def task(domain_payload: str, domain_payload_hash: str) -> dict[str, Any]:
        meter.ran()
        return {"domain_payload": domain_payload, "domain_payload_hash": domain_payload_hash}

    task_of(task_type=job_type, max_jobs_to_activate=in_flight, max_running_jobs=in_flight, timeout_ms=60_000)(task)
    watch(worker, meter, done)
    meter.begin()
    working = asyncio.ensure_future(worker.work())
    await done.wait()
    meter.tell()
    working.cancel()
    await asyncio.wait([working], timeout=5)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5] == "stream"))
