"""One service task, all the way through each real engine, over pyzeebe's own stubs."""

import asyncio
from collections.abc import Callable

import grpc
import pytest

from tests.support.client import connected
from tests.support.engines import Gateway
from tests.support.models import one_task, timer_then_task


async def test_a_job_goes_from_deployment_to_the_end_of_its_process(
    gateway: Gateway, unique: Callable[[str], str]
) -> None:
    process, job_type = unique("round-trip"), unique("document.solicit")
    async with connected(gateway.address) as client, asyncio.TaskGroup() as tasks:
        await client.deploy(process, one_task(process, job_type))
        ending = tasks.create_task(client.result(process, {"asked": "passport"}))
        (job,) = await client.activate(job_type)
        await client.complete(job.key, {"answer": "received"})

    assert (job.bpmnProcessId, job.elementId, job.retries) == (process, "task", 3)
    assert ending.result() == {"asked": "passport", "answer": "received"}


async def test_a_completed_job_is_gone(gateway: Gateway, unique: Callable[[str], str]) -> None:
    process, job_type = unique("round-trip"), unique("document.solicit")
    async with connected(gateway.address) as client:
        await client.deploy(process, one_task(process, job_type))
        await client.start(process)
        (job,) = await client.activate(job_type)
        await client.complete(job.key)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await client.complete(job.key)

    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_moving_the_clock_fires_a_timer(gateway: Gateway, unique: Callable[[str], str]) -> None:
    process, job_type = unique("time-travel"), unique("document.remind")
    async with connected(gateway.address) as client:
        await client.deploy(process, timer_then_task(process, "PT30M", job_type))
        await client.start(process)
        before = await client.activate(job_type, wait=-1)
        await asyncio.to_thread(gateway.advance, 1801)
        after = await client.activate(job_type)

    assert (len(before), len(after)) == (0, 1)
