"""The official `camunda-orchestration-sdk`: `official.py REST_ADDRESS JOB_TYPE JOBS IN_FLIGHT`."""

import asyncio
import logging
import os
import sys
from typing import Any

from bench.contenders.meter import Meter


async def main(job_type: str, jobs: int, in_flight: int) -> None:
    """Complete the jobs with an empty handler."""
    from camunda_orchestration_sdk import CamundaAsyncClient, WorkerConfig

    meter, done = Meter(jobs), asyncio.Event()
    async with CamundaAsyncClient() as client:
        complete: Any = client.complete_job

        async def completed(*args: Any, **kwargs: Any) -> Any:
            answer = await complete(*args, **kwargs)
            if meter.acked(int(kwargs.get("job_key", args[0] if args else 0))):
                done.set()
            return answer

        client.complete_job = completed  # the only way to see the acknowledgement

        async def handle(job: Any) -> dict[str, Any]:
            meter.took(int(job.job_key))
            meter.ran()
            return dict(job.variables.to_dict())

        meter.begin()
        client.create_job_worker(
            WorkerConfig(
                job_type=job_type,
                job_timeout_milliseconds=60_000,
                max_concurrent_jobs=in_flight,
                fetch_variables=["domain_payload", "domain_payload_hash"],
            ),
            handle,
            execution_strategy="async",
        )
        working = asyncio.ensure_future(client.run_workers())
        await done.wait()
        meter.tell()
        working.cancel()
        os._exit(0)  # its workers take long to notice


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    os.environ["CAMUNDA_REST_ADDRESS"] = f"http://{sys.argv[1]}/v2"
    os.environ["CAMUNDA_AUTH_STRATEGY"] = "NONE"
    asyncio.run(main(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
