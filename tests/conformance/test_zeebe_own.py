"""What Zeebe does and the embedded engine does not."""

from collections.abc import AsyncIterator, Callable

import pytest
from pyzeebe.proto import gateway_pb2 as pb

from tests.support.client import connected
from tests.support.engines import GATEWAYS, Gateway, RestPlace
from tests.support.zeebe_engine import WAIT_MS, Bench, zeebe
from tests.support.zeebe_models import sequence

ON = (*GATEWAYS, "zeebe-rest")


@pytest.fixture
async def bench(gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[Bench]:
    async with zeebe(gateway.address) as engine:
        yield Bench(engine, unique("case"), unique("kyc.check"))


async def test_an_engine_says_what_it_is(bench: Bench) -> None:
    facts = await bench.engine.facts()

    assert facts.version.split(".")[:1] == ["8"]
    assert (facts.brokers, facts.partitions) == (1, 1)


async def test_a_variable_that_breaks_polls_is_harmless_while_nobody_asks_for_it(
    bench: Bench, gateway: Gateway
) -> None:
    await bench.deploy(sequence(bench.process, bench.job_type))
    # Deeper than any gateway writes as JSON: a poll that fetched it would never be answered.
    deep = '{"orch_ok":true,"deep":' + "[" * 1010 + "]" * 1010 + "}"
    beside = gateway.broker if isinstance(gateway, RestPlace) else gateway
    async with connected(beside.address) as client:
        request = pb.CreateProcessInstanceRequest(bpmnProcessId=bench.process, version=-1, variables=deep)
        await client.stub.CreateProcessInstance(request, timeout=WAIT_MS / 1000)
    (job,) = await bench.engine.activate(bench.ask(variables=("orch_ok",)), 1, WAIT_MS)

    assert job.variables == {"orch_ok": True}


async def test_new_retries_alone_leave_the_incident(bench: Bench) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type))
    await bench.engine.fail(job.key, retries=0, message="x")
    await bench.engine.release(job.key, retries=3)

    assert await bench.nothing_to_take()
