"""What each command does to a real engine: Zeebe's, or the embedded one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import orjson
import pytest

from tests.support.engines import GATEWAYS, Gateway
from tests.support.zeebe_engine import WAIT_MS, Bench, engine_at
from tests.support.zeebe_models import caught_error, message_wait, sequence
from verbworker.engine.protocol import Resource, Signal, Start
from verbworker.errors import JobGone, JobNotActive
from verbworker.job.outcome import NO_RESULT, JobResult

ON = ("embedded", *GATEWAYS, "zeebe-rest")


@pytest.fixture
async def bench(gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(engine_at(gateway))
        yield Bench(engine, unique("case"), unique("kyc.check"))


@pytest.mark.req("ADP-01")
async def test_a_deployed_model_gets_a_version_and_a_key(bench: Bench) -> None:
    model = sequence(bench.process, bench.job_type)
    (deployed,) = await bench.engine.deploy([Resource("case.bpmn", model)])

    assert (deployed.process_id, deployed.version, deployed.resource) == (bench.process, 1, "case.bpmn")
    assert deployed.definition_key > 0


async def test_the_same_bytes_keep_their_version_and_others_get_the_next(bench: Bench) -> None:
    first, again, other = [
        (await bench.engine.deploy([Resource("case.bpmn", sequence(bench.process, "x", header=header))]))[0]
        for header in ("one", "one", "two")
    ]

    assert (first.version, again.version, other.version) == (1, 1, 2)
    assert first.definition_key == again.definition_key != other.definition_key


@pytest.mark.req("ADP-02")
async def test_a_process_is_started_in_its_latest_version(bench: Bench) -> None:
    await bench.deploy(sequence(bench.process, bench.job_type, header="one"))
    latest = await bench.deploy(sequence(bench.process, bench.job_type, header="two"))
    started = await bench.engine.start(Start(bench.process, {}))

    assert (started.version, started.definition_key, started.process_id) == (2, latest, bench.process)


async def test_a_process_is_started_in_the_version_that_is_named(bench: Bench) -> None:
    first = await bench.deploy(sequence(bench.process, bench.job_type, header="one"))
    await bench.deploy(sequence(bench.process, bench.job_type, header="two"))
    started = await bench.engine.start(Start(bench.process, {}, version=1))

    assert (started.version, started.definition_key) == (1, first)


@pytest.mark.req("COR-07")
async def test_a_definition_key_pins_the_version_of_the_job_too(bench: Bench) -> None:
    first = await bench.deploy(sequence(bench.process, bench.job_type, header="one"))
    await bench.deploy(sequence(bench.process, bench.job_type, header="two"))
    started = await bench.engine.start(Start(bench.process, {}, definition_key=first))
    job = await bench.take()

    assert (started.version, started.process_id) == (1, bench.process)
    assert (job.process_version, job.process_definition_key, job.headers) == (1, first, {"team": "one"})


@pytest.mark.req("ADP-04", "JOB-02")
async def test_a_job_tells_where_it_comes_from(bench: Bench) -> None:
    definition = await bench.deploy(sequence(bench.process, bench.job_type))
    started = await bench.start()
    job = await bench.take()

    assert (job.type, job.process_id, job.element_id) == (bench.job_type, bench.process, "step0")
    assert (job.process_instance_key, job.process_definition_key) == (started.instance_key, definition)
    assert (job.retries, job.timeout_ms, job.process_version) == (3, 60_000, 1)
    assert job.element_instance_key > started.instance_key


async def test_a_job_brings_the_variables_that_were_asked_for_and_no_others(bench: Bench) -> None:
    await bench.deploy(sequence(bench.process, bench.job_type))
    await bench.start({"orch_ok": True, "orch_count": 3, "other": "x"})
    ask = bench.ask(variables=("orch_ok", "orch_count", "orch_absent"))
    (job,) = await bench.engine.activate(ask, 1, WAIT_MS)

    assert job.variables == {"orch_ok": True, "orch_count": 3}


@pytest.mark.req("M-11")
async def test_an_opaque_string_comes_back_byte_for_byte(bench: Bench) -> None:
    text = orjson.dumps({"z": 1.0, "a": "\x00 ☃ 𝄞 \\u0041", "n": -0.0}).decode() + " " * 3
    job = await bench.running(sequence(bench.process, bench.job_type), {"domain_payload": text})

    assert job.variables == {"domain_payload": text}


async def test_no_more_jobs_come_than_were_asked_for(bench: Bench) -> None:
    await bench.deploy(sequence(bench.process, bench.job_type))
    for _ in range(3):
        await bench.start()
    two = await bench.engine.activate(bench.ask(), 2, WAIT_MS)
    rest = await bench.engine.activate(bench.ask(), 2, WAIT_MS)

    assert (len(two), len(rest)) == (2, 1)


async def test_a_poll_without_a_wait_returns_empty_handed(bench: Bench) -> None:
    assert await bench.engine.activate(bench.ask(), 1, 0) == []


async def test_a_long_poll_wakes_up_when_a_job_arises(bench: Bench) -> None:
    await bench.deploy(sequence(bench.process, bench.job_type))
    assert await bench.nothing_to_take()
    async with asyncio.TaskGroup() as tasks:
        poll = tasks.create_task(bench.engine.activate(bench.ask(), 1, WAIT_MS))
        await bench.engine.facts()  # the poll has been sent before this answer comes
        started = await bench.start()

    assert [job.process_instance_key for job in poll.result()] == [started.instance_key]


@pytest.mark.req("ADP-06", "PAY-18")
async def test_completing_a_job_hands_its_variables_to_the_next(bench: Bench) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type, f"{bench.job_type}-2"))
    await bench.engine.complete(job.key, JobResult(b"{}", "sha256:0", {"orch_ok": True}, {"corr_case": "c-1"}))
    following = await bench.take(f"{bench.job_type}-2")

    assert following.variables == {
        "domain_payload": "{}",
        "domain_payload_hash": "sha256:0",
        "orch_ok": True,
        "corr_case": "c-1",
    }


@pytest.mark.req("FAIL-07")
async def test_a_job_that_was_completed_is_gone(bench: Bench) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type))
    await bench.engine.complete(job.key, NO_RESULT)
    with pytest.raises(JobGone, match=str(job.key)):
        await bench.engine.complete(job.key, NO_RESULT)
    with pytest.raises(JobGone):
        await bench.engine.fail(job.key, retries=1, message="late")
    with pytest.raises(JobGone):
        await bench.engine.throw(job.key, code="LATE", message="late")
    with pytest.raises(JobGone):
        await bench.engine.extend(job.key, 1000)
    with pytest.raises(JobGone):
        await bench.engine.release(job.key, retries=1)


@pytest.mark.req("FAIL-02", "M-03")
async def test_a_failed_job_comes_back_under_its_key_with_the_retries_it_was_given(bench: Bench) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type))
    await bench.engine.fail(job.key, retries=7, message="the registry did not answer")
    again = await bench.take()

    assert (again.key, again.retries) == (job.key, 7)


@pytest.mark.req("FAIL-08")
async def test_a_failed_job_rests_for_its_backoff(bench: Bench, gateway: Gateway) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type))
    await bench.engine.fail(job.key, retries=2, message="later", backoff_ms=600_000)
    with pytest.raises(JobNotActive, match="FAILED"):
        await bench.engine.complete(job.key, NO_RESULT)
    assert await bench.nothing_to_take()
    await asyncio.to_thread(gateway.advance, 601)

    assert (await bench.take()).key == job.key


@pytest.mark.req("FAIL-03", "FAIL-05", "FAIL-08")
async def test_a_job_without_retries_is_an_incident_until_it_is_released(bench: Bench) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type))
    await bench.engine.fail(job.key, retries=0, message="PermanentContract: hash")
    with pytest.raises(JobNotActive, match="FAILED"):
        await bench.engine.complete(job.key, NO_RESULT)
    assert await bench.nothing_to_take()
    await bench.incident_of(job)
    again = await bench.take()

    assert (again.key, again.retries) == (job.key, 1)


async def test_a_thrown_error_takes_the_path_that_catches_it(bench: Bench) -> None:
    rescue = f"{bench.job_type}-rescue"
    job = await bench.running(caught_error(bench.process, bench.job_type, code="REFUSED", rescue=rescue))
    await bench.engine.throw(job.key, code="REFUSED", message="the client is on a list")

    assert (await bench.take(rescue)).element_id == "rescue"


@pytest.mark.req("EVO-11")
async def test_a_thrown_error_that_nobody_catches_is_an_incident(bench: Bench) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type))
    await bench.engine.throw(job.key, code="NOBODY", message="x")

    with pytest.raises(JobNotActive, match="ERROR_THROWN"):
        await bench.engine.complete(job.key, NO_RESULT)


@pytest.mark.req("JOB-01", "FAIL-11", "M-04")
async def test_a_job_that_is_not_finished_in_time_is_delivered_again(bench: Bench, gateway: Gateway) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type))
    await asyncio.to_thread(gateway.advance, 61)
    again = await bench.take()

    assert (again.key, again.retries) == (job.key, job.retries)
    assert again.activated_ms >= job.activated_ms + 61_000


@pytest.mark.req("M-05")
async def test_a_late_worker_may_still_complete_a_job_that_another_holds(bench: Bench, gateway: Gateway) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type))
    await asyncio.to_thread(gateway.advance, 61)
    again = await bench.take()
    await bench.engine.complete(job.key, NO_RESULT)

    with pytest.raises(JobGone):
        await bench.engine.complete(again.key, NO_RESULT)


async def test_an_extended_job_is_not_delivered_again_yet(bench: Bench, gateway: Gateway) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type))
    await bench.engine.extend(job.key, 600_000)
    await asyncio.to_thread(gateway.advance, 300)
    assert await bench.nothing_to_take()
    await asyncio.to_thread(gateway.advance, 301)

    assert (await bench.take()).key == job.key


async def test_a_job_that_ran_out_of_time_cannot_be_extended(bench: Bench, gateway: Gateway) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type))
    await bench.engine.fail(job.key, retries=3, message="given back")
    with pytest.raises(JobNotActive, match="not active"):
        await bench.engine.extend(job.key, 1000)


@pytest.mark.req("ADP-05", "MSG-03", "MSG-09")
async def test_a_published_message_reaches_the_instance_that_waits_for_its_key(bench: Bench) -> None:
    await bench.deploy(message_wait(bench.process, bench.process, bench.job_type))
    await bench.start({"corr_key": "case-1"})
    await bench.engine.publish(Signal(bench.process, "case-1", "m-1", 60_000, {"orch_docs": True}))

    assert (await bench.take()).variables == {"corr_key": "case-1", "orch_docs": True}


@pytest.mark.req("MSG-04", "EVO-26")
async def test_an_early_message_waits_for_its_instance(bench: Bench) -> None:
    await bench.deploy(message_wait(bench.process, bench.process, bench.job_type))
    await bench.engine.publish(Signal(bench.process, "case-1", "m-1", 60_000, {}))
    started = await bench.start({"corr_key": "case-1"})

    assert (await bench.take()).process_instance_key == started.instance_key


@pytest.mark.req("M-02", "EVO-26")
async def test_a_message_that_is_published_again_counts_as_published_and_works_once(bench: Bench) -> None:
    await bench.deploy(message_wait(bench.process, bench.process, bench.job_type))
    signal = Signal(bench.process, "case-1", "m-1", 60_000, {})
    await bench.engine.publish(signal)
    await bench.engine.publish(signal)
    for _ in range(2):
        await bench.start({"corr_key": "case-1"})
    await bench.take()

    assert await bench.nothing_to_take()


async def test_an_instance_is_alive_until_it_ends_and_asking_changes_nothing(bench: Bench) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type, bench.job_type), {"orch_ok": True})
    before = [await bench.engine.alive(job.process_instance_key) for _ in range(2)]
    await bench.engine.complete(job.key, NO_RESULT)
    last = await bench.take()
    await bench.engine.complete(last.key, NO_RESULT)

    assert before == [True, True]
    assert last.variables == {"orch_ok": True}
    assert not await bench.engine.alive(job.process_instance_key)


async def test_the_key_of_an_element_is_no_instance(bench: Bench) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type), {})

    assert not await bench.engine.alive(job.element_instance_key)
    assert await bench.engine.alive(job.process_instance_key)


async def test_an_instance_that_waits_for_a_message_is_alive_until_it_is_cancelled(bench: Bench) -> None:
    await bench.deploy(message_wait(bench.process, "letter", bench.job_type))
    started = await bench.engine.start(Start(bench.process, {"corr_key": "k"}))
    before = await bench.engine.alive(started.instance_key)
    await bench.engine.cancel(started.instance_key)

    assert before
    assert not await bench.engine.alive(started.instance_key)


@pytest.mark.req("ADP-09", "CMP-06")
async def test_a_cancelled_instance_takes_its_job_along(bench: Bench) -> None:
    job = await bench.running(sequence(bench.process, bench.job_type))
    await bench.engine.cancel(job.process_instance_key)
    with pytest.raises(JobGone):
        await bench.engine.complete(job.key, NO_RESULT)
    with pytest.raises(JobGone):
        await bench.engine.cancel(job.process_instance_key)
