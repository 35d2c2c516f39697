"""Leases of Camunda 8.10 by what was recorded: tokens, business ids and the cases of the table.

`test_commands_recorded` sends every exchange; this is what follows from the answers.
"""

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.recorded_8_10 import Said, answering, over_grpc, over_rest
from tests.support.rest_replay import Answer, RestServer, Seen, rest_server, wire_json
from tests.support.zeebe_engine import outcome
from verbworker.engine.protocol import Ask, Start
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import (
    AlreadyStarted,
    CommandInvalid,
    EngineError,
    InstanceSuspended,
    JobGone,
    JobNotActive,
    LeaseLost,
)
from verbworker.job.outcome import NO_RESULT

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
            return engine.complete(key, NO_RESULT, lease_token=token)
        case "FailJob":
            retries, message = one.request.get("retries", 0), one.request.get("errorMessage", "")
            return engine.fail(key, retries=retries, message=message, lease_token=token)
        case "ThrowError":
            code, message = one.request["errorCode"], one.request.get("errorMessage", "")
            return engine.throw(key, code=code, message=message, lease_token=token)
        case _:
            return engine.extend(key, int(one.request["timeout"]), lease_token=token)


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


def _replay(one: Said, version: str = "8.10.0-SNAPSHOT") -> Callable[[Seen], Answer]:
    body = b"" if one.response is None else wire_json(one.response)
    topology = json.dumps({"gatewayVersion": version, "clusterSize": 1, "partitionsCount": 1}).encode()

    def answer(seen: Seen) -> Answer:
        return Answer(body=topology) if seen.path.endswith("/topology") else Answer(one.status, body, one.content_type)

    return answer


def over_rest_at(url: str, *, leases: bool = True) -> ZeebeEngine:
    return ZeebeEngine(GatewayAddress(rest_url=url, transport="rest"), engine_id="recorded", leases=leases)


def bodies(server: RestServer) -> list[Any]:
    """What was sent, but for the question for the version."""
    return [seen.json() for seen in server.seen if not seen.path.endswith("/topology")]


def _is_ours(one: Said) -> bool:
    """Whether we send such a command: results of listeners, retries and priorities are others."""
    body = one.request or {}
    change = body.get("changeset", {"timeout": 0})
    return "user-tasks" not in one.path and "result" not in body and set(change) == {"timeout"}


def test_every_case_of_the_table_was_recorded_over_rest_too() -> None:
    found = {(one.path.rsplit("/", 1)[-1], meaning(one)) for one in REST_COMMANDS if _is_ours(one)}

    assert {(word, LeaseLost) for word in ("completion", "failure", "error")} <= found
    assert {("completion", InstanceSuspended), ("failure", InstanceSuspended), ("completion", JobNotActive)} <= found


@pytest.mark.parametrize("one", [one for one in over_rest("POST", "/jobs/activation") if one.status == 200], ids=_name)
async def test_a_rest_activation_asks_for_leases_and_keeps_their_tokens(one: Said) -> None:
    asks, is_asked = one.request, one.request.get("withLease") is True
    with rest_server(_replay(one)) as server:
        async with over_rest_at(server.url, leases=is_asked) as engine:
            jobs = await engine.activate(Ask(asks["type"], asks["worker"], asks["timeout"], ()), 1, 0)

    assert [body.get("withLease", False) for body in bodies(server)] == [is_asked]
    assert [job.lease_token for job in jobs] == [job["leaseToken"] for job in one.response["jobs"]]


@pytest.mark.parametrize("version", ["8.6.0", "8.9.17"])
async def test_rest_of_an_older_version_is_not_asked_for_leases(version: str) -> None:
    one = next(one for one in over_rest("POST", "/jobs/activation") if one.request.get("withLease"))
    with rest_server(_replay(one, version)) as server:
        async with over_rest_at(server.url) as engine:
            await engine.activate(Ask("x", "w", 60_000, ()), 1, 0)
            await engine.activate(Ask("x", "w", 60_000, ()), 1, 0)

    assert ["withLease" in body for body in bodies(server)] == [False, False]
    assert server.paths().count("GET /v2/topology") == 1


@pytest.mark.parametrize(
    "one",
    [one for one in over_rest("POST", "/process-instances") if one.path.endswith("process-instances")],
    ids=_name,
)
async def test_a_rest_start_carries_the_business_id(one: Said) -> None:
    given = one.request.get("businessId")
    with rest_server(_replay(one)) as server:
        async with over_rest_at(server.url) as engine:
            start = Start(one.request.get("processDefinitionId", "x"), {}, business_id=given)
            answer = await outcome(engine.start(start))

    assert [body.get("businessId") for body in bodies(server)] == [given]
    if one.status != 200:
        assert type(answer) is (AlreadyStarted if one.status == 409 else CommandInvalid)


@pytest.mark.parametrize(("version", "is_sent"), [("8.6.0", False), ("8.8.21", False), ("8.9.0", True)])
async def test_an_older_version_gets_no_business_id(version: str, is_sent: bool) -> None:
    one = next(one for one in over_rest("POST", "/process-instances") if one.path.endswith("process-instances"))
    with rest_server(_replay(one, version)) as server:
        async with over_rest_at(server.url) as engine:
            await engine.start(Start("x", {}, business_id="e-1"))

    assert ["businessId" in body for body in bodies(server)] == [is_sent]
