"""Commands and jobs over REST: recorded answers, bad answers, jobs given back, and how a transport is chosen."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import grpc
import pytest

from tests.support.connections import NOWHERE
from tests.support.engines import Gateway, RestPlace
from tests.support.gateway_in_process import serving
from tests.support.ports import LOOPBACK, free_ports
from tests.support.rest_replay import Answer, Exchange, RestServer, Seen, now, problem, recorded, replayed, rest_server
from tests.support.zeebe_engine import WAIT_MS, Bench, until_it_works
from tests.support.zeebe_models import sequence
from verbworker.engine.protocol import Ask, Resource, Signal, Start
from verbworker.engine.zeebe import transport as transports
from verbworker.engine.zeebe.connection import Choice, GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import (
    AccessDenied,
    Backpressure,
    CommandInvalid,
    ContractInvalid,
    EngineError,
    EngineUnavailable,
    JobGone,
    JobNotActive,
)
from verbworker.job.outcome import NO_RESULT, JobResult

JOB = 2251799813685360
MESSAGE = Signal("papers", "c-2", "m-1", 60_000, {})
LIMIT_S = 2.0
"""For a server that takes its time; long enough for a busy machine to send a request."""
AMPLE_S = 30.0
"""For one that answers at once: only a client that waits for more than the answer comes near it."""


@asynccontextmanager
async def engine_at(
    url: str, *, transport: Choice = "rest", address: str = NOWHERE, limit: float = 10.0
) -> AsyncIterator[ZeebeEngine]:
    connection = GatewayAddress(address, rest_url=url, transport=transport, call_timeout_s=limit)
    async with ZeebeEngine(connection, engine_id="test") as engine:
        yield engine


def ask(job_type: str, timeout_ms: int = 30_000) -> Ask:
    return Ask(job_type, "w", timeout_ms, ())


@contextmanager
def replay() -> Iterator[RestServer]:
    """Each request gets the next answer that was recorded for its method and path."""
    left = recorded()

    def answer(seen: Seen) -> Answer:
        for exchange in left:
            if (exchange.method, exchange.path) == (seen.method, seen.path) and _is_same(exchange, seen):
                left.remove(exchange)
                return replayed(exchange)
        return problem(599, "NOT_RECORDED", seen.path)

    with rest_server(answer) as server:
        yield server


def _is_same(exchange: Exchange, seen: Seen) -> bool:
    """Whether it is what was asked then: of the same type, process or file."""
    if isinstance(exchange.request, str):
        return exchange.request.partition("resources=")[2].encode() in seen.body
    wanted, sent = exchange.request or {}, seen.json() or {}
    return all(wanted.get(name) == sent.get(name) for name in ("type", "processDefinitionId", "correlationKey"))


async def test_the_life_of_a_job_is_read_as_the_engine_recorded_it() -> None:
    with replay() as server:
        async with engine_at(server.url) as engine:
            facts = await engine.facts()
            (deployed,) = await engine.deploy([Resource("work.bpmn", b"<bpmn/>")])
            started = await engine.start(Start("work", {}))
            (job,) = await engine.activate(ask("x.do"), 1, 5_000)
            await engine.extend(job.key, 60_000)
            await engine.fail(job.key, retries=2, message="try again", backoff_ms=500)
            with pytest.raises(JobNotActive, match="it is in state 'FAILED'"):
                await engine.complete(job.key, NO_RESULT)
            (again,) = await engine.activate(ask("x.do"), 1, 5_000)
            await engine.fail(job.key, retries=0, message="out of retries")
            await engine.release(job.key, retries=1, incident_key=2251799813685363)

    assert (facts.version, facts.brokers, facts.partitions) == ("8.9.17", 1, 1)
    assert (deployed.process_id, deployed.version, deployed.definition_key) == ("work", 1, 2251799813685354)
    assert (started.instance_key, started.definition_key) == (2251799813685355, deployed.definition_key)
    assert (job.key, job.retries, again.retries) == (JOB, 3, 2)
    assert (job.process_instance_key, job.element_id, job.headers) == (started.instance_key, "t", {"h": "v"})
    assert (job.timeout_ms, job.tenant_id) == (30_000, "<default>")


async def test_listener_jobs_keep_their_headers() -> None:
    with replay() as server:
        async with engine_at(server.url) as engine:
            (job,) = await engine.activate(ask("vw.creating", 60_000), 5, 5_000)

    assert job.headers["io.camunda.zeebe:userTaskKey"] == "2251799813685327"


async def test_messages_and_ends_are_read_as_recorded() -> None:
    with replay() as server:
        async with engine_at(server.url) as engine:
            await engine.publish(MESSAGE)
            await engine.publish(MESSAGE)  # still buffered: it counts as published
            assert await engine.correlate("papers", "c-9", {}) is None
            assert await engine.correlate("papers", "c-1", {}) == 2251799813685393
            await engine.cancel(2251799813685339)
            with pytest.raises(JobGone):
                await engine.cancel(2251799813685339)
            with pytest.raises(CommandInvalid, match="zeebe:taskDefinition"):
                await engine.deploy([Resource("bad.bpmn", b"<bpmn/>")])


COMMANDS: dict[str, Callable[[ZeebeEngine], Awaitable[Any]]] = {
    "facts": lambda engine: engine.facts(),
    "deploy": lambda engine: engine.deploy([Resource("a.bpmn", b"<bpmn/>")]),
    "start": lambda engine: engine.start(Start("work", {})),
    "activate": lambda engine: engine.activate(ask("x.do"), 1, 0),
    "complete": lambda engine: engine.complete(JOB, JobResult(flags={"a": 1})),
    "fail": lambda engine: engine.fail(JOB, retries=1, message="x"),
    "throw": lambda engine: engine.throw(JOB, code="x", message="y"),
    "extend": lambda engine: engine.extend(JOB, 1000),
    "release": lambda engine: engine.release(JOB, retries=1),
    "publish": lambda engine: engine.publish(MESSAGE),
    "correlate": lambda engine: engine.correlate("papers", "c-1", {}),
    "cancel": lambda engine: engine.cancel(JOB),
    "alive": lambda engine: engine.alive(JOB),
}
FAULTS: dict[str, tuple[Answer, type[EngineError]]] = {
    "unavailable": (problem(503, "UNAVAILABLE"), EngineUnavailable),
    "timed out": (problem(504, "DEADLINE_EXCEEDED"), EngineUnavailable),
    "denied": (problem(403, "FORBIDDEN"), AccessDenied),
    "proxy": (Answer(404, b"<html>", "text/html"), EngineUnavailable),
    "slow": (Answer(200, b"{}", delay_s=30.0), EngineUnavailable),
    "cut": (Answer(200, b'{"jobs": []}', cut_after=3), EngineUnavailable),
    "no HTTP": (Answer(raw=b"\x00\x01\r\n\r\n"), EngineUnavailable),
    "garbage": (Answer(200, b"\xff\xfe{"), EngineUnavailable),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("command", COMMANDS)
async def test_a_bad_answer_ends_a_command_in_time_and_it_is_sent_once(command: str, fault: str) -> None:
    answer, error = FAULTS[fault]
    with rest_server(lambda _: answer) as server:
        async with engine_at(server.url, limit=LIMIT_S if answer.is_slow else AMPLE_S) as engine:
            began = now()
            with pytest.raises(error):
                await COMMANDS[command](engine)

            # Who must not modify an instance asks for it in another way.
            requests = 2 if (command, fault) == ("alive", "denied") else 1
            assert (len(server.seen), now() - began < AMPLE_S) == (requests, True)


@pytest.mark.parametrize(
    ("command", "error"),
    [
        *((command, JobGone) for command in ("complete", "fail", "throw", "extend", "release", "cancel")),
        *((command, CommandInvalid) for command in ("start", "publish", "deploy")),
    ],
)
async def test_what_is_not_found_is_benign_for_jobs_and_a_mistake_otherwise(
    command: str, error: type[EngineError]
) -> None:
    with rest_server(lambda _: problem(404, "NOT_FOUND")) as server:
        async with engine_at(server.url) as engine:
            with pytest.raises(error):
                await COMMANDS[command](engine)

    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("command", "error"),
    [
        *((command, JobNotActive) for command in ("complete", "fail", "throw", "extend", "release")),
        *((command, CommandInvalid) for command in ("cancel", "start")),
    ],
)
async def test_a_conflict_is_raised(command: str, error: type[EngineError]) -> None:
    with rest_server(lambda _: problem(409, "INVALID_STATE")) as server:
        async with engine_at(server.url) as engine:
            with pytest.raises(error):
                await COMMANDS[command](engine)

    assert len(server.seen) == 1


@pytest.mark.parametrize("busy", [problem(429, "RESOURCE_EXHAUSTED"), problem(503, "RESOURCE_EXHAUSTED")])
@pytest.mark.parametrize("command", ["start", "publish", "activate", "throw"])
async def test_a_busy_cluster_is_asked_again_a_few_times(command: str, busy: Answer) -> None:
    with rest_server(lambda _: busy) as server:
        async with engine_at(server.url) as engine:
            with pytest.raises(Backpressure):
                await COMMANDS[command](engine)

    assert len(server.seen) == 4


@pytest.mark.parametrize(
    "body", [{}, {"jobs": 7}, {"jobs": [7]}, {"jobs": [{}]}, {"jobs": [{"jobKey": "x"}]}, [], "x", 7]
)
async def test_an_answer_of_another_form_is_no_answer(body: object) -> None:
    with rest_server(lambda _: Answer(200, json.dumps(body).encode())) as server:
        async with engine_at(server.url) as engine:
            for command in ("facts", "start", "deploy", "activate"):
                with pytest.raises(EngineUnavailable):
                    await COMMANDS[command](engine)


_MODIFY = "Expected to modify instance of process 'parcel' but it contains one or more activate instructions with an"
UNKNOWN = problem(400, "INVALID_ARGUMENT", f"{_MODIFY} element that could not be found: 'verbworker-is-it-alive'")
ITSELF = problem(
    400, "INVALID_ARGUMENT", f"{_MODIFY} ancestor scope key that is not an ancestor of the element to activate"
)
ELEMENT = problem(
    *(400, "INVALID_ARGUMENT"),
    f"{_MODIFY} ancestor scope key that does not belong to the modified process instance: '7'",
)
GONE = problem(404, "NOT_FOUND", "but no process instance found with key '7'")
SUSPENDED = problem(409, "INVALID_STATE", "Expected to modify instance of process 'x' but it is currently suspended.")


@pytest.mark.parametrize(
    ("answers", "is_alive"),
    [
        ((UNKNOWN, ITSELF), True),
        ((UNKNOWN, ELEMENT), False),
        ((UNKNOWN, GONE), False),
        ((GONE,), False),
        ((SUSPENDED,), True),
    ],
)
async def test_an_instance_is_looked_for_by_modifications_that_no_model_takes(
    answers: tuple[Answer, ...], is_alive: bool
) -> None:
    left = iter(answers)
    with rest_server(lambda _: next(left)) as server:
        async with engine_at(server.url) as engine:
            assert await engine.alive(7) is is_alive

    asked = [{"elementId": "verbworker-is-it-alive"}, {"elementId": "parcel", "ancestorElementInstanceKey": "7"}]
    assert [(seen.path, seen.json()) for seen in server.seen] == [
        ("/v2/process-instances/7/modification", {"activateInstructions": [one]}) for one in asked[: len(answers)]
    ]


def one_job() -> Answer:
    return next(replayed(one) for one in recorded() if one.name == "activate x.do")


async def test_a_cancelled_poll_gives_its_jobs_back_without_costing_a_retry() -> None:
    def answer(seen: Seen) -> Answer:
        if seen.path != "/v2/jobs/activation":
            return Answer(204)
        return Answer(200, one_job().body, delay_s=0.1)

    with rest_server(answer) as server:
        async with engine_at(server.url) as engine:
            poll = asyncio.ensure_future(engine.activate(ask("x.do"), 1, 10_000))
            while not server.seen:  # noqa: ASYNC110  # it arrives in another thread
                await asyncio.sleep(0.01)
            poll.cancel()
            with pytest.raises(asyncio.CancelledError):
                await poll

    assert server.paths() == ["POST /v2/jobs/activation", f"POST /v2/jobs/{JOB}/failure"]
    assert server.seen[1].json()["retries"] == 3


async def test_a_poll_waits_between_short_polls_and_not_in_the_gateway() -> None:
    empty = Answer(200, b'{"jobs": []}')
    answers = iter([empty, empty, one_job()])
    with rest_server(lambda _: next(answers)) as server:
        async with engine_at(server.url) as engine:
            jobs = await engine.activate(ask("x.do"), 1, 10_000)

    assert [job.key for job in jobs] == [JOB]
    assert {one.json()["requestTimeout"] for one in server.seen} == {-1}


async def test_a_poll_that_finds_nothing_ends_after_its_wait() -> None:
    with rest_server(lambda _: Answer(200, b'{"jobs": []}')) as server:
        async with engine_at(server.url) as engine:
            began = now()
            assert await engine.activate(ask("x.do"), 1, 300) == []

            assert 0.3 <= now() - began < 5.0


async def test_an_idle_type_is_not_asked_for_more_often_by_short_polls() -> None:
    with rest_server(lambda _: Answer(200, b'{"jobs": []}')) as server:
        async with engine_at(server.url) as engine:
            for _ in range(4):
                await engine.activate(ask("x.do"), 1, 1_000)
            idle = len(server.seen)
            await engine.activate(ask("x.other"), 1, 0)
            await engine.activate(ask("x.do"), 1, 0)

    # Each call would make five or six polls of its own, if it did not know of the ones before.
    assert idle <= 14
    assert [one.json()["type"] for one in server.seen[idle:]] == ["x.other", "x.do"]  # no wait asked for, none made


async def test_after_a_job_the_next_poll_is_not_delayed() -> None:
    answers = iter([*[Answer(200, b'{"jobs": []}')] * 8, one_job(), one_job()])
    with rest_server(lambda _: next(answers)) as server:
        async with engine_at(server.url) as engine:
            assert await engine.activate(ask("x.do"), 1, 30_000)
            began = now()
            assert await engine.activate(ask("x.do"), 1, 30_000)
            took = now() - began

    assert len(server.seen) == 10
    assert took < 5.0


async def test_a_stream_is_refused_over_rest() -> None:
    async with engine_at("http://127.0.0.1:9") as engine:
        with pytest.raises(CommandInvalid, match="needs gRPC"):
            _ = [job async for job in engine.stream(ask("x.do"))]


def test_rest_alone_needs_an_address() -> None:
    with pytest.raises(ContractInvalid, match="set ZEEBE_REST_ADDRESS"):
        ZeebeEngine(GatewayAddress(transport="rest"), engine_id="test")


# ---- auto ------------------------------------------------------------------------------------------------------------

CHANGES = "gRPC is switched off; jobs are polled and commands sent over REST"


def changes(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == transports.__name__]


def topology(_: Seen) -> Answer:
    return next(replayed(one) for one in recorded() if one.name == "topology")


async def test_where_grpc_refuses_connections_rest_is_used_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with rest_server(topology) as server:
        async with engine_at(server.url, transport="auto") as engine:
            await asyncio.gather(*(engine.facts() for _ in range(5)))
            facts = await engine.facts()
            with pytest.raises(CommandInvalid, match="needs gRPC"):
                _ = [job async for job in engine.stream(ask("x.do"))]
            offers = await engine.offers()

    assert facts.version == "8.9.17"
    assert changes(caplog) == [CHANGES]
    assert (offers.grpc.is_there, offers.rest.is_there, offers.pushes_jobs) == (False, True, False)


async def test_where_grpc_offers_no_zeebe_rest_is_used(caplog: pytest.LogCaptureFixture) -> None:
    other = grpc.aio.server()
    port = other.add_insecure_port("127.0.0.1:0")
    await other.start()
    try:
        with rest_server(topology) as server:
            async with engine_at(server.url, transport="auto", address=f"127.0.0.1:{port}") as engine:
                assert (await engine.facts()).version == "8.9.17"
    finally:
        await other.stop(None)

    assert changes(caplog) == [CHANGES]


async def test_where_both_are_away_the_error_is_that_of_grpc(caplog: pytest.LogCaptureFixture) -> None:
    async with engine_at("http://127.0.0.1:9", transport="auto") as engine:
        with pytest.raises(EngineUnavailable, match="Topology"):
            await engine.facts()

    assert changes(caplog) == []


async def test_where_grpc_answers_rest_is_not_asked() -> None:
    with rest_server(topology) as server:
        async with serving() as (address, _), engine_at(server.url, transport="auto", address=address) as engine:
            await engine.facts()

    assert server.seen == []


async def test_a_cluster_whose_grpc_answered_is_given_time_to_restart(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncExitStack() as stack:
        server = stack.enter_context(rest_server(topology))
        async with serving() as (address, _):
            engine = await stack.enter_async_context(engine_at(server.url, transport="auto", address=address))
            await engine.facts()
        with pytest.raises(EngineUnavailable):
            await engine.facts()
        assert (server.seen, changes(caplog)) == ([], [])

        monkeypatch.setattr(transports, "_REFUSED_FOR_S", 0.0)
        facts = await until_it_works(engine.facts)

    assert (facts.version, changes(caplog)) == ("8.9.17", [CHANGES])


async def test_grpc_that_comes_back_is_used_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transports, "_LOOK_AGAIN_S", 0.0)
    (port,) = free_ports(1)
    async with AsyncExitStack() as stack:
        server = stack.enter_context(rest_server(topology))
        engine = await stack.enter_async_context(engine_at(server.url, transport="auto", address=f"{LOOPBACK}:{port}"))
        await engine.facts()
        _, gateway = await stack.enter_async_context(serving(port=port))
        async with asyncio.timeout(30):
            while not gateway.headers:  # the channel pauses between its attempts to connect
                await engine.facts()
                await asyncio.sleep(0.05)
        asked = len(server.seen)
        await engine.facts()

    assert len(server.seen) == asked
    assert changes(caplog) == [CHANGES, "gRPC is available again; jobs and commands go over gRPC"]


# ---- what a cluster offers -------------------------------------------------------------------------------------------


def with_search(answer: Answer) -> Callable[[Seen], Answer]:
    return lambda seen: answer if seen.path.endswith("/search") else topology(seen)


@pytest.mark.parametrize(
    ("answer", "is_there", "reason"),
    [
        (Answer(200, b'{"items": [], "page": {}}'), True, ""),
        (problem(403, "FORBIDDEN", "no secondary storage"), False, "403 no secondary storage"),
        (problem(404, "Not Found"), False, "404"),
        (problem(405, "Method Not Allowed"), False, "405"),
        (problem(503, "UNAVAILABLE", "starting"), None, "503 starting"),
        (Answer(200, b"{}", delay_s=30.0), None, "in time"),
    ],
)
async def test_whether_there_is_a_search_is_found_out_once(
    answer: Answer, is_there: bool | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verbworker.engine.zeebe.offers._LOOK_S", 2.0)
    with rest_server(with_search(answer)) as server:
        async with engine_at(server.url) as engine:
            offers = [await engine.offers()]
            asked = len(server.seen)
            offers += [await engine.offers() for _ in range(2)]

    assert [one.search.is_there for one in offers] == [is_there] * 3
    assert reason in offers[0].search.reason
    assert len(server.seen) == asked


async def test_without_any_api_nothing_is_raised() -> None:
    async with engine_at("http://127.0.0.1:9", transport="auto") as engine:
        offers = await engine.offers()

    assert [offers.grpc.is_there, offers.rest.is_there, offers.search.is_there] == [False, False, False]


async def test_a_cluster_without_a_rest_address_says_how_to_change_that() -> None:
    async with ZeebeEngine(GatewayAddress(NOWHERE), engine_id="test") as engine:
        offers = await engine.offers()

    assert (offers.rest.is_there, offers.rest.reason) == (False, "ZEEBE_REST_ADDRESS is not set")


@pytest.mark.zeebe
async def test_a_real_broker_without_grpc_is_worked_for_over_rest(
    broker: Gateway, unique: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    url = RestPlace(broker).address.replace("rest://", "http://")
    async with engine_at(url, transport="auto") as engine:
        bench = Bench(engine, unique("case"), unique("kyc.check"))
        job = await bench.running(sequence(bench.process, bench.job_type))
        await engine.complete(job.key, NO_RESULT)
        offers = await engine.offers()

        assert not await engine.alive(job.process_instance_key)
        assert await engine.activate(bench.ask(), 1, WAIT_MS // 100) == []
    assert (offers.grpc.is_there, offers.rest.is_there, offers.search.is_there) == (False, True, False)
    assert changes(caplog) == [CHANGES]
