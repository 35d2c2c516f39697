"""What a real broker refuses, and what we make of its reasons."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.support.engines import Gateway, RestPlace
from tests.support.zeebe_engine import WAIT_MS, Bench, zeebe
from tests.support.zeebe_models import calls, message_start, sequence
from verbworker.engine.protocol import Ask, Resource, Signal, Start
from verbworker.errors import CommandInvalid, JobGone
from verbworker.job.outcome import JobResult

ON = ("zeebe", "zeebe-rest")

MIB = 1024 * 1024


@pytest.fixture
async def bench(gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[Bench]:
    async with zeebe(gateway.address) as engine:
        yield Bench(engine, unique("case"), unique("kyc.check"))


@pytest.mark.req("M-07")
async def test_a_model_with_a_mistake_is_refused_with_the_brokers_own_reason(bench: Bench) -> None:
    with pytest.raises(CommandInvalid, match="step0 > extensionElements > taskDefinition"):
        await bench.deploy(sequence(bench.process, ""))


async def test_a_file_that_is_no_model_is_refused_with_its_name_and_line(bench: Bench) -> None:
    with pytest.raises(CommandInvalid, match=r"(?s)letter\.bpmn.*Line=1"):
        await bench.engine.deploy([Resource("letter.bpmn", b"Dear Sir")])


async def test_deploying_nothing_is_refused(bench: Bench) -> None:
    with pytest.raises(CommandInvalid, match=r"at least one resource|Required part 'resources'"):
        await bench.engine.deploy([])


async def test_one_bad_model_stops_the_good_ones_beside_it(bench: Bench) -> None:
    good = Resource("good.bpmn", sequence(bench.process, bench.job_type))
    with pytest.raises(CommandInvalid):
        await bench.engine.deploy([good, Resource("bad.bpmn", b"Dear Sir")])

    with pytest.raises(CommandInvalid, match="none found"):
        await bench.start()


async def test_an_unknown_process_is_a_mistake_and_not_a_job_that_is_gone(bench: Bench) -> None:
    with pytest.raises(CommandInvalid, match=f"process ID '{bench.process}', but none found"):
        await bench.start()


async def test_an_unknown_version_and_an_unknown_key_are_mistakes(bench: Bench) -> None:
    await bench.deploy(sequence(bench.process, bench.job_type))
    with pytest.raises(CommandInvalid, match="version '9'"):
        await bench.engine.start(Start(bench.process, {}, version=9))
    with pytest.raises(CommandInvalid, match="key '12345'"):
        await bench.engine.start(Start(bench.process, {}, definition_key=12345))


async def test_a_process_that_only_a_message_starts_cannot_be_created(bench: Bench) -> None:
    await bench.deploy(message_start(bench.process, bench.process))
    with pytest.raises(CommandInvalid, match="none start event"):
        await bench.start()


async def test_a_called_instance_is_cancelled_through_its_caller_only(bench: Bench) -> None:
    child = f"{bench.process}-child"
    await bench.engine.deploy([Resource("child.bpmn", sequence(child, bench.job_type))])
    await bench.deploy(calls(bench.process, child))
    await bench.start()
    job = await bench.take()
    with pytest.raises(CommandInvalid, match="created by a parent process instance"):
        await bench.engine.cancel(job.process_instance_key)


async def test_an_unknown_incident_is_gone(bench: Bench) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type))
    with pytest.raises(JobGone, match="no such incident"):
        await bench.engine.release(job.key, retries=2, incident_key=job.key + 1_000_000)


async def test_no_retries_are_no_release(bench: Bench) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type))
    with pytest.raises(CommandInvalid, match="positive amount of retries"):
        await bench.engine.release(job.key, retries=0)


async def test_variables_of_two_megabytes_pass_and_of_three_do_not(bench: Bench) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type, f"{bench.job_type}-2"))
    with pytest.raises(CommandInvalid, match="EXCEEDED_BATCH_RECORD_SIZE"):
        await bench.engine.complete(job.key, JobResult(b"x" * 3_000_000, ""))
    await bench.engine.complete(job.key, JobResult(b"x" * 2_000_000, ""))
    ask = bench.ask(f"{bench.job_type}-2", variables=("domain_payload",))
    (following,) = await bench.engine.activate(ask, 1, WAIT_MS)

    assert following.variables == {"domain_payload": "x" * 2_000_000}


async def test_variables_of_five_megabytes_are_refused(bench: Bench) -> None:
    """Over gRPC before they are sent, over REST by the gateway."""
    job = await bench.running(sequence(bench.process, bench.job_type))
    with pytest.raises(
        CommandInvalid, match=r"Sent message larger than max|above configured maxMessageSize.*under 1 MiB"
    ):
        await bench.engine.complete(job.key, JobResult(b"x" * 5_000_000, ""))


async def test_variables_of_five_megabytes_are_not_taken_by_the_gateway_either(bench: Bench, gateway: Gateway) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type))
    async with zeebe(gateway.address, max_message_bytes=8 * MIB) as generous:
        with pytest.raises(CommandInvalid, match=r"exceeds maximum size|above configured maxMessageSize"):
            await generous.complete(job.key, JobResult(b"x" * 5_000_000, ""))


async def test_large_jobs_come_in_as_many_answers_as_they_need(bench: Bench) -> None:
    await bench.deploy(sequence(bench.process, bench.job_type))
    for _ in range(4):
        await bench.start({"domain_payload": "x" * 1_500_000})
    jobs = await bench.everything(4)

    assert len({job.key for job in jobs}) == 4


@pytest.mark.parametrize("command", ["deploy", "start", "activate", "stream", "publish"])
async def test_a_tenant_on_a_cluster_without_tenants_is_explained(
    gateway: Gateway, unique: Callable[[str], str], command: str
) -> None:
    if command in ("stream", "activate") and isinstance(gateway, RestPlace):
        pytest.skip("REST has no streams, and that of 8.6.0 lets a poll name any tenant")
    name = unique("case")
    async with zeebe(gateway.address, tenant_ids=("acme",)) as engine:
        ask = Ask(name, "w", 1000, ())
        attempts: dict[str, Callable[[], Awaitable[object]]] = {
            "deploy": lambda: engine.deploy([Resource("a.bpmn", sequence(name, name))]),
            "start": lambda: engine.start(Start(name, {})),
            "activate": lambda: engine.activate(ask, 1, 0),
            "stream": lambda: anext(engine.stream(ask)),
            "publish": lambda: engine.publish(Signal(name, "k", "m", 1000, {})),
        }
        with pytest.raises(CommandInvalid, match=r"'acme'.*runs without multi-tenancy"):
            await attempts[command]()


async def test_a_poll_for_no_type_is_refused(bench: Bench) -> None:
    with pytest.raises(CommandInvalid, match=r"type to be present|No type provided"):
        await bench.engine.activate(Ask("", "w", 1000, ()), 1, 0)
