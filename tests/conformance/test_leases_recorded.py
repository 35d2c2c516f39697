"""Leases of Camunda 8.10: every recorded exchange, sent by our own engine and answered as it was recorded."""

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.recorded_8_10 import Said, answering, over_grpc, over_rest, recorded
from tests.support.rest_replay import Answer, Seen, rest_server
from tests.support.zeebe_engine import outcome
from verbworker.engine.protocol import Ask, Start
from verbworker.engine.zeebe.auth import access
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.engine.zeebe.later_fields import answer_with_lease, ask_with_lease, read_lease, start_with_business_id
from verbworker.engine.zeebe.rest_client import RestClient
from verbworker.errors import (
    AlreadyStarted,
    CommandInvalid,
    EngineError,
    InstanceSuspended,
    JobGone,
    JobNotActive,
    LeaseLost,
)

V8_10 = (8, 10, 0)
# Results of task listeners and business ids of jobs are no part of these commands.
_OTHERS = {"businessId", "result"}
_RPCS = ("CompleteJob", "FailJob", "ThrowError", "UpdateJobTimeout")
COMMANDS = [one for one in over_grpc(*_RPCS) if not _OTHERS & set(one.request)]
ACTIVATIONS = list(over_grpc("ActivateJobs"))
STREAMS = list(over_grpc("StreamActivatedJobs"))
STARTS = list(over_grpc("CreateProcessInstance"))
REST_COMMANDS = [
    *over_rest("POST", "/completion"),
    *over_rest("POST", "/failure"),
    *over_rest("POST", "/error"),
    *over_rest("PATCH", "/jobs/"),
]
_MEANINGS: tuple[tuple[str, type[EngineError]], ...] = (
    ("matching lease token must be provided", LeaseLost),
    ("lease token does not match", LeaseLost),
    ("process instance is suspended", InstanceSuspended),
    ("no such", JobGone),
    ("it is not active", JobNotActive),
    ("in state 'FAILED'", JobNotActive),
    ("Cannot throw BPMN error", JobNotActive),
)


def _name(one: Said) -> str:
    return f"{one.number} {one.name}"


def meaning(one: Said) -> type[EngineError] | None:
    """The error that a refusal must become; None for an accepted command."""
    if one.code == "OK" or 200 <= one.status < 300:
        return None
    return next((error for words, error in _MEANINGS if words in one.reason), CommandInvalid)


def engine_for(address: str, *, leases: bool = True) -> ZeebeEngine:
    return ZeebeEngine(GatewayAddress(address), engine_id="recorded", leases=leases)


def send(engine: ZeebeEngine, one: Said) -> Awaitable[None]:
    """The command of our engine that was recorded."""
    key, token = int(one.request["jobKey"]), one.request.get("leaseToken")
    match one.rpc:
        case "CompleteJob":
            return engine.complete(key, {}, lease_token=token)
        case "FailJob":
            retries, message = one.request.get("retries", 0), one.request.get("errorMessage", "")
            return engine.fail(key, retries=retries, message=message, lease_token=token)
        case "ThrowError":
            code, message = one.request["errorCode"], one.request.get("errorMessage", "")
            return engine.throw(key, code=code, message=message, lease_token=token)
        case _:
            return engine.extend(key, int(one.request["timeout"]), lease_token=token)


@pytest.mark.parametrize("one", COMMANDS, ids=_name)
async def test_a_command_is_sent_and_answered_as_recorded(one: Said) -> None:
    async with answering(one) as (address, gateway), engine_for(address) as engine:
        answer = await outcome(send(engine, one))

    expected = {name: value for name, value in one.request.items() if name != "variables"}
    assert [{name: value for name, value in asked.items() if name != "variables"} for asked in gateway.asked] == [
        expected
    ]
    assert (None if answer is None else type(answer)) is meaning(one)


def test_every_case_of_the_table_was_recorded() -> None:
    found = {(one.rpc, meaning(one)) for one in COMMANDS}
    reporting = {(rpc, LeaseLost) for rpc in _RPCS}

    assert reporting | {("UpdateJobTimeout", JobNotActive), ("CompleteJob", JobGone), ("CompleteJob", None)} <= found
    assert ("UpdateJobTimeout", None) in {(one.rpc, meaning(one)) for one in COMMANDS if one.lease_token is None}


@pytest.mark.parametrize("one", ACTIVATIONS, ids=_name)
async def test_a_poll_asks_for_leases_and_keeps_their_tokens(one: Said) -> None:
    asks = one.request
    ask = Ask(asks["type"], asks["worker"], int(asks["timeout"]), ())
    async with answering(one) as (address, gateway), engine_for(address, leases="withLease" in asks) as engine:
        jobs = await engine.activate(ask, asks["maxJobsToActivate"], int(asks["requestTimeout"]))

    given = [job for answer in one.response for job in answer["jobs"]]
    assert gateway.asked == [asks]
    assert [(job.key, job.lease_token) for job in jobs] == [(int(job["key"]), job.get("leaseToken")) for job in given]


@pytest.mark.parametrize("one", STREAMS, ids=_name)
async def test_a_stream_brings_the_token_too(one: Said) -> None:
    asks = one.request
    ask = Ask(asks["type"], asks["worker"], int(asks["timeout"]), ())
    async with answering(one) as (address, gateway), engine_for(address, leases="withLease" in asks) as engine:
        jobs = [job async for job in engine.stream(ask)]

    assert gateway.asked == [asks]
    assert [job.lease_token for job in jobs] == [one.response.get("leaseToken")]


async def test_without_leases_nothing_is_asked_and_no_token_is_read() -> None:
    one = next(one for one in ACTIVATIONS if one.request.get("withLease"))
    ask = Ask(one.request["type"], "w", 60_000, ())
    async with answering(one) as (address, gateway), engine_for(address, leases=False) as engine:
        (job,) = await engine.activate(ask, 1, 1_000)

    assert "withLease" not in gateway.asked[0]
    assert job.lease_token is None


async def test_an_engine_that_leases_nothing_is_worth_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    one = next(one for one in ACTIVATIONS if one.response and not one.request.get("withLease"))
    ask = Ask(one.request["type"], "w", 60_000, ())
    with caplog.at_level(logging.WARNING):
        async with answering(one) as (address, _), engine_for(address) as engine:
            jobs = [*await engine.activate(ask, 1, 1_000), *await engine.activate(ask, 1, 1_000)]

    assert [job.lease_token for job in jobs] == [None, None]
    assert [record.message for record in caplog.records if "leases are on" in record.message] == [
        "leases are on, but the engine leased no job: it is older than 8.10; working without leases"
    ]


async def test_a_token_is_in_no_log_line_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    one = next(one for one in COMMANDS if "stale" in one.name)
    with caplog.at_level(logging.DEBUG):
        async with answering(one) as (address, _), engine_for(address) as engine:
            refused = await outcome(send(engine, one))
    first = next(one for one in ACTIVATIONS if one.request.get("withLease"))
    async with answering(first) as (address, _), engine_for(address) as engine:
        (job,) = await engine.activate(Ask("x", "w", 60_000, ()), 1, 1_000)

    assert one.lease_token is not None
    assert job.lease_token is not None
    assert one.lease_token not in caplog.text + str(refused)
    assert job.lease_token not in repr(job)


# ---- business ids ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", STARTS, ids=_name)
async def test_a_start_carries_the_business_id(one: Said) -> None:
    given = one.request.get("businessId")
    start = Start(one.request["bpmnProcessId"], {}, business_id=given)
    async with answering(one) as (address, gateway), engine_for(address) as engine:
        answer = await outcome(engine.start(start))

    assert gateway.asked[0].get("businessId") == given
    if one.code == "OK":
        assert getattr(answer, "instance_key", None) == int(one.response["processInstanceKey"])
    else:
        assert type(answer) is (AlreadyStarted if one.code == "ALREADY_EXISTS" else CommandInvalid)


# ---- REST -----------------------------------------------------------------------------------------------------------


def _replay(one: Said) -> Callable[[Seen], Answer]:
    body = b"" if one.response is None else json.dumps(one.response).encode()
    return lambda _: Answer(one.status, body, one.content_type)


async def call(one: Said, body: Any) -> tuple[Any, list[Seen]]:
    """Send a body where it was recorded and return the outcome."""
    with rest_server(_replay(one)) as server:
        address = GatewayAddress(rest_url=server.url)
        rest = RestClient(address, access(address))
        await rest.open()
        try:
            path = one.path.removeprefix("/v2")
            return await outcome(rest.call(one.method, path, body, what=one.name)), server.seen
        finally:
            await rest.close()


@pytest.mark.parametrize("one", [one for one in REST_COMMANDS if "user-tasks" not in one.path], ids=_name)
async def test_a_rest_command_is_sent_and_answered_as_recorded(one: Said) -> None:
    body = one.request
    if isinstance(body, dict):
        bare = {name: value for name, value in body.items() if name != "leaseToken"}
        body = answer_with_lease(bare, one.lease_token) if one.lease_token is not None else body
    answer, seen = await call(one, body)

    assert [request.json() for request in seen] == [one.request]
    assert (None if answer is None else type(answer)) is meaning(one)


@pytest.mark.parametrize("one", list(over_rest("POST", "/jobs/activation")), ids=_name)
async def test_a_rest_activation_asks_for_leases_and_keeps_their_tokens(one: Said) -> None:
    bare = {name: value for name, value in one.request.items() if name != "withLease"}
    is_asked = one.request.get("withLease") is True
    body = ask_with_lease(bare, version=V8_10, leases=is_asked)
    answer, seen = await call(one, body)

    assert [request.json() for request in seen] == [{**bare, "withLease": True} if is_asked else bare]
    if one.status == 200:
        tokens = [read_lease(job) for job in answer["jobs"]]
        assert tokens == [job["leaseToken"] for job in one.response["jobs"]]


@pytest.mark.parametrize(
    "one", [one for one in over_rest("POST", "/process-instances") if one.path.endswith("process-instances")], ids=_name
)
async def test_a_rest_start_carries_the_business_id(one: Said) -> None:
    bare = {name: value for name, value in one.request.items() if name != "businessId"}
    given = one.request.get("businessId")
    answer, seen = await call(one, start_with_business_id(bare, given, version=V8_10))

    assert [request.json() for request in seen] == [one.request]
    if one.status != 200:
        assert type(answer) is (AlreadyStarted if one.status == 409 else CommandInvalid)


@pytest.mark.parametrize("version", [None, (8, 6, 0), (8, 9, 17)])
def test_rest_of_an_older_version_gets_no_lease(version: tuple[int, int, int] | None) -> None:
    assert ask_with_lease({"type": "x"}, version=version, leases=True) == {"type": "x"}


@pytest.mark.parametrize(("version", "is_sent"), [(None, False), ((8, 8, 0), False), ((8, 9, 0), True)])
def test_rest_of_an_older_version_gets_no_business_id(version: tuple[int, int, int] | None, is_sent: bool) -> None:
    assert ("businessId" in start_with_business_id({}, "e-1", version=version)) is is_sent


def test_the_recording_is_whole() -> None:
    assert len(recorded()) == 306
