"""The negative control: a bare loop that takes jobs, has the effect and completes. It remembers nothing."""

import asyncio
import json
import os
import random
import secrets
from typing import Any

import asyncpg
import grpc
from pyzeebe.proto import gateway_pb2 as messages
from pyzeebe.proto.gateway_pb2_grpc import GatewayStub

from tests.chaos.provider import call_provider
from tests.chaos.verbs import APP, PROVIDER, WORK
from verbworker.job.job import PAYLOAD

_AT_ONCE = 8


async def work() -> None:
    """Work for both verbs until killed."""
    domain, _, _ = os.environ[APP].partition("=")
    async with (
        asyncpg.create_pool(os.environ["VERBWORKER_DSN"], min_size=1, max_size=_AT_ONCE) as pool,
        grpc.aio.insecure_channel(os.environ["ZEEBE_ADDRESS"]) as channel,
        asyncio.TaskGroup() as loops,
    ):
        stub: Any = GatewayStub(channel)  # grpc ships no types
        loops.create_task(_loop(stub, pool, f"{domain}.book"))
        loops.create_task(_loop(stub, pool, f"{domain}.send"))


async def _loop(stub: Any, pool: Any, job_type: str) -> None:
    timeout = round(float(os.environ["VERBWORKER_ENGINE_TIMEOUT"]) * 1000)
    request = messages.ActivateJobsRequest(
        type=job_type, worker="naive", timeout=timeout, maxJobsToActivate=_AT_ONCE, requestTimeout=2_000
    )
    while True:
        try:
            jobs = [job async for answer in stub.ActivateJobs(request, timeout=10) for job in answer.jobs]
        except grpc.aio.AioRpcError:
            await asyncio.sleep(0.2)
            continue
        await asyncio.gather(*(_perform(stub, pool, job) for job in jobs))


async def _perform(stub: Any, pool: Any, job: Any) -> None:
    number = json.loads(json.loads(job.variables)[PAYLOAD])["data"]["number"]
    try:
        if job.type.endswith(".book"):
            await pool.execute("INSERT INTO ledger (number) VALUES ($1)", number)
        else:
            await call_provider(os.environ[PROVIDER], number, secrets.token_hex(8), 0)
        least, _, most = os.environ[WORK].partition(":")
        await asyncio.sleep(random.uniform(float(least), float(most)))
        await stub.CompleteJob(messages.CompleteJobRequest(jobKey=job.key), timeout=10)
    except (grpc.aio.AioRpcError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        return  # the engine delivers it again


if __name__ == "__main__":
    asyncio.run(work())
