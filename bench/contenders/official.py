"""The official `camunda-orchestration-sdk`: `official.py REST_ADDRESS JOB_TYPE JOBS IN_FLIGHT`."""

import asyncio
import json
import os
import sys
from typing import Any

import httpx

from bench.contenders.meter import Meter

# What an 8.6 broker leaves out of a job and the SDK insists on.
_ABSENT: dict[str, object] = {
    "kind": "BPMN_ELEMENT",
    "listenerEventType": "UNSPECIFIED",
    "userTask": None,
    "tags": [],
    "rootProcessInstanceKey": None,
}
_KEYS = ("processInstanceKey", "processDefinitionKey", "elementInstanceKey")


class Fitted:
    """The SDK's own transport, with the jobs of an 8.6 broker told in the words that the SDK reads.

    It costs the SDK one JSON pass per poll, a few hundredths of a millisecond per job.
    """

    def __init__(self) -> None:
        self._transport: Any = httpx.AsyncHTTPTransport()
        self.aclose = self._transport.aclose

    async def __aenter__(self) -> "Fitted":
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *reason: Any) -> None:
        await self._transport.__aexit__(*reason)

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request; an answer with jobs is put into newer words."""
        answer = await self._transport.handle_async_request(request)
        if not request.url.path.endswith("/jobs/activation") or answer.status_code != httpx.codes.OK:
            return answer
        told = json.loads(await answer.aread())
        await answer.aclose()
        return httpx.Response(answer.status_code, json={"jobs": [_newer(job) for job in told["jobs"]]})


def _newer(job: dict[str, Any]) -> dict[str, Any]:
    keys = {name: str(job[name]) for name in _KEYS}
    return {**_ABSENT, **job, **keys, "jobKey": str(job["key"])}


class Silent:
    """A logger that says nothing: by default the SDK writes lines for every job."""

    def debug(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Nothing."""

    info = warning = trace = debug

    def error(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """What goes wrong is told, or a run that waits for ever could not be explained."""
        sys.stderr.write(f"{msg[:300]}\n")


async def main(job_type: str, jobs: int, in_flight: int) -> None:
    """Complete the jobs with an empty handler."""
    from camunda_orchestration_sdk import CamundaAsyncClient, WorkerConfig

    meter, done = Meter(jobs), asyncio.Event()
    async with CamundaAsyncClient(logger=Silent(), httpx_args={"transport": Fitted()}) as client:
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
        meter.begin()
        working = asyncio.ensure_future(client.run_workers())
        await done.wait()
        meter.tell()
        working.cancel()
        os._exit(0)  # its workers take long to notice


if __name__ == "__main__":
    os.environ["CAMUNDA_REST_ADDRESS"] = f"http://{sys.argv[1]}/v2"
    os.environ["CAMUNDA_AUTH_STRATEGY"] = "NONE"
    asyncio.run(main(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
