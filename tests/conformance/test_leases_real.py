"""Leases on real engines that have none: the request is ignored, and everything works as without them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import pytest

from tests.support.connections import connection_to
from tests.support.engines import GATEWAYS, Gateway, RestPlace
from tests.support.zeebe_engine import Bench
from tests.support.zeebe_models import caught_error, sequence
from verbworker.engine.protocol import Start
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import JobGone
from verbworker.job.outcome import NO_RESULT
from verbworker.work.jobs.lease_tokens import redeliver

ON = (*GATEWAYS, "zeebe-rest")


@pytest.fixture
def takes_tokens(gateway: Gateway) -> None:
    """Only gRPC ignores a field that it does not know; over REST a token is sent to the cluster that gave it."""
    if isinstance(gateway, RestPlace):
        pytest.skip("a token over REST comes from a cluster that knows leases")


@pytest.fixture
async def bench(gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[Bench]:
    async with ZeebeEngine(connection_to(gateway.address), engine_id="test", leases=True) as engine:
        yield Bench(engine, unique("case"), unique("kyc.check"))


async def test_jobs_come_without_a_token_and_one_warning_says_so(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        first = await bench.running(sequence(bench.process, bench.job_type))
        await bench.start()
        second = await bench.take()

    assert (first.lease_token, second.lease_token) == (None, None)
    assert len([record for record in caplog.records if "leases are on" in record.message]) == 1


@pytest.mark.usefixtures("takes_tokens")
async def test_a_token_that_the_engine_never_gave_is_ignored(bench: Bench) -> None:
    """What 8.10 does for an unleased job is what older engines do for every job."""
    job = await bench.running(sequence(bench.process, bench.job_type))
    await bench.engine.extend(job.key, 60_000, lease_token="0")
    await bench.engine.fail(job.key, retries=2, message="again", lease_token="0")
    again = await bench.take()
    await bench.engine.complete(again.key, NO_RESULT, lease_token="0")

    assert (again.key, again.retries) == (job.key, 2)
    with pytest.raises(JobGone):
        await bench.engine.complete(job.key, NO_RESULT, lease_token="0")


@pytest.mark.usefixtures("takes_tokens")
async def test_an_error_with_a_token_is_thrown(bench: Bench) -> None:
    after = f"{bench.job_type}.after"
    job = await bench.running(caught_error(bench.process, bench.job_type, code="REFUSED", rescue=after))
    await bench.engine.throw(job.key, code="REFUSED", message="no", lease_token="0")

    assert (await bench.take(after)).process_instance_key == job.process_instance_key


@pytest.mark.usefixtures("takes_tokens")
async def test_a_stream_brings_jobs_without_a_token(bench: Bench) -> None:
    await bench.deploy(sequence(bench.process, bench.job_type))
    async with asyncio.timeout(60), aclosing(bench.engine.stream(bench.ask())) as pushed:
        first = asyncio.ensure_future(anext(pushed))
        # A job that is older than the stream is not pushed, so instances are started until one is.
        while not first.done():
            await bench.start()
            await asyncio.wait({first}, timeout=0.5)
        job = await first

    assert job.lease_token is None


async def test_a_business_id_starts_the_process_on_every_version(bench: Bench) -> None:
    await bench.deploy(sequence(bench.process, bench.job_type))
    started = await bench.engine.start(Start(bench.process, {}, business_id="entry-1"))

    assert (await bench.take()).process_instance_key == started.instance_key


async def test_the_shortest_timeout_has_a_job_delivered_again(bench: Bench, gateway: Gateway) -> None:
    """What `redeliver` does to a leased job; 8.10 was recorded to accept it without a token."""
    job = await bench.running(sequence(bench.process, bench.job_type))
    await redeliver(bench.engine, job.key)
    gateway.advance(2)

    again = await bench.take()

    assert (again.key, again.retries) == (job.key, job.retries)
    await bench.engine.complete(again.key, NO_RESULT)
