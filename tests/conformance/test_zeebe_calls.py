"""How calls to a gateway end when the gateway misbehaves: a gRPC server in this process plays it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from itertools import count
from typing import Any

import grpc
import pytest
from pyzeebe.proto import gateway_pb2 as pb

from tests.support.gateway_in_process import InProcessGateway, Polled, no_jobs, serving
from tests.support.told_outages import told_outage
from verbworker.background.outages import ENGINE
from verbworker.engine.protocol import Ask, Engine
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import (
    AccessDenied,
    AnswerTooLarge,
    CommandInvalid,
    ContractInvalid,
    EngineUnavailable,
)
from verbworker.job.job import Job
from verbworker.job.outcome import JobResult
from verbworker.work.feeds.feed import Feed
from verbworker.work.feeds.slots import Slot, Slots

ASK = Ask(type="kyc.check", worker="w", timeout_ms=60_000, variables=())


def answer(*keys: int, retries: int = 3, variables: str = "{}") -> pb.ActivateJobsResponse:
    deadline = round(time.time() * 1000) + ASK.timeout_ms
    jobs = [pb.ActivatedJob(key=key, retries=retries, deadline=deadline, variables=variables) for key in keys]
    return pb.ActivateJobsResponse(jobs=jobs)


class Silence:
    """A poll or a stream that says what it is told to, then nothing until its caller leaves."""

    def __init__(self, *answers: pb.ActivateJobsResponse) -> None:
        self._answers = answers
        self.reached = asyncio.Event()
        self.left = asyncio.Event()

    async def __call__(self, _: Any) -> AsyncIterator[pb.ActivateJobsResponse]:
        for one in self._answers:
            yield one
        self.reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()


def zeebe(connection: GatewayAddress) -> ZeebeEngine:
    return ZeebeEngine(connection, engine_id="test")


@asynccontextmanager
async def talking(
    polled: Polled = no_jobs, pushed: Polled | None = None, **settings: Any
) -> AsyncIterator[tuple[ZeebeEngine, InProcessGateway]]:
    """An open engine and the gateway it talks to; streams bring what polls do unless `pushed` is given."""
    connected = serving(polled=polled, pushed=pushed)
    async with connected as (address, gateway), zeebe(GatewayAddress(address, **settings)) as engine:
        yield engine, gateway


@pytest.mark.req("ADP-07")
async def test_it_is_an_engine() -> None:
    engine: Engine = zeebe(GatewayAddress())

    assert engine.engine_id == "test"


@pytest.mark.parametrize("name", ["", "  "])
def test_an_engine_without_a_name_is_refused(name: str) -> None:
    with pytest.raises(ContractInvalid, match="engine id"):
        ZeebeEngine(GatewayAddress(), engine_id=name)


async def test_an_engine_that_is_not_open_is_unavailable() -> None:
    with pytest.raises(EngineUnavailable, match="not open"):
        await zeebe(GatewayAddress()).facts()


async def test_opening_and_closing_twice_is_harmless() -> None:
    async with serving() as (address, _):
        engine = zeebe(GatewayAddress(address))
        async with engine, engine:
            assert (await engine.facts()).version == "8.6.0"
        with pytest.raises(EngineUnavailable):
            await engine.facts()


async def test_a_gateway_that_is_not_there_is_unavailable() -> None:
    async with zeebe(GatewayAddress("127.0.0.1:1")) as engine:
        with pytest.raises(EngineUnavailable) as met:
            await engine.facts()

    assert isinstance(met.value.__cause__, grpc.aio.AioRpcError)


async def test_a_poll_that_is_never_answered_meets_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verbworker.engine.zeebe.engine._POLL_GRACE_S", 0.1)
    silence = Silence()
    async with talking(silence) as (engine, _):
        with pytest.raises(EngineUnavailable, match="DEADLINE_EXCEEDED"):
            await engine.activate(ASK, 1, 100)


async def test_jobs_of_several_messages_are_one_answer() -> None:
    async def polled(_: Any) -> AsyncIterator[pb.ActivateJobsResponse]:
        yield answer(1, 2)
        yield answer(3)

    async with talking(polled) as (engine, _):
        jobs = await engine.activate(ASK, 5, 0)

    assert [job.key for job in jobs] == [1, 2, 3]


async def test_jobs_that_came_before_the_poll_broke_are_kept() -> None:
    async def polled(context: Any) -> AsyncIterator[pb.ActivateJobsResponse]:
        yield answer(1)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the partition lost its leader")

    async with talking(polled) as (engine, _):
        jobs = await engine.activate(ASK, 5, 0)

    assert [job.key for job in jobs] == [1]


async def test_one_unreadable_job_leaves_the_others_whole() -> None:
    async def polled(_: Any) -> AsyncIterator[pb.ActivateJobsResponse]:
        yield answer(1, variables='{"orch_ok":true}')
        yield answer(2, variables="[not json")
        yield answer(3, variables='{"orch_ok":true}')

    async with talking(polled) as (engine, _):
        jobs = await engine.activate(ASK, 5, 0)

    assert [dict(job.variables) for job in jobs] == [{"orch_ok": True}, {}, {"orch_ok": True}]


async def test_an_answer_larger_than_we_take_is_not_backpressure() -> None:
    async def polled(_: Any) -> AsyncIterator[pb.ActivateJobsResponse]:
        yield answer(1, variables='{"a":"' + "x" * 200_000 + '"}')

    async with talking(polled, max_message_bytes=100_000) as (engine, _):
        with pytest.raises(AnswerTooLarge, match="fewer jobs"):
            await engine.activate(ASK, 1, 0)


async def test_a_command_larger_than_we_send_is_invalid() -> None:
    async with talking(max_message_bytes=100_000) as (engine, _):
        with pytest.raises(CommandInvalid, match="too large"):
            await engine.complete(1, JobResult(b"x" * 200_000, ""))


async def test_a_call_that_the_gateway_does_not_offer_is_said_clearly() -> None:
    async with talking() as (engine, _):
        with pytest.raises(CommandInvalid, match="not a Zeebe gateway"):
            await engine.cancel(1)


async def test_closing_the_engine_ends_a_poll_without_cancelling_its_task() -> None:
    silence = Silence()
    async with serving(polled=silence) as (address, _), asyncio.TaskGroup() as tasks:
        engine = zeebe(GatewayAddress(address))
        async with engine:
            poll = tasks.create_task(_outcome(engine.activate(ASK, 1, 60_000)))
            await silence.reached.wait()

    assert isinstance(poll.result(), EngineUnavailable)


async def test_closing_the_engine_ends_a_stream_without_cancelling_its_task() -> None:
    silence = Silence()
    async with serving(polled=silence) as (address, _), asyncio.TaskGroup() as tasks:
        engine = zeebe(GatewayAddress(address))
        async with engine:
            read = tasks.create_task(_outcome(anext(engine.stream(ASK))))
            await silence.reached.wait()

    assert isinstance(read.result(), EngineUnavailable)


async def test_a_cancelled_poll_gives_back_what_had_arrived_with_its_retries() -> None:
    silence = Silence(answer(1, 2, retries=2))
    async with talking(silence) as (engine, gateway), asyncio.TaskGroup() as tasks:
        poll = tasks.create_task(engine.activate(ASK, 5, 60_000))
        await silence.reached.wait()
        poll.cancel()

    assert poll.cancelled()
    assert sorted((one.jobKey, one.retries) for one in gateway.failed) == [(1, 2), (2, 2)]


async def test_a_job_that_arrives_just_after_a_cancellation_is_given_back_too() -> None:
    asked, cancelled = asyncio.Event(), asyncio.Event()

    async def polled(_: Any) -> AsyncIterator[pb.ActivateJobsResponse]:
        asked.set()
        await cancelled.wait()
        yield answer(1)

    async with talking(polled) as (engine, gateway), asyncio.TaskGroup() as tasks:
        poll = tasks.create_task(engine.activate(ASK, 5, 60_000))
        await asked.wait()
        poll.cancel()
        cancelled.set()
        await asyncio.wait({poll}, timeout=30)

    assert [one.jobKey for one in gateway.failed] == [1]


async def test_a_cancelled_poll_leaves_the_gateway() -> None:
    silence = Silence()
    async with talking(silence) as (engine, _):
        async with asyncio.TaskGroup() as tasks:
            poll = tasks.create_task(engine.activate(ASK, 5, 60_000))
            await silence.reached.wait()
            poll.cancel()
        async with asyncio.timeout(30):
            await silence.left.wait()

    assert poll.cancelled()


async def test_a_timeout_around_a_poll_is_the_callers() -> None:
    silence = Silence()
    async with talking(silence) as (engine, _):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await engine.activate(ASK, 5, 60_000)


async def test_a_closed_stream_gives_back_what_was_pushed_and_not_read() -> None:
    silence = Silence(answer(1), answer(2), answer(3))
    async with talking(silence) as (engine, gateway), aclosing(engine.stream(ASK)) as jobs:
        first = await anext(jobs)
        await silence.reached.wait()

    assert first.key == 1
    assert sorted(one.jobKey for one in gateway.failed) == [2, 3]


async def test_a_closed_stream_leaves_the_gateway() -> None:
    silence = Silence(answer(1))
    async with talking(silence) as (engine, _):
        async with aclosing(engine.stream(ASK)) as jobs:
            await anext(jobs)
        async with asyncio.timeout(30):
            await silence.left.wait()

    assert silence.left.is_set()


async def test_a_stream_that_grew_old_ends_without_an_error() -> None:
    silence = Silence(answer(1))
    async with talking(silence, stream_lifetime_s=0.3) as (engine, _):
        keys = [job.key async for job in engine.stream(ASK)]

    assert keys == [1]


async def test_what_is_pushed_while_a_stream_ends_by_itself_is_read_and_not_lost() -> None:
    # As a busy gateway does: it pushes for a while after the stream's time, and then ends it.
    async def polled(context: Any) -> AsyncIterator[pb.ActivateJobsResponse]:
        for key in range(1, 13):
            yield answer(key)
            await asyncio.sleep(0.04)

    async with talking(polled, stream_lifetime_s=0.3) as (engine, gateway):
        keys = [job.key async for job in engine.stream(ASK)]

    # On a starved machine the reader may give up before the gateway does; then the rest goes back.
    assert [*keys, *(one.jobKey for one in gateway.failed)] == list(range(1, 13))


async def test_what_was_pushed_while_the_process_stood_still_is_read_or_given_back() -> None:
    # Longer than the stream may live and drain: a stopped process that runs again finds its stream too old.
    silence = Silence(*(answer(key) for key in range(1, 11)))
    async with talking(silence, stream_lifetime_s=0.3) as (engine, gateway):
        jobs = engine.stream(ASK)
        keys = [(await anext(jobs)).key]
        await silence.reached.wait()
        time.sleep(1.6)  # noqa: ASYNC251  # the loop stands still
        keys += [job.key async for job in jobs]

    assert sorted([*keys, *(one.jobKey for one in gateway.failed)]) == list(range(1, 11))


async def test_unread_jobs_are_given_back_even_if_their_timeout_is_over() -> None:
    # Zeebe 8.6.0 may have lost that timeout. If another worker runs the job meanwhile, its frame keeps others away.
    late = answer(*range(1, 6))
    for job in late.jobs:
        job.deadline -= 2 * ASK.timeout_ms
    silence = Silence(answer(99), late)
    async with talking(silence) as (engine, gateway), aclosing(engine.stream(ASK)) as jobs:
        await anext(jobs)
        await silence.reached.wait()

    assert sorted(one.jobKey for one in gateway.failed) == [1, 2, 3, 4, 5]
    assert {one.retries for one in gateway.failed} == {3}


async def test_a_feed_that_renews_its_streams_gives_nothing_back_while_jobs_are_pushed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("verbworker.work.feeds.feed._RENEW_AFTER", 0.6)
    monkeypatch.setattr("verbworker.work.feeds.feed._CLOSE_WITHIN", 0.1)
    keys = count(1)
    streams, renewed = count(1), asyncio.Event()

    async def pushed(_: Any) -> AsyncIterator[pb.ActivateJobsResponse]:
        if next(streams) == 4:
            renewed.set()
        while True:
            yield answer(next(keys))
            await asyncio.sleep(0.04)

    taken: list[int] = []

    def start(job: Job, slot: Slot) -> None:
        taken.append(job.key)
        slot.release()

    async with talking(pushed=pushed, stream_lifetime_s=1.4) as (engine, gateway), asyncio.TaskGroup() as tasks:
        feed = Feed(engine, ASK, Slots(ASK.type, 8), start, wait_ms=100, streaming=True)
        tasks.create_task(feed.run())
        async with asyncio.timeout(30):
            await renewed.wait()
        given_back = [one.jobKey for one in gateway.failed]
        feed.stop()

    assert len(taken) > 20
    assert given_back == []


async def test_a_stream_that_breaks_raises_after_the_jobs_it_brought() -> None:
    async def polled(context: Any) -> AsyncIterator[pb.ActivateJobsResponse]:
        yield answer(1)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the gateway goes")

    async with talking(polled) as (engine, _), aclosing(engine.stream(ASK)) as jobs:
        assert (await anext(jobs)).key == 1
        with pytest.raises(EngineUnavailable, match="the gateway goes"):
            await anext(jobs)


async def _outcome(work: Any) -> object:
    try:
        return await work
    except Exception as error:
        return error


@pytest.mark.parametrize("is_poll", [True, False])
async def test_an_answer_ends_an_outage_and_an_error_does_not(is_poll: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def ask(engine: Engine) -> None:
        await (engine.activate(ASK, 1, 0) if is_poll else engine.facts())

    is_let_in = False
    async with serving(guard=lambda _: is_let_in) as (address, _), zeebe(GatewayAddress(address)) as engine:
        is_over = told_outage(ENGINE, caplog)
        with pytest.raises(AccessDenied):
            await ask(engine)
        after_an_error, is_let_in = is_over(), True
        await ask(engine)

    assert (after_an_error, is_over()) == (False, True)
